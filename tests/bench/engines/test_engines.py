"""Engines by name, and worker processes: what they give, and what becomes of them."""

import multiprocessing
import os
import threading
from pathlib import Path

import pytest
import torch

from regraft.bench.engines import EngineOptions, make_engine
from regraft.bench.engines.base import mark_lost, read_outcomes, run_assignment
from regraft.bench.engines.local import LocalEngine, _worker_variables
from regraft.bench.protocol.worker import Assignment, Outcome, perform
from tests.helpers.toy_sweep import ENDLESS, check_records, is_free, make_jobs, wait_until


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("local", {"workers": 0}, "workers is 0: pass at least 1."),
        (
            "local",
            {"address": "auto"},
            "--address means nothing to the local engine: leave it out.",
        ),
        ("ray", {"slurm_time": 3}, "--slurm-time means nothing to the ray engine: leave it out."),
        ("ray", {"gpus_per_worker": 0.0}, "gpus_per_worker is 0.0: pass a number above 0."),
    ],
)
def test_wrong_choices_are_told_in_a_sentence(
    tmp_path: Path, name: str, options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ValueError) as error:
        make_engine(name, EngineOptions(tmp_path, **options))  # type: ignore[arg-type]
    assert str(error.value) == sentence


def test_slurm_is_missed_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit", reason="the extra slurm is not installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"^sbatch is not found: .*\.$"):
        make_engine("slurm", EngineOptions(tmp_path))


def test_workers_share_cores_and_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 5}, raising=False)
    assert LocalEngine().workers == 3
    assert LocalEngine(workers=2).workers == 2
    cuda = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert LocalEngine("cuda").workers == 2
    assert LocalEngine("cuda:1").workers == 1
    gpus = [_worker_variables(cuda, index)["CUDA_VISIBLE_DEVICES"] for index in range(3)]
    assert gpus == ["0", "1", "0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert _worker_variables(cuda, 1) == {"CUDA_VISIBLE_DEVICES": "7"}
    assert _worker_variables(torch.device("cuda:1"), 1) == {}
    assert _worker_variables(torch.device("cpu"), 1) == {"OMP_NUM_THREADS": "1"}


def test_of_a_lost_assignment_what_is_done_or_held_counts(data: Path, tmp_path: Path) -> None:
    done, half, held = make_jobs(data, "ERM", test_envs=[0], n_hparams=3)
    perform(Assignment((done,), tmp_path, data))
    assignment = Assignment((done, half, held), tmp_path, data)
    with assignment.folder(held).claim() as is_ours:
        assert is_ours
        lost = mark_lost(assignment, "it died.")
    assert lost == [
        Outcome(done, "done"),
        Outcome(half, "failed", "it died."),
        Outcome(held, "held"),
    ]
    assert (tmp_path / half.id / "err.txt").read_text() == "it died.\n"
    assert not any((tmp_path / job.id / "err.txt").exists() for job in (done, held))


def test_folders_tell_what_became_of_an_assignment(data: Path, tmp_path: Path) -> None:
    done, failed, held = make_jobs(data, "ERM", test_envs=[0], n_hparams=3)
    assignment = Assignment((done, failed, held), tmp_path / "out", data)
    perform(Assignment((done,), tmp_path / "out", data))
    (tmp_path / "out" / failed.id).mkdir()
    assignment.folder(failed).fail("Traceback (most recent call last):\nValueError: too much")
    assert read_outcomes(assignment) == [
        Outcome(done, "done"),
        Outcome(failed, "failed", "ValueError: too much"),
        Outcome(held, "held"),
    ]
    # A worker never raises.
    [outcome] = run_assignment(Assignment((held,), tmp_path / "out", data, device="meta"))
    assert outcome.state == "failed"
    assert outcome.message


@pytest.mark.slow
def test_processes_give_the_records_of_a_plain_call(data: Path, tmp_path: Path) -> None:
    before = dict(os.environ)
    check_records(LocalEngine(workers=2), data, tmp_path)
    assert dict(os.environ) == before
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_a_killed_worker_fails_its_runs_only(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    [endless] = make_jobs(data, "ERM", test_envs=[0], n_hparams=1, steps=ENDLESS)
    short, *_ = make_jobs(data, "ERM")
    [second] = make_jobs(data, "ERM", test_envs=[1], n_hparams=1, steps=ENDLESS)
    assignments = [Assignment((job,), out, data) for job in (endless, short, second)]
    folders = [assignment.folder(assignment.jobs[0]) for assignment in assignments]

    def kill() -> None:
        wait_until(lambda: len(folders[0].records()) > 1)
        [worker] = multiprocessing.active_children()
        worker.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    outcomes = LocalEngine(workers=1).run(assignments)
    [first] = next(outcomes)
    killer.join()
    assert (first.job, first.state) == (endless, "failed")
    assert first.message.startswith("its worker was killed by signal 9: run the same command")
    assert next(outcomes) == [Outcome(short, "done")]
    wait_until(lambda: len(folders[2].records()) > 1)
    outcomes.close()
    assert multiprocessing.active_children() == []
    assert is_free(folders[2])
