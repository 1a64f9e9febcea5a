"""What workers do: runs that are begun, taken up again, left to others, or that fail alone."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from regraft.bench.protocol import training
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.run_folder import RunFolder
from regraft.bench.protocol.worker import Assignment, Outcome, group_jobs, perform
from regraft.support.seals import unseal
from tests.helpers.toy_sweep import STEPS, check_whole, make_jobs, read_records, write_bank


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """No file can grow beyond ``limit`` bytes inside, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_runs_give_the_same_records_alone_and_side_by_side(data: Path, tmp_path: Path) -> None:
    jobs = make_jobs(data, "ERM", "GroupDRO")
    side_by_side, alone = tmp_path / "together", tmp_path / "alone"
    outcomes = perform(Assignment(tuple(jobs), side_by_side, data))
    assert outcomes == [Outcome(job, "done") for job in jobs]
    for job in reversed(jobs):
        perform(Assignment((job,), alone, data))
    assert read_records(side_by_side) == read_records(alone)
    check_whole(alone, jobs)


def test_records_have_the_protocols_fields(data: Path, tmp_path: Path) -> None:
    [job] = make_jobs(data, "ERM", test_envs=[1], n_hparams=1)
    seen: list[tuple[Job, dict[str, Any]]] = []
    perform(Assignment((job,), tmp_path, data), lambda job, record: seen.append((job, record)))
    lines = (tmp_path / job.id / "results.jsonl").read_text().splitlines()
    kept = [unseal(json.loads(line)) for line in lines]
    assert kept == [(record, True) for _, record in seen]
    first, last = (record for _, record in seen)
    assert {job for job, _ in seen} == {job}
    assert (first["step"], last["step"]) == (0, STEPS - 1)
    # 48 training rows of the smaller domain, 32 in a batch.
    assert last["epoch"] == pytest.approx((STEPS - 1) * 32 / 48)
    assert first["args"]["test_envs"] == [1]
    assert first["args"]["output_dir"] == job.id
    assert first["hparams"]["lr"] == 1e-3
    shares = [
        first[f"env{i}_{part}_acc"] * n for i in range(3) for part, n in (("in", 48), ("out", 12))
    ]
    assert shares == pytest.approx([round(share) for share in shares])


def test_a_run_goes_on_from_where_it_was_stopped(data: Path, tmp_path: Path) -> None:
    [job] = make_jobs(data, "ERM", test_envs=[0], n_hparams=1, steps=301)
    perform(Assignment((job,), tmp_path / "a", data))
    broken = Assignment((job,), tmp_path / "b", data, save_every=0)

    def stop(job: Job, record: dict[str, Any]) -> None:
        if record["step"] == 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform(broken, stop)
    again: list[int] = []
    perform(broken, lambda job, record: again.append(record["step"]))
    assert again == [300]
    assert read_records(tmp_path / "b") == read_records(tmp_path / "a")
    check_whole(tmp_path / "b", [job], steps=301)


def test_what_is_done_or_held_is_not_done_again(data: Path, tmp_path: Path) -> None:
    done, held, other = make_jobs(data, "ERM", test_envs=[0], n_hparams=3)
    perform(Assignment((done,), tmp_path, data))
    before = (tmp_path / done.id / "results.jsonl").stat()
    done_now: list[str] = []
    with RunFolder(tmp_path / held.id, held.id).claim():
        outcomes = perform(
            Assignment((done, held, other), tmp_path, data),
            lambda job, record: done_now.append(job.id),
        )
    assert outcomes == [Outcome(done, "done"), Outcome(held, "held"), Outcome(other, "done")]
    assert set(done_now) == {other.id}
    assert (tmp_path / done.id / "results.jsonl").stat() == before
    assert not (tmp_path / held.id / "results.jsonl").exists()


def test_a_run_that_fails_leaves_its_reason(data: Path, tmp_path: Path) -> None:
    good, other = make_jobs(data, "ERM", test_envs=[0])
    bad = replace(other, overrides='{"batch_size": 0}')
    missing = replace(other, dataset="missing")
    outcomes = perform(Assignment((bad, missing, good), tmp_path, data))
    assert [outcome.state for outcome in outcomes] == ["failed", "failed", "done"]
    assert "dataset is 'missing'" in outcomes[1].message
    for job, outcome in ((bad, outcomes[0]), (missing, outcomes[1])):
        trace = (tmp_path / job.id / "err.txt").read_text()
        assert trace.startswith("Traceback")
        assert "\n" not in outcome.message
        assert outcome.message


