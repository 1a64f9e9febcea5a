"""Runs given to a worker: those that nobody else has or has done are brought to their end."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, Protocol

import torch

from regraft.bench.datasets import Dataset, open_dataset
from regraft.bench.plugins import load_plugins
from regraft.bench.protocol.jobs import Job, find_origin
from regraft.bench.protocol.run_folder import RunFolder
from regraft.bench.protocol.training import SAVE_EVERY, Record, Training, train

State = Literal["done", "held", "failed"]


class DatasetSource(Hashable, Protocol):
    """Where a worker finds a dataset that has no name; equal ones are the same dataset."""

    def open(self) -> Dataset:
        """Return the dataset."""


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Assignment:
    """Runs for one worker to do side by side, and where. Paths are as the worker sees them."""

    jobs: tuple[Job, ...]
    out: Path
    data: Path | None = None
    device: str = "cpu"
    save_every: float = SAVE_EVERY
    keep_model: bool = False
    keep_every: bool = False  # the model of every evaluation
    weights: Path | None = None  # that featurizers start from
    plugins: tuple[Path, ...] = ()  # files of code that the runs depend on
    source: DatasetSource | None = None  # of the dataset, if it is not one by name

    def folder(self, job: Job) -> RunFolder:
        """Return the folder of one of the runs."""
        # A state of one kind of device is of no use to another, which starts over.
        return RunFolder(self.out / job.id, f"{job.id} {torch.device(self.device).type}")


@dataclass(frozen=True)
class Outcome:
    """What became of a run: done (now or before), held by another worker, or failed."""

    job: Job
    state: State
    message: str = ""  # why it failed, in one line


def perform(
    assignment: Assignment,
    on_record: Callable[[Job, Record], None] | None = None,
    dataset: Dataset | None = None,
) -> list[Outcome]:
    """Do the runs of ``assignment``, each from where it was stopped; in their order.

    A run that fails leaves the reason in its folder and does not stop the others. Without a
    ``dataset`` in memory that of each run is opened.
    """
    device = torch.device(assignment.device)
    outcomes: dict[Job, Outcome] = {}
    trainings = []
    with ExitStack() as claims:
        for job in assignment.jobs:
            folder = assignment.folder(job)
            try:
                is_done = folder.is_done
                is_ours = is_done or claims.enter_context(folder.claim())
                # Asked again, for another worker may have finished it before the claim.
                if is_done or folder.is_done:
                    folder.clear()
                    outcomes[job] = Outcome(job, "done")
                elif not is_ours:
                    outcomes[job] = Outcome(job, "held")
                else:
                    load_plugins(assignment.plugins)
                    opened = dataset or _find_dataset(job, assignment)
                    _check_origin(job, opened)
                    training = Training(
                        job,
                        opened,
                        folder,
                        device=device,
                        save_every=assignment.save_every,
                        keep_model=assignment.keep_model,
                        keep_every=assignment.keep_every,
                        weights=assignment.weights,
                    )
                    trainings.append(training)
            except Exception as error:
                outcomes[job] = _failed(folder, job, error)
        for job, failure in train(trainings, on_record).items():
            outcomes[job] = _failed(assignment.folder(job), job, failure)
    return [outcomes.get(job, Outcome(job, "done")) for job in assignment.jobs]


def group_jobs(jobs: Sequence[Job], size: int) -> list[tuple[Job, ...]]:
    """Group ``jobs`` by at most ``size``, each group of one dataset."""
    groups = []
    for name in dict.fromkeys(job.dataset for job in jobs):
        same = [job for job in jobs if job.dataset == name]
        groups += [tuple(same[i : i + size]) for i in range(0, len(same), size)]
    return groups


def _find_dataset(job: Job, assignment: Assignment) -> Dataset:
    if assignment.source is not None:
        return _open_source(assignment.source)
    return _open(job.dataset, assignment.data, job.fingerprint)


@lru_cache(maxsize=1)
def _open_source(source: DatasetSource) -> Dataset:
    return source.open()


# A worker gets many assignments; the dataset of the last one or two is still in its memory.
@lru_cache(maxsize=2)
def _open(name: str, data: Path | None, fingerprint: str) -> Dataset:
    dataset = open_dataset(name, data)
    if dataset.fingerprint != fingerprint:
        raise ValueError(f"{name} is other data than the run is for: put that back or start anew.")
    return dataset


def _check_origin(job: Job, dataset: Dataset) -> None:
    found = find_origin(job.algorithm, dataset)
    if found != job.origin:
        raise ValueError(
            f"the run is for the plugin {job.origin or 'of none'}, but the worker has "
            f"{found or 'none'}: run the same command again, with plugins that do not change."
        )


def one_line(error: BaseException) -> str:
    """Say in one line what an error says, and what it is if that was no sentence of ours."""
    said, kind = " ".join(str(error).split()), type(error).__name__
    if isinstance(error, ValueError | OSError):
        return said or kind
    return f"{kind}: {said}" if said else kind


def _failed(folder: RunFolder, job: Job, error: Exception) -> Outcome:
    message = one_line(error)
    if isinstance(error, torch.OutOfMemoryError):
        message = "the GPU's memory is full: run fewer side by side with --together."
    elif isinstance(error, OSError) and error.errno in _FULL:
        message = f"{folder.path} could not be written ({error.strerror}): free some disk space."
    with suppress(OSError):  # a full disk, most likely; the message still reaches the launcher
        folder.fail("".join(traceback.format_exception(error)))
    return Outcome(job, "failed", message)
