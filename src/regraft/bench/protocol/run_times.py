"""How long the runs of a sweep take, told from those that are done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.run_folder import RunFolder
from regraft.support.schema import SECONDS


def estimate_seconds(jobs: Sequence[Job], out: Path) -> tuple[float, int]:
    """Return about how long the ``jobs`` take that ``out`` does not have, one after another.

    A run takes as long as done ones of its dataset and algorithm do on average. The number that
    comes with it is of the runs of which nothing is known, which are not counted.
    """
    taken: dict[tuple[str, str], list[float]] = defaultdict(list)
    left = []
    for job in jobs:
        folder = RunFolder(out / job.id, job.id)
        if folder.is_done:
            taken[job.dataset, job.algorithm].append(_run_seconds(folder))
        else:
            left.append((job.dataset, job.algorithm))
    means = {key: sum(seconds) / len(seconds) for key, seconds in taken.items()}
    known = [means[key] for key in left if key in means]
    return sum(known), len(left) - len(known)


def _run_seconds(folder: RunFolder) -> float:
    """Sum the time of all steps and evaluations, which is in the records."""
    total, before = 0.0, -1
    for record in folder.records():
        steps, step_time = record["step"] - before, record.get("step_time")
        if SECONDS.fits(record.get("seconds")):
            total += record["seconds"]
        elif SECONDS.fits(step_time):  # of an older version, which shared all time among the steps
            total += step_time * steps
        else:  # damaged
            continue
        before = record["step"]
    return total
