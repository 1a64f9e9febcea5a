"""Pretrained networks, by name, that Phase 1 fine-tunes on images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regraft.encoders.efficientnet_lite import make_efficientnet_lite0
from regraft.encoders.timm import make_timm
from regraft.support.extras import require

PAPERS = "resnet50.ram_in1k"
LITE = "efficientnet_lite0"


@dataclass(frozen=True)
class Featurizer:
    """Network in evaluation mode, from normalized images (b, 3, s, s) to features (b, d)."""

    network: nn.Module
    mean: tuple[float, ...]  # to subtract from red, green and blue in [0, 1]
    deviation: tuple[float, ...]  # by which to divide the differences

    def n_features(self, size: int) -> int:
        """Count the features of ``size`` x ``size`` pixels; ``ValueError`` if it takes none."""
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
    """Load EfficientNet-Lite0 as ``efficientnet_lite0``, or any network by timm's name.

    The weights are the network's pretrained ones, or those in the safetensors file ``weights``. A
    network that cannot be loaded raises ``ValueError``, ``FileNotFoundError`` or ``MissingExtra``.
    """
    if name == LITE:
        # The network was trained on (pixel - 127) / 128.
        return Featurizer(make_efficientnet_lite0(weights), (127 / 255,) * 3, (128 / 255,) * 3)
    network = make_timm(name, weights, others=(LITE, PAPERS))
    config: Any = require("timm", "images").data.resolve_model_data_config(network)
    return Featurizer(network, tuple(config["mean"]), tuple(config["std"]))
