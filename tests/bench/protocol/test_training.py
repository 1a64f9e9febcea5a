"""One run: its records, its schedule, and that a stopped run ends as one that was never stopped."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from regraft.bench.algorithms import algorithms
from regraft.bench.datasets import Dataset, open_dataset
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.run_folder import RunFolder
from regraft.bench.protocol.training import Training, train
from regraft.bench.protocol.worker import Assignment
from tests.helpers.small_tasks import TWO_PHASES
from tests.helpers.toy_sweep import read_records

CPU = torch.device("cpu")
STEPS = 230  # evaluated after steps 0, 100, 200 and 229


def job_of(toy: Dataset, algorithm: str = "ERM", **settings: Any) -> Job:
    settings = {"steps": STEPS, "fingerprint": toy.fingerprint} | settings
    return Job(toy.name, algorithm, settings.pop("test_envs", (0,)), **settings)


def begin(job: Job, toy: Dataset, path: Path, **options: Any) -> Training:
    path.mkdir(parents=True, exist_ok=True)
    options = {"device": CPU, "keep_model": True} | options
    return Training(job, toy, RunFolder(path, job.id), **options)


def go(training: Training, evaluations: int) -> None:
    """Advance until so many evaluations are written."""
    while evaluations:
        training.advance()
        evaluations -= training.settle() is not None


def outcome(path: Path, job: Job) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
    """The records, less what depends on the clock, and the model."""
    assert RunFolder(path, job.id).is_done
    return read_records(path.parent)[path.name], load_file(path / "model.safetensors")


@pytest.mark.parametrize("name", algorithms())
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, toy: Dataset, tmp_path: Path) -> None:
    # A random configuration: dropout and penalties are drawn too. IRM and VREx start over at 150.
    # The discriminators of DANN and CDANN would be large, and are saved at every step.
    switches = {
        "CDANN": '{"mlp_width": 64}',
        "DANN": '{"mlp_width": 64}',
        "IRM": '{"irm_penalty_anneal_iters": 150}',
        "VREx": '{"vrex_penalty_anneal_iters": 150}',
    }
    job = job_of(toy, name, hparams_seed=2, overrides=switches.get(name, "{}"))
    assert not train([begin(job, toy, tmp_path / "whole")])
    # Stopped twice, each time some steps after a checkpoint: these are lost and made again.
    for last in (130, 205):
        training = begin(job, toy, tmp_path / "parts", save_every=0.0)
        while training._next <= last:
            training.advance()
            training.settle()
        for _ in range(10):
            training.advance()
    assert not train([begin(job, toy, tmp_path / "parts")])
    (records, model), (again, resumed) = (
        outcome(tmp_path / where, job) for where in ("whole", "parts")
    )
    expected = [229] if name in TWO_PHASES else [0, 100, 200, 229]
    assert [record["step"] for record in records] == expected
    assert again == records
    assert model.keys() == resumed.keys()
    assert [key for key in model if not torch.equal(model[key], resumed[key])] == []


def test_a_record_has_what_domainbed_writes(toy: Dataset, tmp_path: Path) -> None:
    job = job_of(toy, test_envs=(1,), trial_seed=3)
    train([begin(job, toy, tmp_path)])
    record = RunFolder(tmp_path, job.id).records()[-1]
    splits = {f"env{i}_{part}_acc" for i in range(3) for part in ("in", "out")}
    names = {"step", "epoch", "loss", "step_time", "mem_gb", "hparams", "args"}
    assert splits | names <= record.keys()
    assert all(0 <= record[name] <= 1 for name in splits)
    assert record["epoch"] == 229 / (48 / record["hparams"]["batch_size"])  # 48 of 60 rows
    args = {"dataset": "toy", "algorithm": "ERM", "test_envs": [1], "trial_seed": 3}
    assert args.items() <= record["args"].items()
    assert record["env_names"] == ["0", "1", "2"]
    with pytest.raises(ValueError, match=r"domain 0 has 60 rows, of which a holdout_fraction of"):
        begin(job_of(toy, holdout_fraction=0.01), toy, tmp_path)


def test_what_is_logged_is_the_mean_over_the_interval(toy: Dataset, tmp_path: Path) -> None:
    job = job_of(toy, "DANN")  # whose two kinds of steps return different values
    training = begin(job, toy, tmp_path)
    seen: dict[str, list[float]] = {}
    update = training._algorithm.update

    def listen(step: int, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        values = update(step, x, y)
        if step > 0:
            for name, value in values.items():
                seen.setdefault(name, []).append(float(value))
        return values

    training._algorithm.update = listen  # type: ignore[method-assign]
    go(training, 2)
    record = RunFolder(tmp_path, job.id).records()[-1]
    assert seen.keys() == {"disc_loss", "gen_loss"}
    for name, values in seen.items():
        assert len(values) == 50
        assert record[name] == pytest.approx(np.mean(values), rel=1e-5)


def test_one_run_that_fails_does_not_stop_the_others(toy: Dataset, tmp_path: Path) -> None:
    good, bad = job_of(toy, steps=10), job_of(toy, "GroupDRO", steps=10)
    trainings = [begin(job, toy, tmp_path / job.id) for job in (good, bad)]
    (tmp_path / bad.id / "results.jsonl").mkdir()
    failures = train(trainings)
    assert failures.keys() == {bad}
    assert isinstance(failures[bad], OSError)
    assert RunFolder(tmp_path / good.id, good.id).is_done
    # DomainBed's MLDG draws a NumPy integer, which no record can hold; ours does not.
    job = job_of(toy, "MLDG", hparams_seed=1, compat=True, steps=10)
    assert not train([begin(job, toy, tmp_path / "compat")])


def test_class_balanced_minibatches(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.tile([0] * 9 + [1], 20)
    np.savez(
        tmp_path / "b.npz", X=rng.standard_normal((200, 3)), label=y, domain=np.repeat([0, 1], 100)
    )
    bank = open_dataset("b", tmp_path)
    shares = []
    for balanced in ("false", "true"):
        job = job_of(bank, overrides=f'{{"class_balanced": {balanced}}}', test_envs=(1,))
        training = begin(job, bank, tmp_path / balanced)
        drawn = [training._data.minibatches(step)[1] for step in range(100)]
        shares.append(torch.cat(drawn).double().mean().item())
    assert shares[0] < 0.3
    assert shares[1] == pytest.approx(0.5, abs=0.03)


def test_a_state_of_another_device_is_not_taken_up(toy: Dataset, tmp_path: Path) -> None:
    job = job_of(toy, steps=150)
    folders = [
        Assignment((job,), tmp_path, device=device).folder(job) for device in ("cpu", "cuda")
    ]
    training = Training(job, toy, folders[0], device=CPU, save_every=0.0)
    go(training, 2)
    assert [record["step"] for record in folders[0].records()] == [0, 100]
    resumed = folders[0].resume()
    assert resumed is not None
    assert resumed[0] == 100
    assert folders[1].resume() is None
    assert folders[1].records() == []


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_gpu
@pytest.mark.parametrize("name", algorithms())
def test_recorded_steps_give_the_same_bits(name: str, toy: Dataset, tmp_path: Path) -> None:
    job = job_of(toy, name, hparams_seed=2, steps=40)
    for recorded in (False, True):
        path = tmp_path / str(recorded)
        assert not train([begin(job, toy, path, device=torch.device("cuda"), recorded=recorded)])
    assert outcome(tmp_path / "True", job)[0] == outcome(tmp_path / "False", job)[0]
