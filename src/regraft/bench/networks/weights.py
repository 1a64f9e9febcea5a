"""Weights of a featurizer from a file: a network's own, a run's model, or one of DomainBed's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from regraft.encoders.weights import put_weights, read_weights

WEIGHTS = "weights"  # under which hyperparameters have the path
FEATURIZER = "featurizer."
_CLASSIFIERS = ("network.fc", "network.head")  # of networks that were trained for other classes
# DomainBed's names of the layers of its network for digits, and ours.
_DIGITS = {
    name: f"{i}.{kind}"
    for i in range(4)
    for name, kind in ((f"conv{i + 1}", "convolution"), (f"bn{i}", "norm"))
}


def load_weights(featurizer: nn.Module, path: Path) -> None:
    """Fill ``featurizer`` from a safetensors file.

    The file is a state dict of the network, as timm has them, or of a whole model whose
    featurizer's names begin with ``featurizer.``: a run's ``model.safetensors``, or what the
    converter makes of DomainBed's ``model.pkl``. Raises ``FileNotFoundError`` or ``ValueError``
    with one sentence.
    """
    state = read_weights(path)
    own = strip(state, FEATURIZER)
    if not own and hasattr(featurizer, "network"):
        own = {f"network.{name}": tensor for name, tensor in state.items()}
    put_weights(featurizer, rename_digits(own or state, featurizer), str(path), _CLASSIFIERS)


def strip(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return what begins with ``prefix``, without it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in state.items()
        if name.startswith(prefix)
    }


def rename_digits(state: Mapping[str, Tensor], featurizer: nn.Module) -> dict[str, Tensor]:
    """Give the layers of DomainBed's network for digits our names, if ``featurizer`` is ours."""
    if "0.convolution.weight" not in featurizer.state_dict():
        return dict(state)
    renamed = {}
    for name, tensor in state.items():
        layer, _, rest = name.partition(".")
        renamed[f"{_DIGITS.get(layer, layer)}.{rest}"] = tensor
    return renamed
