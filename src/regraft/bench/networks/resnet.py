"""The ResNet of DomainBed's protocol, with timm's pretrained weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from regraft.bench.networks.domainbed import Dropout
from regraft.encoders.weights import loading
from regraft.support.extras import require

_N_COLOURS = 3


class ResNet(nn.Module):
    """Network from images (b, c, h, w) to features (b, n), followed by dropout.

    With ``freeze_bn`` batch normalization keeps its statistics, in training too; its weights are
    still trained.
    """

    def __init__(self, network: nn.Module, dropout: Dropout, freeze_bn: bool) -> None:
        super().__init__()
        self.network, self.dropout, self._freeze_bn = network, dropout, freeze_bn
        self.train()

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of ``x``."""
        features: Tensor = self.dropout(self.network(x))
        return features

    def train(self, mode: bool = True) -> Self:
        """Change the mode of all layers except frozen ones."""
        super().train(mode)
        if self._freeze_bn:
            for layer in self.modules():
                if isinstance(layer, nn.BatchNorm2d):
                    layer.eval()
        return self


def make_resnet(
    n_channels: int, hparams: Mapping[str, Any], generator: torch.Generator
) -> tuple[ResNet, int]:
    """Return a ResNet for images with ``n_channels``, and its number of features.

    ``hparams`` choose the network (``resnet18``, ``resnet50_augmix``) and whether it is
    ``pretrained``; if not, its weights are drawn from torch's global generator. Weights that cannot
    be found raise ``FileNotFoundError`` or ``ValueError``.
    """
    network = create_timm(_model_name(hparams), hparams["pretrained"])
    _set_channels(network.conv1, n_channels)
    dropout = Dropout(hparams["resnet_dropout"], generator)
    return ResNet(network, dropout, hparams["freeze_bn"]), network.num_features


def create_timm(name: str, pretrained: bool, **options: Any) -> Any:
    """Return timm's network ``name`` without its classifier, or raise an error of one sentence."""
    timm = require("timm", "images")
    way_out = (
        "go online once, name a file with --weights, or train from random weights with --hparams "
        "'{\"pretrained\": false}'"
    )
    with loading(name, way_out):
        return timm.create_model(name, pretrained=pretrained, num_classes=0, **options)


def _model_name(hparams: Mapping[str, Any]) -> str:
    """Return timm's name of the network and its weights; "tv" are torchvision's first ones."""
    if hparams["resnet18"]:
        return "resnet18.tv_in1k"
    return "resnet50.ram_in1k" if hparams["resnet50_augmix"] else "resnet50.tv_in1k"


def _set_channels(layer: nn.Conv2d, n_channels: int) -> None:
    """Adapt a layer for colours to ``n_channels``, each with the weights of one colour in turn."""
    if n_channels == _N_COLOURS:
        return
    colours = torch.arange(n_channels) % _N_COLOURS
    layer.weight = nn.Parameter(layer.weight.detach()[:, colours])
    layer.in_channels = n_channels
