"""Base of the engines: workers, here or elsewhere, that execute assignments."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from regraft.bench.protocol.worker import Assignment, Outcome, one_line, perform

OutcomeStream = Generator[list[Outcome], None, None]


class Engine(Protocol):
    """Way to execute assignments."""

    @property
    def workers(self) -> int | None:
        """Number of assignments that are executed at once; None if it is not known."""

    def run(self, assignments: Sequence[Assignment]) -> OutcomeStream:
        """Yield the outcomes of each assignment as it ends, in any order.

        If a worker dies, its runs fail and nothing is raised. Closing the generator, or an
        exception inside it such as an interrupt, stops all workers.
        """


@dataclass(frozen=True)
class EngineOptions:
    """Options of an engine that users choose; None takes the default."""

    out: Path  # the sweep's folder
    device: str = "cpu"
    workers: int | None = None
    address: str | None = None  # of a Ray cluster
    gpus_per_worker: float | None = None  # on device cuda: one
    slurm_partition: str | None = None
    slurm_time: int | None = None  # minutes

    @property
    def gpus(self) -> float:
        """Number of GPUs for each worker."""
        if torch.device(self.device).type != "cuda":
            return 0.0
        return 1.0 if self.gpus_per_worker is None else self.gpus_per_worker


def run_assignment(assignment: Assignment) -> list[Outcome]:
    """Execute the runs of ``assignment`` in a worker; an exception marks them as failed."""
    if torch.device(assignment.device).type == "cpu":
        # One thread: workers share the cores, and sums depend on the number of threads.
        torch.set_num_threads(1)
    try:
        return perform(assignment)
    except Exception as error:
        return mark_lost(assignment, one_line(error))


def mark_lost(assignment: Assignment, message: str) -> list[Outcome]:
    """Return the outcomes of an assignment whose worker died, and note it in the runs' folders."""
    outcomes = []
    for job in assignment.jobs:
        folder = assignment.folder(job)
        with folder.claim() as is_free:
            if folder.is_done:
                folder.clear()
                outcomes.append(Outcome(job, "done"))
            elif not is_free:
                outcomes.append(Outcome(job, "held"))
            else:
                with suppress(OSError):  # a full disk; the message still reaches the launcher
                    folder.fail(message)
                outcomes.append(Outcome(job, "failed", message))
    return outcomes


def read_outcomes(assignment: Assignment) -> list[Outcome]:
    """Read the outcomes of an assignment whose worker has ended from its folders."""
    outcomes = []
    for job in assignment.jobs:
        folder = assignment.folder(job)
        if folder.is_done:
            outcomes.append(Outcome(job, "done"))
        elif folder.failure:
            outcomes.append(Outcome(job, "failed", folder.failure))
        else:  # another worker has it, or had it until a moment ago
            outcomes.append(Outcome(job, "held"))
    return outcomes
