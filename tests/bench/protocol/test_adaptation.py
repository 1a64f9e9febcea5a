"""Domain adaptation: rows without labels, split off as DomainBed does; models of every step."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regraft.bench.datasets import Dataset
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.models import load_model
from regraft.bench.protocol.run_folder import RunFolder
from regraft.bench.protocol.seeds import seed_hash
from regraft.bench.protocol.settings import ADAPTATION, check_settings
from regraft.bench.protocol.training import Training, train
from tests.helpers.errors import refused


def begin(toy: Dataset, path: Path, algorithm: str = "DANN", **settings: Any) -> Training:
    options = {
        name: settings.pop(name) for name in ("keep_every", "save_every") if name in settings
    }
    settings = {"task": ADAPTATION, "uda_holdout_fraction": 0.5, "steps": 30, **settings}
    job = Job(toy.name, algorithm, (1,), fingerprint=toy.fingerprint, **settings)
    path.mkdir(parents=True, exist_ok=True)
    folder = RunFolder(path, job.id)
    return Training(job, toy, folder, device=torch.device("cpu"), keep_model=True, **options)


def test_the_split_is_domainbeds(toy: Dataset, tmp_path: Path) -> None:
    """Shuffled with the environment's seed, and what is left shuffled with the same seed again."""
    data = begin(toy, tmp_path, trial_seed=2)._data
    keys = np.arange(60)
    np.random.RandomState(seed_hash(2, 1)).shuffle(keys)
    kept = keys[12:]
    again = np.arange(48)
    np.random.RandomState(seed_hash(2, 1)).shuffle(again)
    rows = {(split.env, split.name): split.rows.numpy() for split in data.splits}
    np.testing.assert_array_equal(rows[1, "out"], keys[:12])
    np.testing.assert_array_equal(rows[1, "uda"], kept[again[:24]])
    np.testing.assert_array_equal(rows[1, "in"], kept[again[24:]])
    assert {name for env, name in rows if env != 1} == {"in", "out"}
    x, y, unlabelled = data.minibatches(0)
    assert unlabelled is not None
    assert x.shape[:2] == y.shape == (2, 32) and unlabelled.shape == (1, 32, x.shape[2])
    known = data.environments[1].inputs(torch.from_numpy(rows[1, "uda"]))
    assert all((known == row).all(dim=1).any() for row in unlabelled[0])


def test_minibatches_with_labels_are_those_of_generalization(toy: Dataset, tmp_path: Path) -> None:
    adapting = begin(toy, tmp_path / "a")._data.minibatches(0)
    plain = begin(toy, tmp_path / "b", task="domain_generalization")._data
    x, y, unlabelled = plain.minibatches(0)
    assert torch.equal(adapting[0], x) and torch.equal(adapting[1], y) and unlabelled is None
    assert any(split.name == "uda" for split in plain.splits)  # so that tests are on the same rows


def test_a_run_goes_on_and_keeps_a_model_of_every_evaluation(toy: Dataset, tmp_path: Path) -> None:
    options: dict[str, Any] = {"keep_every": True, "checkpoint_freq": 10}
    assert not train([begin(toy, tmp_path / "whole", **options)])
    stopped = begin(toy, tmp_path / "parts", save_every=0.0, **options)
    for _ in range(17):
        stopped.advance()
        stopped.settle()
    assert not train([begin(toy, tmp_path / "parts", **options)])
    for step in (0, 10, 20, 29):
        models = [
            load_model(tmp_path / part / f"model_step{step}.safetensors").algorithm
            for part in ("whole", "parts")
        ]
        left, right = (model.state_dict() for model in models)
        assert [name for name in left if not torch.equal(left[name], right[name])] == []
    last = load_model(tmp_path / "whole" / "model.safetensors").algorithm.state_dict()
    assert all(torch.equal(last[name], left[name]) for name in last)
    lines = (tmp_path / "whole" / "results.jsonl").read_text().splitlines()
    record = json.loads(lines[-1])
    assert record["args"]["task"] == ADAPTATION and 0 <= record["env1_uda_acc"] <= 1


def test_what_cannot_be_is_refused(toy: Dataset, tmp_path: Path) -> None:
    with refused("choose domain_generalization or domain_adaptation"):
        check_settings(task="transfer")
    with refused("from 0 to below 1"):
        check_settings(uda_holdout_fraction=1.0)
    with refused("nothing to adapt to"):
        check_settings(task=ADAPTATION)
    with pytest.raises(ValueError, match=r"^toy's domain 1 has too few rows for a uda_holdout"):
        begin(toy, tmp_path, uda_holdout_fraction=0.001)
