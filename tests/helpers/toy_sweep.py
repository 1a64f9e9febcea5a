"""A sweep of seconds on a small file of features, for the tests of who does it and where."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regraft.bench.datasets import open_dataset
from regraft.bench.engines.base import Engine, OutcomeStream
from regraft.bench.protocol.jobs import Job, sweep_jobs
from regraft.bench.protocol.launch import launch
from regraft.bench.protocol.run_folder import RunFolder
from regraft.bench.protocol.worker import Assignment, perform

STEPS = 21
ENDLESS = 300_000  # steps: minutes
# What no two runs have in common, and the checksum of it all.
CLOCKS = ("step_time", "seconds", "mem_gb", "sha256")


def write_bank(folder: Path) -> Path:
    """Two classes in three domains, 60 rows of five features each, in toy.npz; the folder."""
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 90)
    domain = np.repeat([0, 1, 2], 60)
    x = rng.standard_normal((180, 5)) + np.outer(y, [2, 1, 0, 0, 0]) + 0.3 * domain[:, None]
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "toy.npz", X=x, label=y, domain=domain)
    return folder


def make_jobs(data: Path, *algorithms: str, steps: int = STEPS, **settings: Any) -> list[Job]:
    """Two configurations of each algorithm in one trial, every domain held out in turn."""
    settings = {"n_trials": 1, "n_hparams": 2} | settings
    return sweep_jobs([open_dataset("toy", data)], algorithms, steps=steps, **settings)


def read_records(out: Path) -> dict[str, list[dict[str, Any]]]:
    """The records of every run in ``out`` by its id, less what depends on the clock."""
    return {
        path.parent.name: [
            {key: value for key, value in json.loads(line).items() if key not in CLOCKS}
            for line in path.read_text().splitlines()
        ]
        for path in sorted(out.glob("*/results.jsonl"))
    }


def check_whole(out: Path, jobs: list[Job], steps: int = STEPS, every: int = 100) -> None:
    """Every job is done, with every step of its schedule once and nothing else in the folder."""
    records = read_records(out)
    assert records.keys() == {job.id for job in jobs}
    expected = sorted({*range(0, steps, every), steps - 1})
    for job in jobs:
        assert [record["step"] for record in records[job.id]] == expected
        names = {path.name for path in (out / job.id).iterdir()}
        assert names == {".lock", "results.jsonl", "done"}


def check_records(engine: Engine, data: Path, folder: Path, **settings: Any) -> None:
    """An engine leaves in ``folder`` / out the records of a plain call."""
    jobs, out = make_jobs(data, "ERM", "GroupDRO"), folder / "out"
    perform(Assignment(tuple(jobs), folder / "here", data))
    tally = launch(jobs, out=out, engine=engine, data=data, **settings)
    assert (tally.done, tally.failed) == (len(jobs), ())
    assert read_records(out) == read_records(folder / "here")


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def is_free(folder: RunFolder) -> bool:
    """Whether nobody has claimed the folder: its worker, if it had one, is gone."""
    with folder.claim() as is_ours:
        return is_ours


class Here:
    """An engine without workers: this process does everything, and writes down what it did."""

    workers = 1

    def __init__(self) -> None:
        self.did: list[tuple[str, int]] = []  # ids of jobs and steps

    def run(self, assignments: Sequence[Assignment]) -> OutcomeStream:
        for assignment in assignments:
            yield perform(assignment, lambda job, record: self.did.append((job.id, record["step"])))
