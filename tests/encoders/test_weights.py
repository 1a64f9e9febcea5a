import hashlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from regraft.encoders.weights import check_digest, fingerprint, put_weights, read_weights
from tests.helpers.errors import refused


def make(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))


def test_fingerprint_depends_on_every_weight_but_of_a_layer_left_out() -> None:
    network = make(0)
    before = fingerprint(network)
    assert before == fingerprint(make(0))
    assert before != fingerprint(make(1))
    assert before != fingerprint(nn.Sequential(*network, nn.BatchNorm1d(2)))
    assert before != fingerprint(make(0).bfloat16())
    with torch.no_grad():
        network[1].bias[1] += 1e-6
    assert before != fingerprint(network)
    inner = nn.Module()
    inner.pooler, inner.kept = nn.Linear(2, 2), nn.Linear(2, 2)
    before = fingerprint(inner, without="pooler")
    inner.pooler = nn.Linear(5, 1)
    assert fingerprint(inner, without="pooler") == before
    assert fingerprint(nn.ModuleDict({"a": inner}), without="pooler") != before
    inner.kept = nn.Linear(2, 2)
    assert fingerprint(inner, without="pooler") != before


def test_weights_are_read_and_put_or_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    save_file({**make(1).state_dict(), "head.weight": torch.ones(2)}, path)
    network = make(0)
    put_weights(network, read_weights(path), "a file", ignored=("head",))
    assert fingerprint(network) == fingerprint(make(1))
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_weights(tmp_path)
    save_file(make(0).state_dict(), path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match="is damaged or no safetensors file"):
        read_weights(path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"1.bias": None}, "1.bias"),
        ({"2.bias": torch.zeros(2)}, "2.bias"),
        ({"0.weight": torch.zeros(2, 4)}, "0.weight"),
    ],
)
def test_weights_must_fit_exactly(change: dict[str, torch.Tensor | None], named: str) -> None:
    state = {name: t for name, t in (make(1).state_dict() | change).items() if t is not None}
    network = make(0)
    with pytest.raises(ValueError, match=rf"^a file does not hold .*4 tensors .1 missing.*{named}"):
        put_weights(network, state, "a file")
    assert fingerprint(network) == fingerprint(make(0))


def test_a_file_of_a_package_is_compared_with_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"weights")
    check_digest(path, hashlib.sha256(b"weights").hexdigest(), "package==1")
    with refused("is not the file that .* install package==1 again", path=path):
        check_digest(path, "0" * 64, "package==1")
