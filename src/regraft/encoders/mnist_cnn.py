"""DomainBed's network for digits, which ``regraft reproduce cmnist`` trains, and its encoder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regraft.data.image_files import to_rgb
from regraft.encoders.base import NetworkEncoder
from regraft.encoders.weights import put_weights, read_weights

if TYPE_CHECKING:
    from PIL.Image import Image

NAME = "mnist_cnn"
N_FEATURES = 128
_EXTRA = "images"
_SIDE = 28
_GROUPS = 8
_FEATURIZER, _CLASSIFIER = "0.", "1."  # of a checkpoint


def mnist_cnn(n_channels: int = 2) -> nn.Sequential:
    """Make a network from images (b, n_channels, 28, 28) to features (b, ``N_FEATURES``).

    Four 3 x 3 convolutions, normalized after the ReLU, then the mean over the pixels. The initial
    weights are drawn from torch's global generator.
    """
    layers: list[nn.Module] = []
    widths = ((n_channels, 64, 1), (64, 128, 2), (128, 128, 1), (128, N_FEATURES, 1))
    for n_in, n_out, stride in widths:
        convolution = nn.Conv2d(n_in, n_out, kernel_size=3, stride=stride, padding=1)
        layers += [convolution, nn.ReLU(), nn.GroupNorm(_GROUPS, n_out)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def load_mnist_cnn(device: str, weights: Path | None) -> NetworkEncoder:
    """Load the featurizer of the Phase 1 checkpoint ``weights``, for digits in red and green."""
    if weights is None:
        raise ValueError(
            f"{NAME} has no weights of its own: pass a checkpoint from the folder phase1 of "
            "regraft reproduce cmnist with --weights."
        )
    state = {
        name.removeprefix(_FEATURIZER): tensor
        for name, tensor in read_weights(weights).items()
        if not name.startswith(_CLASSIFIER)
    }
    with torch.random.fork_rng(devices=[]):  # initial weights are drawn, only to be replaced
        network = mnist_cnn()
    put_weights(network, state, str(weights))
    return _DigitEncoder(
        NAME,
        network,
        N_FEATURES,
        device,
        mean=(0.0, 0.0),
        deviation=(255.0, 255.0),
        preparation={"size": [_SIDE, _SIDE], "channels": ["red", "green"]},
    )


class _DigitEncoder(NetworkEncoder):
    def pixels(self, image: Image) -> NDArray[np.uint8]:
        """Return the digit as it is; it must have 28 x 28 pixels in red and green, or in grey."""
        if image.size != (_SIDE, _SIDE):
            raise ValueError(
                f"it has {image.width} x {image.height} pixels, but {NAME} takes digits of "
                f"{_SIDE} x {_SIDE}."
            )
        pixels = np.array(to_rgb(image, _EXTRA))
        red, green, blue = np.moveaxis(pixels, 2, 0)
        is_grey = np.array_equal(red, green) and np.array_equal(green, blue)
        if blue.any() and not is_grey:
            raise ValueError(
                f"it has blue in it, but {NAME} takes digits in red and green, or in grey, as PNG "
                "files keep them."
            )
        return pixels
