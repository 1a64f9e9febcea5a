"""Runs that start from a file of weights, which their folders know by its checksum."""

from pathlib import Path

import pytest
import safetensors.torch
import torch

from regraft.bench.datasets import Dataset
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.models import weights_checksum
from regraft.bench.protocol.run_folder import RunFolder
from regraft.bench.protocol.training import Training
from regraft.bench.protocol.worker import Assignment, perform


@pytest.mark.parametrize("name", ["ERM", "ERMPlusPlus"])
def test_a_run_starts_from_the_model_of_another(
    name: str, toy: Dataset, data: Path, tmp_path: Path
) -> None:
    first = Job("toy", "ERM", (1,), steps=5, fingerprint=toy.fingerprint)
    assert perform(Assignment((first,), tmp_path, data, keep_model=True))[0].state == "done"
    path = tmp_path / first.id / "model.safetensors"
    checksum = weights_checksum(path)
    second = Job("toy", name, (1,), steps=5, fingerprint=toy.fingerprint, weights=checksum)
    assert second.id != Job("toy", name, (1,), steps=5, fingerprint=toy.fingerprint).id
    folder = RunFolder(tmp_path / "second", second.id)
    training = Training(second, toy, folder, device=torch.device("cpu"), weights=path)
    expected = safetensors.torch.load_file(path)
    for key, value in training._algorithm.featurizer.state_dict().items():  # type: ignore[union-attr]
        assert torch.equal(value, expected[f"featurizer.{key}"])
    done = perform(Assignment((second,), tmp_path, data, keep_model=True, weights=path))
    assert done[0].state == "done"
    safetensors.torch.save_file({"0.weight": torch.zeros(2, 2)}, path)
    third = Job("toy", name, (0,), steps=5, fingerprint=toy.fingerprint, weights=checksum)
    changed = perform(Assignment((third,), tmp_path, data, weights=path))
    assert "has other weights than the run is for" in changed[0].message
    unfit = Job("toy", name, (0,), fingerprint=toy.fingerprint, weights=weights_checksum(path))
    refused = perform(Assignment((unfit,), tmp_path, data, weights=path))
    assert "does not hold the weights of this network" in refused[0].message
    with pytest.raises(FileNotFoundError, match="name the weights with --weights"):
        weights_checksum(tmp_path / "none")
