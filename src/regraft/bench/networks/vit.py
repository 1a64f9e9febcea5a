"""Vision transformers of the protocol, with timm's pretrained weights: ViT-B/16 and DINOv2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regraft.bench.networks.domainbed import Dropout
from regraft.bench.networks.resnet import create_timm

VIT, DINOV2 = "vit_base_patch16_224.augreg2_in21k_ft_in1k", "vit_base_patch14_dinov2.lvd142m"
_N_COLOURS = 3
_N_LAYERS = 4  # whose class tokens DomainBed takes of DINOv2


class VisionTransformer(nn.Module):
    """Network from images (b, 3, h, w) to features (b, n), followed by dropout.

    Features are timm's own. With ``of_layers`` they are the class tokens of the last four layers
    and the mean of the last layer's other tokens, as DomainBed has them of DINOv2.
    """

    def __init__(self, network: Any, dropout: Dropout, of_layers: bool) -> None:
        super().__init__()
        self.network, self.dropout, self._of_layers = network, dropout, of_layers
        n_tokens = _N_LAYERS + 1 if of_layers else 1
        self.n_features: int = n_tokens * network.num_features

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of ``x``."""
        if self._of_layers:
            layers = self.network.get_intermediate_layers(
                x, n=_N_LAYERS, norm=True, return_prefix_tokens=True
            )
            tokens = [prefix[:, 0] for _, prefix in layers]
            features = torch.cat([*tokens, layers[-1][0].mean(dim=1)], dim=1)
        else:
            features = self.network(x)
        dropped: Tensor = self.dropout(features)
        return dropped


def make_vit(
    input_shape: tuple[int, ...], hparams: Mapping[str, Any], generator: torch.Generator
) -> tuple[VisionTransformer, int]:
    """Return a transformer for images of ``input_shape``, and its number of features.

    ``hparams`` choose DINOv2 (``dinov2``), whether only attention is trained (``vit_attn_tune``),
    ``vit_dropout``, and whether weights are ``pretrained``. Raises ``ValueError`` for images that
    are not in three colours, as those of ARM with their context.
    """
    n_channels, side = input_shape[:2]
    if n_channels != _N_COLOURS:
        raise ValueError(
            f"a vision transformer takes {_N_COLOURS} channels and gets {n_channels}: leave vit "
            "out of the hyperparameters."
        )
    name = DINOV2 if hparams["dinov2"] else VIT
    network = create_timm(name, hparams["pretrained"], img_size=side)
    dropout = Dropout(hparams["vit_dropout"], generator)
    made = VisionTransformer(network, dropout, hparams["dinov2"])
    if hparams["vit_attn_tune"]:
        train_attention_only(network)
    return made, made.n_features


def train_attention_only(network: nn.Module) -> None:
    """Freeze all parameters but those of attention, as DomainBed does."""
    for name, parameter in network.named_parameters():
        parameter.requires_grad_("attn" in name)
