"""DomainBed's model.pkl, converted by a process without regraft, and read without a pickle."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.networks.domainbed import make_featurizer
from regraft.bench.networks.wide_resnet import WideResNet
from regraft.bench.protocol.domainbed_models import load_domainbed_model
from tests.helpers.errors import refused
from tests.helpers.paths import SOURCE

SCRIPT = SOURCE / "regraft" / "domainbed" / "export_model.py"


class DigitsThere(nn.Module):
    """A stand-in for DomainBed's network for digits, with its names of layers."""

    def __init__(self) -> None:
        super().__init__()
        widths = (2, 64, 128, 128, 128)
        for i in range(4):
            stride = 2 if i == 1 else 1
            layer = nn.Conv2d(widths[i], widths[i + 1], 3, stride, padding=1)
            setattr(self, f"conv{i + 1}", layer)
            norm = nn.GroupNorm(8, widths[i + 1])
            nn.init.normal_(norm.weight)
            setattr(self, f"bn{i}", norm)

    def forward(self, x: Tensor) -> Tensor:
        for i in range(4):
            x = getattr(self, f"bn{i}")(functional.relu(getattr(self, f"conv{i + 1}")(x)))
        return x.mean(dim=(2, 3))


class Stand(nn.Module):
    """A stand-in for an algorithm there: parts, and the same parts again as one network."""

    def __init__(self, featurizer: nn.Module) -> None:
        super().__init__()
        self.featurizer, self.classifier = featurizer, nn.Linear(128, 3)
        self.network = nn.Sequential(self.featurizer, self.classifier)
        self.register_buffer("update_count", torch.tensor([7]))


def save(
    path: Path,
    state: dict[str, Tensor],
    shape: tuple[int, ...],
    algorithm: str = "IRM",
    **own: Any,
) -> None:
    hparams = {"lr": np.float64(1e-3), "resnet18": False, "nonlinear_classifier": np.bool_(False)}
    facts: dict[str, Any] = {
        "args": {"algorithm": algorithm, "data_dir": path, "test_envs": [0]},
        "model_input_shape": shape,
        "model_num_classes": 3,
        "model_num_domains": 2,
        "model_hparams": hparams | own,
        "model_dict": state,
    }
    torch.save(facts, path)


