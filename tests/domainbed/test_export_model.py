"""DomainBed's model.pkl, converted by a process without regraft, and read without a pickle."""

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


def save(path: Path, model: nn.Module, shape: tuple[int, ...], algorithm: str = "IRM") -> None:
    hparams = {"lr": np.float64(1e-3), "resnet18": False, "nonlinear_classifier": np.bool_(False)}
    facts: dict[str, Any] = {
        "args": {"algorithm": algorithm, "data_dir": path, "test_envs": [0]},
        "model_input_shape": shape,
        "model_num_classes": 3,
        "model_num_domains": 2,
        "model_hparams": hparams,
        "model_dict": model.state_dict(),
    }
    torch.save(facts, path)


def convert(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Isolated: neither PYTHONPATH nor the folder of the script can lead to regraft."""
    command = [sys.executable, "-I", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_converted_model_answers_as_it_did_there(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Stand(DigitsThere())
    save(tmp_path / "model.pkl", model, (2, 28, 28))
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


def test_other_networks_and_what_does_not_fit(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Stand(WideResNet(3)).eval()
    save(tmp_path / "wide.pkl", model, (3, 32, 32))
    path = tmp_path / "other.safetensors"
    assert convert(tmp_path / "wide.pkl", path).returncode == 0
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(load_domainbed_model(path).logits(x), model.network(x))
    with pytest.raises(ValueError, match=r"does not hold the weights of this network \("):
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
