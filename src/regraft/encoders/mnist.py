"""The network that ``regraft reproduce cmnist`` trains on coloured digits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from regraft.data.image_files import to_rgb
from regraft.encoders.mnist_cnn import N_FEATURES, mnist_cnn
from regraft.encoders.network_encoder import NetworkEncoder
from regraft.encoders.weights import put_weights, read_weights

if TYPE_CHECKING:
    from PIL.Image import Image

NAME = "mnist_cnn"
_EXTRA = "images"
_SIDE = 28
_FEATURIZER, _CLASSIFIER = "0.", "1."  # of a checkpoint


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
