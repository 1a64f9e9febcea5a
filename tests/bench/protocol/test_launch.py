"""Sweeps: their order and counts, and that nothing is lost or done twice, come what may."""

import json
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regraft.bench.engines.base import OutcomeStream, mark_lost
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.launch import Tally, check_folder, check_plugins, launch
from regraft.bench.protocol.run_folder import RunFolder
from regraft.bench.protocol.worker import Assignment, Outcome, perform
from tests.helpers.commands import apart
from tests.helpers.paths import ROOT
from tests.helpers.toy_sweep import (
    Here,
    check_whole,
    is_free,
    make_jobs,
    read_records,
    wait_until,
)

STEPS = 201
# The folders of the data and of the sweep, then "here" or a number of worker processes.
LAUNCHER = """
import json, os, sys
from pathlib import Path
from tests.helpers.toy_sweep import Here, make_jobs
from regraft.bench.engines.local import LocalEngine
from regraft.bench.protocol.launch import launch

os.fsync = lambda descriptor: None  # only a power cut would tell
if __name__ == "__main__":
    data, out, kind, steps = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    engine = Here() if kind == "here" else LocalEngine(workers=int(kind))
    jobs = make_jobs(data, "ERM", steps=steps)
    print("ready", flush=True)
    sys.stdin.readline()
    tally = launch(jobs, out=out, engine=engine, data=data, save_every=0)
    print(json.dumps([tally.total, tally.done, len(tally.failed), getattr(engine, "did", None)]))
"""


