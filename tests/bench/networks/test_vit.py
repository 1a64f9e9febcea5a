"""Vision transformers by timm with random weights: features, attention alone, what is refused."""

from typing import Any

import pytest
import torch

from regraft.bench.networks.domainbed import Dropout, make_featurizer
from regraft.bench.networks.vit import DINOV2, VIT, VisionTransformer, train_attention_only
from regraft.bench.protocol.spaces import common_space, draw_configuration
from regraft.support.extras import require

timm = require("timm", "images")
HPARAMS = draw_configuration(common_space("images"), 0, 0) | {"pretrained": False}


def small(**options: Any) -> Any:
    """A transformer of four layers on pictures of 28 x 28 pixels, in double precision."""
    torch.manual_seed(0)
    sizes = {"img_size": 28, "patch_size": 14, "embed_dim": 12, "depth": 5, "num_heads": 2}
    network = timm.models.vision_transformer.VisionTransformer(num_classes=0, **sizes, **options)
    return network.double()


def pictures() -> torch.Tensor:
    return torch.randn(2, 3, 28, 28, generator=torch.Generator().manual_seed(0)).double()


def test_features_of_dinov2_are_tokens_of_four_layers() -> None:
    network = small()
    x = pictures()
    made = VisionTransformer(network, Dropout(0.0, torch.Generator()), of_layers=True)
    tokens = network.patch_embed(x)
    tokens = torch.cat([network.cls_token.expand(2, -1, -1), tokens], dim=1) + network.pos_embed
    layers = []
    for block in network.blocks:
        tokens = block(tokens)
        layers.append(network.norm(tokens))
    expected = torch.cat([*(z[:, 0] for z in layers[-4:]), layers[-1][:, 1:].mean(dim=1)], dim=1)
    torch.testing.assert_close(made(x), expected, atol=1e-9, rtol=1e-9)
    assert made.n_features == expected.shape[1] == 60
    plain = VisionTransformer(network, Dropout(0.0, torch.Generator()), of_layers=False)
    torch.testing.assert_close(plain(x), layers[-1][:, 0], atol=1e-9, rtol=1e-9)
    assert plain.n_features == 12


def test_attention_alone_is_trained() -> None:
    network = small()
    train_attention_only(network)
    trained = {name for name, p in network.named_parameters() if p.requires_grad}
    assert trained == {name for name, _ in network.named_parameters() if ".attn." in name}
    assert "blocks.0.attn.qkv.weight" in trained


def test_names_are_timms_and_what_cannot_be_is_refused() -> None:
    for name in (VIT, DINOV2):
        assert timm.models.get_pretrained_cfg(name) is not None
    hparams = {**HPARAMS, "vit": True}
    with pytest.raises(ValueError, match=r"^a vision transformer takes 3 channels and gets 4:"):
        make_featurizer((4, 224, 224), hparams, torch.Generator())
    with pytest.raises(ValueError, match=r"^dinov2 is set without vit"):
        make_featurizer((3, 224, 224), {**HPARAMS, "dinov2": True}, torch.Generator())
