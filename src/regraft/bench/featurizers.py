"""Pretrained networks that Phase 1 fine-tunes on images, by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regraft.encoders.efficientnet_lite import make_efficientnet_lite0
from regraft.encoders.weights import put_weights, read_weights
from regraft.extras import require

PAPERS = "resnet50.ram_in1k"
LITE = "efficientnet_lite0"


@dataclass(frozen=True)
class Featurizer:
    """A network in evaluation mode, from normalized images (b, 3, s, s) to features (b, d)."""

    network: nn.Module
    mean: tuple[float, ...]  # to be taken off red, green and blue in [0, 1]
    deviation: tuple[float, ...]  # and by which to divide them then

    def n_features(self, size: int) -> int:
        """How many features it gives of images of ``size`` x ``size`` pixels.

        Raises ``ValueError`` with one sentence if it takes no such images.
        """
        try:
            with torch.no_grad():
                return int(self.network(torch.zeros(1, 3, size, size)).shape[1])
        except (AssertionError, IndexError, RuntimeError) as error:
            reason = str(error).strip().partition("\n")[0].rstrip(".")
            raise ValueError(
                f"the encoder takes no images of {size} x {size} pixels ({reason}): choose another "
                "--size."
            ) from None


def load_featurizer(name: str, weights: Path | None = None) -> Featurizer:
    """EfficientNet-Lite0 as ``efficientnet_lite0``, or any network by timm's name.

    Its pretrained weights are those that come with it, or those in the safetensors file
    ``weights``. Raises ``ValueError``, ``FileNotFoundError`` or ``MissingExtra`` with one sentence.
    """
    return _lite(weights) if name == LITE else _timm(name, weights)


def _lite(weights: Path | None) -> Featurizer:
    network = make_efficientnet_lite0()
    if weights is not None:
        put_weights(network, read_weights(weights), str(weights))
    # The network was trained on (pixel - 127) / 128.
    return Featurizer(network.eval(), (127 / 255,) * 3, (128 / 255,) * 3)


def _timm(name: str, weights: Path | None) -> Featurizer:
    timm: Any = require("timm", "images")
    if not timm.is_model(name.split(".")[0]):
        raise ValueError(
            f"encoder is {name!r}: choose {LITE}, {PAPERS} or another name that timm.list_models() "
            "has."
        )
    try:
        with torch.random.fork_rng(devices=[]):  # initial weights are drawn, only to be replaced
            network = timm.create_model(name, pretrained=weights is None, num_classes=0)
    except Exception as error:  # of whichever of timm's libraries meets the problem
        if weights is not None:
            raise
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise FileNotFoundError(
            f"the weights of {name} can be neither found nor downloaded ({reason}): go online "
            f"once, name a file of them with --weights, or take --encoder {LITE}."
        ) from None
    if weights is not None:
        heads = network.pretrained_cfg.get("classifier") or ()
        ignored = (heads,) if isinstance(heads, str) else tuple(heads)
        put_weights(network, read_weights(weights), str(weights), ignored)
    config = timm.data.resolve_model_data_config(network)
    return Featurizer(network.eval(), tuple(config["mean"]), tuple(config["std"]))
