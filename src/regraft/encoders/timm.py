"""Any image network of timm's, prepared as its weights were trained for."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regraft.data.image_files import to_rgb
from regraft.encoders.base import NetworkEncoder
from regraft.encoders.weights import load_pretrained, put_weights, read_weights
from regraft.support.extras import require

if TYPE_CHECKING:
    from PIL.Image import Image

PREFIX = "timm:"
_EXTRA = "images"
_MAXIMUM = 255  # of a pixel


def load_timm(name: str, device: str, weights: Path | None) -> NetworkEncoder:
    """Load timm's model ``name`` as an encoder; raise the errors of ``make_timm``."""
    network = make_timm(name, weights, others=("efficientnet_lite0", "mnist_cnn"))
    return _TimmEncoder(require("timm", _EXTRA), name, network, device)


def make_timm(name: str, weights: Path | None, others: Sequence[str]) -> nn.Module:
    """Load timm's model ``name``, such as resnet50.ram_in1k, without classifier, to evaluate.

    Its pretrained weights are downloaded once, or read from the safetensors file ``weights``; a
    classifier in it is left out. ``others`` may be chosen too, says the error of an unknown name.
    Raises ``ValueError``, ``FileNotFoundError`` or ``MissingExtra`` with one sentence.
    """
    timm: Any = require("timm", _EXTRA)
    _check_name(timm, name, others)
    state = None if weights is None else read_weights(weights)
    network: Any = load_pretrained(
        name,
        lambda: timm.create_model(name, pretrained=state is None, num_classes=0),
        "go online once, name a safetensors file with --weights, or take --encoder "
        "efficientnet_lite0",
    )
    if state is not None:
        heads = network.pretrained_cfg.get("classifier") or ()
        ignored = (heads,) if isinstance(heads, str) else tuple(heads)
        put_weights(network, state, str(weights), ignored)
    made: nn.Module = network.eval()
    return made


class _TimmEncoder(NetworkEncoder):
    def __init__(self, timm: Any, name: str, network: Any, device: str) -> None:
        config = timm.data.resolve_model_data_config(network)
        # timm leaves normalization to a prefetcher, which here is ``encode``.
        self._transform = timm.data.create_transform(
            **config, is_training=False, use_prefetcher=True
        )
        super().__init__(
            PREFIX + name,
            network,
            _count_features(network, config["input_size"]),
            device,
            mean=[_MAXIMUM * float(value) for value in config["mean"]],
            deviation=[_MAXIMUM * float(value) for value in config["std"]],
            preparation={
                "size": list(config["input_size"][1:]),
                "resampling": config["interpolation"],
                "crop": config["crop_mode"],
                "crop_share": float(config["crop_pct"]),
            },
        )

    def pixels(self, image: Image) -> NDArray[np.uint8]:
        """Resize and crop the image as timm does to evaluate the network."""
        channels_first = np.asarray(self._transform(to_rgb(image, _EXTRA)))
        return np.ascontiguousarray(channels_first.transpose(1, 2, 0))


def _check_name(timm: Any, name: str, others: Sequence[str]) -> None:
    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        close = get_close_matches(name, timm.list_models(), n=5)
        such_as = f" (such as {', '.join(close)})" if close else ""
        raise ValueError(
            f"there is no image encoder {name!r}: choose {', '.join(others)} or a name that "
            f"timm.list_models() has{such_as}."
        )
    tags = [known.partition(".")[2] for known in timm.list_pretrained(f"{architecture}.*")]
    if tag and tag not in tags:
        raise ValueError(
            f"timm has no weights {tag!r} of {architecture}: choose from {', '.join(tags)}."
        )


def _count_features(network: Any, shape: tuple[int, ...]) -> int:
    """Count what comes out; ``num_features`` leaves out what some models add after it."""
    with torch.inference_mode():
        return int(network.eval()(torch.zeros(1, *shape)).shape[1])
