"""What every engine is: workers, here or elsewhere, that assignments are given to."""

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
    """A way to have assignments done."""

    @property
    def workers(self) -> int | None:
        """How many assignments are done at once; None if that is not known."""

    def run(self, assignments: Sequence[Assignment]) -> OutcomeStream:
        """The outcomes of each assignment as it ends, in any order.

        The runs of a worker that dies fail, and nothing is raised. Closing the generator, or an
        exception inside it such as an interrupt, stops all workers.
        """


@dataclass(frozen=True)
class EngineOptions:
    """What users choose of an engine; None for its default."""

    out: Path  # the sweep's folder
    device: str = "cpu"
    workers: int | None = None
    address: str | None = None  # of a Ray cluster
    gpus_per_worker: float | None = None
    slurm_partition: str | None = None
    slurm_time: int | None = None  # minutes


def run_assignment(assignment: Assignment) -> list[Outcome]:
    """What a worker does: the runs of ``assignment``, whatever happens."""
    if torch.device(assignment.device).type == "cpu":
        # One thread, for workers share the cores; and sums depend on the number of threads.
        torch.set_num_threads(1)
    try:
        return perform(assignment)
    except Exception as error:
        return mark_lost(assignment, one_line(error))


def mark_lost(assignment: Assignment, message: str) -> list[Outcome]:
    """The outcomes of an assignment whose worker has died, with a note in the runs' folders."""
    outcomes = []
    for job in assignment.jobs:
        folder = assignment.folder(job)
        with folder.claim() as is_free:
            if folder.is_done:
                outcomes.append(Outcome(job, "done"))
            elif not is_free:
                outcomes.append(Outcome(job, "held"))
            else:
                with suppress(OSError):  # a full disk; the message still reaches the launcher
                    folder.fail(message)
                outcomes.append(Outcome(job, "failed", message))
    return outcomes


def read_outcomes(assignment: Assignment) -> list[Outcome]:
    """The outcomes of an assignment whose worker has ended, as its folders tell them."""
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