def test_data_that_changed_is_not_taken_for_what_it_was(tmp_path: Path) -> None:
    data = write_bank(tmp_path / "data")
    before, _ = make_jobs(data, "ERM", test_envs=[0])
    perform(Assignment((before,), tmp_path / "out", data))
    with np.load(data / "toy.npz") as arrays:
        changed = {name: arrays[name] for name in arrays.files}
    changed["X"] = changed["X"][::-1]  # to other labels and domains
    np.savez(data / "toy.npz", **changed)
    after, _ = make_jobs(data, "ERM", test_envs=[0])
    assert after.id != before.id
    [outcome] = perform(Assignment((after,), tmp_path / "out", data))
    assert outcome.state == "done"
    first, second = read_records(tmp_path / "out").values()
    assert first[-1]["loss"] != second[-1]["loss"]
    stale = replace(before, trial_seed=1, fingerprint="of what is gone")
    [outcome] = perform(Assignment((stale,), tmp_path / "out", data))
    assert outcome.message == "toy is other data than the run is for: put that back or start anew."


def test_a_failure_in_the_middle_is_mended_by_the_next_attempt(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [job] = make_jobs(data, "ERM", test_envs=[0], n_hparams=1)
    assignment = Assignment((job,), tmp_path, data)
    with monkeypatch.context() as patch:
        patch.setattr(training, "count_correct", lambda *_: 1 / 0)
        [outcome] = perform(assignment)
    assert outcome == Outcome(job, "failed", "ZeroDivisionError: division by zero")
    [outcome] = perform(assignment)
    assert outcome.state == "done"
    check_whole(tmp_path, [job])


@pytest.mark.parametrize(
    ("steps", "save_every", "limit"),
    [
        pytest.param(301, 0, 0, id="nothing fits"),
        pytest.param(301, 0, 500, id="half a record fits"),
        pytest.param(301, 0, 5000, id="no checkpoint fits"),
        pytest.param(301, 1e9, 2000, id="two records and a half fit"),
        pytest.param(21, 0, 2500, id="all records fit and no model"),
    ],
)
def test_a_full_disk_fails_the_run_with_a_sentence_and_tears_nothing(
    data: Path, tmp_path: Path, steps: int, save_every: float, limit: int
) -> None:
    [job] = make_jobs(data, "ERM", test_envs=[0], n_hparams=1, steps=steps)
    assignment = Assignment((job,), tmp_path / "full", data, "cpu", save_every, keep_model=True)
    with file_size_limit(limit):
        [outcome] = perform(assignment)
    assert outcome.state == "failed"
    assert outcome.message.endswith("free some disk space.")
    assert not RunFolder(tmp_path / "full" / job.id, job.id).is_done
    [outcome] = perform(assignment)
    assert outcome.state == "done"
    whole = replace(assignment, out=tmp_path / "whole")
    perform(whole)
    assert read_records(tmp_path / "full") == read_records(tmp_path / "whole")
    names = {path.name for path in (tmp_path / "full" / job.id).iterdir()}
    assert names == {".lock", "results.jsonl", "done", "model.safetensors"}


def test_a_kept_model_has_the_networks_weights(data: Path, tmp_path: Path) -> None:
    [job] = make_jobs(data, "ERM", test_envs=[0], n_hparams=1)
    perform(Assignment((job,), tmp_path, data, keep_model=True))
    model = load_file(tmp_path / job.id / "model.safetensors")
    shapes = {name: tuple(tensor.shape) for name, tensor in model.items()}
    assert (2, 64) in shapes.values()  # two classes of the features' 64 numbers


def test_groups_are_of_one_dataset_and_keep_the_order() -> None:
    jobs = [Job(name, "ERM", (env,)) for env in range(3) for name in ("a", "b")]
    groups = group_jobs(jobs, 2)
    assert [[(job.dataset, *job.test_envs) for job in group] for group in groups] == [
        [("a", 0), ("a", 1)],
        [("a", 2)],
        [("b", 0), ("b", 1)],
        [("b", 2)],
    ]
