"""The ResNets: which network, its channels, its frozen layers, and its pretrained weights."""

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from regraft.bench.networks.domainbed import make_featurizer
from regraft.bench.networks.resnet import ResNet, make_resnet
from regraft.bench.protocol.spaces import common_space, draw_configuration

timm = pytest.importorskip("timm")

DEFAULTS = draw_configuration(common_space("images"), 0, 0)
SMALL = {**DEFAULTS, "resnet18": True, "pretrained": False}


def make(n_channels: int = 3, seed: int = 0, **changes: Any) -> ResNet:
    torch.manual_seed(seed)
    hparams = {**SMALL, **changes}
    return make_resnet(n_channels, hparams, torch.Generator().manual_seed(0))[0]


def first_weights(network: ResNet) -> torch.Tensor:
    return network.get_parameter("network.conv1.weight").detach()


def images(n: int = 2, n_channels: int = 3, size: int = 64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, n_channels, size, size, generator=generator)


@pytest.mark.parametrize(("changes", "n_features"), [({}, 512), ({"resnet18": False}, 2048)])
def test_features_of_images(changes: dict[str, Any], n_features: int) -> None:
    hparams = {**SMALL, **changes}
    network, n = make_featurizer((3, 224, 224), hparams, torch.Generator())
    assert n == n_features
    network.eval()
    with torch.no_grad():
        assert network(images(size=224)).shape == (2, n_features)


def test_the_seed_decides_the_weights_and_features_are_timms() -> None:
    assert torch.equal(first_weights(make(seed=1)), first_weights(make(seed=1)))
    assert not torch.equal(first_weights(make(seed=1)), first_weights(make(seed=2)))
    torch.manual_seed(0)
    plain = timm.create_model("resnet18", pretrained=False).eval()
    network = make().eval()
    network.network.load_state_dict(plain.state_dict(), strict=False)
    with torch.no_grad():
        expected = plain.forward_features(images()).mean((2, 3))
        torch.testing.assert_close(network(images()), expected)


@pytest.mark.parametrize("n_channels", [1, 2, 4, 7])
def test_channels_take_the_weights_of_the_colours_in_turn(n_channels: int) -> None:
    colours, network = first_weights(make()), make(n_channels)
    weights = first_weights(network)
    assert weights.shape == (64, n_channels, 7, 7)
    for channel in range(n_channels):
        assert torch.equal(weights[:, channel], colours[:, channel % 3])
    features = network(images(n_channels=n_channels))
    features.sum().backward()
    assert features.shape == (2, 512)
    assert network.get_parameter("network.conv1.weight").grad is not None


@pytest.mark.parametrize("freeze_bn", [False, True])
def test_frozen_normalization_keeps_its_statistics(freeze_bn: bool) -> None:
    network = make(freeze_bn=freeze_bn)
    x = images(4)
    for mode in (None, True, False, True):  # as made, and after changes
        if mode is not None:
            assert network.train(mode) is network
        norms = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]
        assert len(norms) == 20
        assert {layer.training for layer in norms} == {not freeze_bn and mode is not False}
        assert network.training == (mode is not False)
    before = {name: buffer.clone() for name, buffer in network.named_buffers()}
    together = network(x)
    assert all(torch.equal(before[n], b) for n, b in network.named_buffers()) == freeze_bn
    alone = network(x[:1])
    assert torch.allclose(alone, together[:1], atol=1e-4) == freeze_bn
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_dropout_follows_the_features() -> None:
    plain, network = make(freeze_bn=True), make(freeze_bn=True, resnet_dropout=0.5)
    with torch.no_grad():
        kept, dropped = plain(images()), network(images())
        # ReLU leaves zeros of its own.
        alive = kept != 0
        assert 0.4 < float((dropped[alive] == 0).float().mean()) < 0.6
        share = torch.where(dropped == 0, torch.zeros_like(kept), 2 * kept)
        torch.testing.assert_close(dropped, share)
        torch.testing.assert_close(network.eval()(images()), plain.eval()(images()))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"resnet18": True}, "resnet18.tv_in1k"),
        ({}, "resnet50.ram_in1k"),
        ({"resnet50_augmix": False}, "resnet50.tv_in1k"),
    ],
)
def test_absent_weights_are_named(offline: Path, changes: dict[str, Any], name: str) -> None:
    with pytest.raises(FileNotFoundError, match=f"the network {name} can be neither") as caught:
        make_resnet(3, {**DEFAULTS, **changes}, torch.Generator())
    text = str(caught.value)
    assert "--hparams '{\"pretrained\": false}'" in text
    assert text.endswith(".") and "\n" not in text


def test_weights_from_the_cache_are_used(offline: Path) -> None:
    torch.manual_seed(3)
    trained = timm.create_model("resnet18", pretrained=False)
    folder = offline / "models--timm--resnet18.tv_in1k"
    commit = "0" * 40
    for place in ("refs", f"snapshots/{commit}"):
        (folder / place).mkdir(parents=True)
    (folder / "refs" / "main").write_text(commit)
    weights = trained.state_dict()
    safetensors.torch.save_file(weights, folder / "snapshots" / commit / "model.safetensors")
    network = make(n_channels=4, pretrained=True)
    assert torch.equal(first_weights(network), weights["conv1.weight"][:, [0, 1, 2, 0]])
    last = network.get_parameter("network.layer4.1.conv2.weight")
    assert torch.equal(last, weights["layer4.1.conv2.weight"])


def test_with_compat_a_resnet_50_is_built_where_domainbed_builds_one(offline: Path) -> None:
    hparams = {**DEFAULTS, "resnet18": True}
    with pytest.raises(FileNotFoundError, match=r"resnet50\.ram_in1k"):
        make_featurizer((3, 224, 224), hparams, torch.Generator(), compat=True)
    with pytest.raises(FileNotFoundError, match=r"resnet18\.tv_in1k"):
        make_featurizer((3, 224, 224), hparams, torch.Generator())
