"""DomainBed's noise: the numbers that torch draws after seeding, and a run on them."""

from pathlib import Path

import pytest
import torch

from regraft.bench.datasets import open_dataset
from tests.helpers.commands import Run


@pytest.mark.parametrize(("name", "side"), [("Debug28", 28), ("Debug224", 224)])
def test_rows_are_those_of_torchs_generator(name: str, side: int) -> None:
    dataset = open_dataset(name)
    dataset.check()
    assert dataset.group == ("small images" if side == 28 else "images")
    assert (dataset.steps, dataset.checkpoint_freq) == (5001, 100)
    environments = dataset.environments(7, torch.device("cpu"))
    assert len(environments) == len(dataset.env_names) == 3
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        for environment in environments:
            x, y = torch.randn(16, 3, side, side), torch.randint(0, 2, (16,))
            assert torch.equal(environment.inputs(torch.arange(16), augmentation=1), x)
            assert torch.equal(environment.y, y)


def test_a_run_needs_no_files(tmp_path: Path, run: Run) -> None:
    options = ("--steps", 2, "--hparams", '{"batch_size": 4}', "--out", tmp_path)
    assert run("train", "--dataset", "Debug28", "--data", tmp_path / "absent", *options).code == 0
    ran = run("download", "Debug28", "--data", tmp_path)
    assert ran.code == 2 and "nothing to download" in ran.err