def convert(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Isolated: neither PYTHONPATH nor the folder of the script can lead to regraft."""
    command = [sys.executable, "-I", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_converted_model_answers_as_it_did_there(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Stand(DigitsThere())
    save(tmp_path / "model.pkl", model.state_dict(), (2, 28, 28))
    done = convert(tmp_path / "model.pkl")
    assert done.returncode == 0, done.stderr
    path = tmp_path / "model.safetensors"
    assert str(path) in done.stdout
    tensors = safetensors.torch.load_file(path)
    expected = model.state_dict()
    assert tensors.keys() == expected.keys()
    assert all(torch.equal(tensors[name], expected[name]) for name in tensors)
    facts = json.loads(path.with_suffix(".json").read_text())
    assert facts["model_hparams"] == {
        "lr": 1e-3,
        "resnet18": False,
        "nonlinear_classifier": False,
    }
    x = torch.randn(4, 2, 28, 28)
    with torch.no_grad():
        torch.testing.assert_close(load_domainbed_model(path).logits(x), model.network(x))
        # The same file is one of weights for --weights.
        network, _ = make_featurizer((2, 28, 28), {"weights": str(path)}, torch.Generator())
        torch.testing.assert_close(network(x), model.featurizer(x))


@pytest.mark.parametrize(
    ("algorithm", "names"),
    [
        ("SagNet", ("network_f", "network_c")),
        ("ADRMX", ("featurizer_label", "classifier_label_1")),
        ("Fish", ("network.net.0", "network.net.1")),
        ("ERMPlusPlus", ("network_sma.0", "network_sma.1")),
        ("URM", ("featurizer", "classifier")),
    ],
)
def test_parts_with_other_names(tmp_path: Path, algorithm: str, names: tuple[str, str]) -> None:
    torch.manual_seed(0)
    featurizer = DigitsThere()
    classifier: nn.Module = nn.Linear(128, 3)
    if algorithm == "ADRMX":
        widths = (128, 64, 32, 3)
        layers = [nn.Linear(a, b) for a, b in itertools.pairwise(widths)]
        classifier = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    decoy = Stand(DigitsThere()).network if algorithm == "ERMPlusPlus" else nn.Identity()
    state = {f"network.{name}": tensor for name, tensor in decoy.state_dict().items()}
    for part, name in zip((featurizer, classifier), names, strict=True):
        state |= {f"{name}.{key}": tensor for key, tensor in part.state_dict().items()}
    own = {"urm_generator_output": "relu", "urm_discriminator_hidden_layers": 1}
    own |= {"urm": "adversarial", "urm_discriminator_optimizer": "adam"}
    own |= {"urm_discriminator_lr": 1e-3}
    save(tmp_path / "model.pkl", state, (2, 28, 28), algorithm, **own)
    assert convert(tmp_path / "model.pkl").returncode == 0
    x = torch.randn(4, 2, 28, 28)
    with torch.no_grad():
        features = featurizer(x).relu() if algorithm == "URM" else featurizer(x)
        found = load_domainbed_model(tmp_path / "model.safetensors").logits(x)
        torch.testing.assert_close(found, classifier(features))


def test_other_networks_and_what_does_not_fit(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Stand(WideResNet(3)).eval()
    save(tmp_path / "wide.pkl", model.state_dict(), (3, 32, 32))
    path = tmp_path / "other.safetensors"
    assert convert(tmp_path / "wide.pkl", path).returncode == 0
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(load_domainbed_model(path).logits(x), model.network(x))
    with pytest.raises(ValueError, match=r"does not hold the weights of this network"):
        make_featurizer((2, 28, 28), {"weights": str(path)}, torch.Generator())
    facts = json.loads(path.with_suffix(".json").read_text())
    facts["args"]["algorithm"] = "ARM"
    path.with_suffix(".json").write_text(json.dumps(facts))
    with refused("a model of ARM, which does not answer by"):
        load_domainbed_model(path)
    del facts["model_num_domains"]
    path.with_suffix(".json").write_text(json.dumps(facts))
    with refused("convert the model again"):
        load_domainbed_model(path)
    path.with_suffix(".json").write_text("[]")
    with refused("convert the model again"):
        load_domainbed_model(path)
    path.with_suffix(".json").unlink()
    with pytest.raises(FileNotFoundError, match="keep it beside the safetensors file"):
        load_domainbed_model(path)
    assert "usage" in convert().stderr
    assert "must end in .safetensors" in convert(tmp_path / "wide.pkl", tmp_path / "x.bin").stderr


@pytest.mark.parametrize("words", [("-h",), ("--help",), ("model.pkl", "--help")])
def test_the_usage_is_shown_when_it_is_asked_for(words: tuple[str, ...]) -> None:
    done = convert(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "usage: python export_model.py model.pkl [converted.safetensors]\n"


def test_what_is_no_model_is_told_in_one_sentence(tmp_path: Path) -> None:
    missing, other, text = (tmp_path / name for name in ("nope.pkl", "other.pkl", "text.pkl"))
    torch.save({"weights": {}}, other)
    text.write_text("not a pickle")
    expected = {
        missing: f"there is no file {missing}: name the model.pkl",
        other: f'{other} has no "model_dict": name the model.pkl',
        text: f"{text} cannot be read (",
    }
    for path, start in expected.items():
        done = convert(path)
        assert done.returncode == 1 and done.stderr.startswith(start)
        assert done.stderr.endswith("that DomainBed has saved.\n") and done.stderr.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == [other, text]