def start_launcher(data: Path, out: Path, kind: str, steps: int) -> subprocess.Popen[str]:
    """A process that is ready to launch and does so when it is written to."""
    settings = apart(data, out, kind, steps, code=LAUNCHER, path=[ROOT])
    return subprocess.Popen(**settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


class Listing:
    """An engine that does nothing but tell what it was asked for."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers, self.asked = workers, list[Assignment]()

    def run(self, assignments: Sequence[Assignment]) -> OutcomeStream:
        self.asked += assignments
        for assignment in assignments:
            yield [Outcome(job, "failed", "not done") for job in assignment.jobs]


def test_a_sweep_is_counted_and_a_second_launch_does_nothing(data: Path, tmp_path: Path) -> None:
    jobs = make_jobs(data, "ERM")
    tallies: list[Tally] = []
    tally = launch(jobs, out=tmp_path, engine=Here(), data=data, on_change=tallies.append)
    check_whole(tmp_path, jobs)
    assert [(t.done, t.running, t.left) for t in tallies] == [
        (0, 0, 6),
        *((n, min(1, 6 - n), 6 - n) for n in range(7)),
    ]
    assert (tally.total, tally.done, tally.done_before, tally.failed) == (6, 6, 0, ())
    assert tally.time_left == ""
    engine = Here()
    tally = launch(jobs, out=tmp_path, engine=engine, data=data)
    assert (tally.done, tally.done_before, engine.did) == (6, 6, [])


def test_default_configurations_of_all_come_first(data: Path, tmp_path: Path) -> None:
    jobs = make_jobs(data, "ERM", "GroupDRO", n_trials=2, n_hparams=3, test_envs=[0])
    engine = Listing()
    launch(jobs, out=tmp_path, engine=engine, data=data)
    asked = [assignment.jobs[0] for assignment in engine.asked]
    assert [(job.hparams_seed, job.trial_seed, job.algorithm) for job in asked] == [
        (config, trial, algorithm)
        for config in range(3)
        for trial in range(2)
        for algorithm in ("ERM", "GroupDRO")
    ]


@pytest.mark.parametrize(
    ("settings", "workers", "sizes"),
    [
        ({}, None, [1] * 6),
        ({"together": 4}, None, [4, 2]),
        ({"device": "cuda"}, None, [6]),
        ({"device": "cuda"}, 3, [2, 2, 2]),
    ],
)
def test_runs_are_grouped_so_that_every_worker_gets_some(
    data: Path, tmp_path: Path, settings: dict[str, Any], workers: int | None, sizes: list[int]
) -> None:
    engine = Listing(workers)
    launch(make_jobs(data, "ERM"), out=tmp_path, engine=engine, data=data, **settings)
    assert [len(assignment.jobs) for assignment in engine.asked] == sizes
    assert {assignment.device for assignment in engine.asked} == {settings.get("device", "cpu")}
    assert all(assignment.out.is_absolute() for assignment in engine.asked)


def test_failures_do_not_stop_the_rest_and_time_is_told(data: Path, tmp_path: Path) -> None:
    jobs = make_jobs(data, "ERM", test_envs=[0])
    bad = replace(jobs[0], dataset="missing")
    tally = launch([bad, *jobs], out=tmp_path, engine=Here(), data=data)
    assert (tally.total, tally.done, tally.left) == (3, 2, 0)
    [outcome] = tally.failed
    assert outcome.job == bad
    assert "missing" in outcome.message
    failed = (Outcome(Job("toy", "ERM", (0,)), "failed", "no"),)
    tally = Tally(100, 53, 50, 1, 0, failed, seconds=40.0)
    assert tally.left == 46
    assert tally.time_left == "about 8 min"  # 46 times 10 s
    assert replace(tally, done=50, failed=()).time_left == ""
    assert replace(tally, is_warming_up=True).time_left == "at most about 8 min"
    later = replace(tally, warm_runs=1, warm_seconds=34.0)
    assert later.time_left == "about 2 min"  # 46 times 2 s


def test_the_start_of_workers_is_not_in_the_time_left(data: Path, tmp_path: Path) -> None:
    told: list[Tally] = []
    jobs = make_jobs(data, "ERM")
    launch(jobs, out=tmp_path, engine=Here(), data=data, on_change=told.append)
    ended = [tally for tally in told if tally.done]
    assert [tally.is_warming_up for tally in ended] == [True] + [False] * 5
    assert ended[0].time_left.startswith("at most about ")
    assert all(tally.warm_runs == 1 for tally in ended[1:])
    assert all(tally.warm_seconds == ended[0].seconds for tally in ended[1:])
    assert [tally.time_left[:6] for tally in ended[1:]] == ["about "] * 4 + [""]


def test_runs_that_another_launcher_gives_up_are_done_here(data: Path, tmp_path: Path) -> None:
    jobs = make_jobs(data, "ERM", test_envs=[0])
    folder = RunFolder(tmp_path / jobs[0].id, jobs[0].id)
    is_held, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        with folder.claim():
            is_held.set()
            may_go.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait()
    engine, held = Here(), []

    def release_when_held(tally: Tally) -> None:
        held.append(tally.held)
        if tally.held:
            may_go.set()

    tally = launch(jobs, out=tmp_path, engine=engine, data=data, on_change=release_when_held)
    holder.join()
    assert tally.done == 2
    assert 1 in held and held[-1] == 0
    check_whole(tmp_path, jobs)


@pytest.mark.slow
def test_two_launchers_at_once_share_a_sweep(data: Path, tmp_path: Path) -> None:
    jobs = make_jobs(data, "ERM", steps=STEPS)
    launchers = [start_launcher(data, tmp_path, "here", STEPS) for _ in range(2)]
    for launcher in launchers:
        assert launcher.stdout is not None and launcher.stdout.readline() == "ready\n"
    results = [None, None]

    def go(index: int) -> None:
        results[index] = json.loads(launchers[index].communicate("go\n")[0])

    threads = [threading.Thread(target=go, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result[:3] for result in results] == [[6, 6, 0], [6, 6, 0]]
    did = [{tuple(pair) for pair in result[3]} for result in results]
    assert all(did)  # each did some
    assert not did[0] & did[1]
    steps = {*range(0, STEPS, 100)}
    assert did[0] | did[1] == {(job.id, step) for job in jobs for step in steps}
    check_whole(tmp_path, jobs, STEPS)


@pytest.mark.slow
def test_a_killed_sweep_is_completed_as_if_nothing_had_happened(data: Path, tmp_path: Path) -> None:
    jobs = make_jobs(data, "ERM", steps=STEPS)
    out, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    perform(Assignment(tuple(jobs), undisturbed, data))
    folders = [RunFolder(out / job.id, job.id) for job in jobs]

    def is_half_done() -> bool:
        return any(folder.is_done for folder in folders) and any(
            not folder.is_done and len(folder.records()) > 1 for folder in folders
        )

    with start_launcher(data, out, "2", STEPS) as launcher:
        assert launcher.stdin is not None and launcher.stdout is not None
        launcher.stdin.write("go\n")
        launcher.stdin.flush()
        wait_until(is_half_done)
        launcher.kill()
    wait_until(lambda: all(map(is_free, folders)))  # its workers die with it
    before = {key: len(records) for key, records in read_records(out).items()}
    engine = Here()
    tally = launch(jobs, out=out, engine=engine, data=data, save_every=0)
    assert 0 < tally.done_before < tally.done == len(jobs)
    assert read_records(out) == read_records(undisturbed)
    check_whole(out, jobs, STEPS)
    total = sum(map(len, read_records(out).values()))
    # What was recorded is not done again, but for at most the last record of each run under way.
    assert total - sum(before.values()) <= len(engine.did) <= total - sum(before.values()) + 2


@pytest.mark.parametrize("again", ["launch", "perform", "lost"])
def test_a_checkpoint_left_beside_a_finished_run_is_removed(
    data: Path, tmp_path: Path, again: str
) -> None:
    [job] = make_jobs(data, "ERM", test_envs=[0], n_hparams=1)
    assignment = Assignment((job,), tmp_path, data)
    perform(assignment)
    assignment.folder(job).save(0, {})  # as if killed before it was removed
    if again == "launch":
        launch([job], out=tmp_path, engine=Here(), data=data)
    elif again == "perform":
        perform(assignment)
    else:
        mark_lost(assignment, "it died.")
    check_whole(tmp_path, [job])


def test_a_folder_with_the_same_runs_otherwise_is_refused(data: Path, tmp_path: Path) -> None:
    jobs = make_jobs(data, "ERM", test_envs=[0])
    check_folder(tmp_path / "missing", jobs)
    launch(jobs, out=tmp_path, engine=Here(), data=data)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "results.jsonl").write_text('{"step": 0}\n')
    check_folder(tmp_path, jobs)
    check_folder(tmp_path, make_jobs(data, "ERM", test_envs=[0, 1], n_hparams=3))
    for args in (
        '{"dataset": [], "algorithm": "ERM", "test_envs": [], "trial_seed": 0, "hparams_seed": 0}',
        "[]",
        "1",
    ):  # damaged
        line = f'{{"step": 0, "args": {args}}}\n'
        (tmp_path / "other" / "results.jsonl").write_text(line)
        check_folder(tmp_path, jobs)
        check_plugins(tmp_path, [replace(job, origin="a plugin", steps=31) for job in jobs])
    other = r"with other settings or data, such as \w+ \(there and here: steps 21 and 31\): choose"
    with pytest.raises(ValueError, match=other):
        check_folder(tmp_path, make_jobs(data, "ERM", test_envs=[0], steps=31))


def test_runs_that_are_done_without_models_are_told(data: Path, tmp_path: Path) -> None:
    jobs = make_jobs(data, "ERM", steps=3)[:2]
    launch(jobs[:1], out=tmp_path, engine=Here(), data=data)
    with pytest.warns(UserWarning, match="has 1 run from before that kept no model"):
        launch(jobs, out=tmp_path, engine=Here(), data=data, keep_models=True)
    kept = [RunFolder(tmp_path / job.id, job.id).has_model for job in jobs]
    assert kept == [False, True]
