"""Networks of DomainBed's protocol, chosen by the shape of the input."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regraft.bench.networks.fused import fuse
from regraft.bench.networks.weights import WEIGHTS, load_weights
from regraft.bench.networks.wide_resnet import WideResNet
from regraft.encoders.mnist_cnn import N_FEATURES, mnist_cnn

_PLAIN = (
    nn.Linear,
    nn.Conv2d,
    nn.ReLU,
    nn.GroupNorm,
    nn.AdaptiveAvgPool2d,
    nn.Flatten,
)  # layers without draws or memory, in which rows are apart


def make_featurizer(
    input_shape: tuple[int, ...],
    hparams: Mapping[str, Any],
    generator: torch.Generator,
    *,
    compat: bool = False,
) -> tuple[nn.Module, int]:
    """Return the featurizer for inputs (n, *input_shape), and its number of features.

    Vectors go through one hidden layer, images of 28 x 28 pixels through ``mnist_cnn``, of
    32 x 32 through a Wide ResNet, larger ones through a ResNet or, with ``vit``, a vision
    transformer, which need the extra ``images``. With ``compat`` there is a ResNet-50 wherever
    DomainBed takes one, though ``resnet18`` is set, and no half precision. Initial weights are
    drawn from torch's global generator, or read from the file that ``hparams`` have as
    ``weights``; dropout is drawn from ``generator``.
    """
    network, n_features = _make_featurizer(input_shape, hparams, generator, compat)
    if WEIGHTS in hparams:
        load_weights(network, Path(hparams[WEIGHTS]))
    return network, n_features


def _make_featurizer(
    input_shape: tuple[int, ...],
    hparams: Mapping[str, Any],
    generator: torch.Generator,
    compat: bool,
) -> tuple[nn.Module, int]:
    if len(input_shape) == 1:
        width = hparams["featurizer_width"]
        return nn.Sequential(nn.Linear(input_shape[0], width), nn.ReLU()), width
    if input_shape[1:] == (28, 28):
        return fuse(mnist_cnn(input_shape[0]), in_half=not compat), N_FEATURES
    if input_shape[1:] == (32, 32):
        return WideResNet(input_shape[0]), WideResNet.n_features
    # These import timm's helpers, which digits do not need.
    from regraft.bench.networks.resnet import make_resnet
    from regraft.bench.networks.vit import make_vit

    if hparams.get("vit"):  # models of older runs do not have these switches
        return make_vit(input_shape, hparams, generator)
    if hparams.get("dinov2"):
        raise ValueError("dinov2 is set without vit: set both, or neither for a ResNet.")

    if compat and hparams["resnet50_augmix"]:  # which comes last there
        hparams = {**hparams, "resnet18": False}
    return make_resnet(input_shape[0], hparams, generator)


def is_plain(network: nn.Module) -> bool:
    """Return whether a row's output follows from the row and the weights, whenever it is asked for.

    It does not where there is dropout, or batch normalization, whose statistics move as well.
    """
    return all(isinstance(layer, _PLAIN) for layer in network.modules() if _is_leaf(layer))


def _is_leaf(layer: nn.Module) -> bool:
    return next(layer.children(), None) is None


def make_classifier(n_features: int, n_classes: int, hparams: Mapping[str, Any]) -> nn.Module:
    """Return a classifier of features: linear, or with two hidden layers."""
    if not hparams["nonlinear_classifier"]:
        return nn.Linear(n_features, n_classes)
    widths = (n_features, n_features // 2, n_features // 4)
    hidden = [
        layer
        for n_in, n_out in itertools.pairwise(widths)
        for layer in (nn.Linear(n_in, n_out), nn.ReLU())
    ]
    return nn.Sequential(*hidden, nn.Linear(widths[-1], n_classes))


def mlp(
    n_in: int, n_out: int, hparams: Mapping[str, Any], generator: torch.Generator
) -> nn.Sequential:
    """Return a perceptron (n, n_in) to (n, n_out) of ``mlp_depth`` layers, ``mlp_width`` wide."""
    width, share = hparams["mlp_width"], hparams["mlp_dropout"]
    widths = [n_in] + [width] * (hparams["mlp_depth"] - 1)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), Dropout(share, generator), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], n_out))


class Dropout(nn.Module):
    """Dropout of a ``share`` of the inputs, drawn from a generator of its own."""

    def __init__(self, share: float, generator: torch.Generator) -> None:
        super().__init__()
        self._share, self._generator = share, generator

    def forward(self, x: Tensor) -> Tensor:
        """Zero some of ``x`` while training, and scale up the rest so that the mean stays."""
        if not self.training or self._share == 0:
            return x
        draws = torch.rand(x.shape, generator=self._generator, device=x.device, dtype=x.dtype)
        return x * (draws >= self._share) / (1 - self._share)
