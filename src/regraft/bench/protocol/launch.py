"""The launcher: has the runs of a sweep done that are not done yet, by whatever engine."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regraft.bench.engines import Engine
from regraft.bench.protocol.jobs import PLUGIN, Job
from regraft.bench.protocol.results import RunKey, run_key
from regraft.bench.protocol.run_folder import RESULTS, RunFolder
from regraft.bench.protocol.run_lines import read_first_record
from regraft.bench.protocol.setting_differences import describe_differences
from regraft.bench.protocol.training import SAVE_EVERY
from regraft.bench.protocol.worker import Assignment, Outcome, group_jobs
from regraft.support.plurals import count
from regraft.support.progress import duration

_TOGETHER_GPU = 20  # runs that a GPU does side by side
_POLL = 1.0  # seconds between looks at runs that others have


@dataclass(frozen=True)
class Tally:
    """How far a sweep is."""

    total: int
    done: int  # those done before included
    done_before: int
    running: int  # about: as many as the engine does at once
    held: int  # those that another launcher has
    failed: tuple[Outcome, ...]
    seconds: float  # since the launch
    warm_runs: int = 0  # those that ended first, one for each that runs at once
    warm_seconds: float = 0.0  # until they had ended
    is_warming_up: bool = False  # while these run

    @property
    def left(self) -> int:
        """Runs that are neither done nor failed."""
        return self.total - self.done - len(self.failed)

    @property
    def time_left(self) -> str:
        """About how long the rest takes, empty while nobody knows.

        The start of workers is in the time of their first runs, so these do not count later on.
        """
        finished = self.done - self.done_before + len(self.failed) - self.warm_runs
        if finished <= 0 or not self.left:
            return ""
        pace = (self.seconds - self.warm_seconds) / finished
        return f"{'at most ' if self.is_warming_up else ''}{duration(pace * self.left)}"

    def to_dict(self, out: Path) -> dict[str, Any]:
        """Return the counts, and what failed in which folder of ``out``, in JSON's types."""
        failed = [
            {"run": each.job.label, "folder": str(out / each.job.id), "message": each.message}
            for each in self.failed
        ]
        counts = {"total": self.total, "done": self.done, "done_before": self.done_before}
        return {**counts, "failed": failed, "seconds": round(self.seconds, 2)}


def launch(
    jobs: Sequence[Job],
    *,
    out: Path,
    engine: Engine,
    data: Path | None = None,
    device: str = "cpu",
    together: int | None = None,
    save_every: float = SAVE_EVERY,
    keep_models: bool = False,
    weights: Path | None = None,
    plugins: Sequence[Path] = (),
    on_change: Callable[[Tally], None] | None = None,
) -> Tally:
    """Have those of ``jobs`` done that the folder ``out`` does not have, default ones first.

    A worker does ``together`` runs side by side, by default 20 on a GPU and one elsewhere. Runs
    that another launcher has are waited for, and done here if it gives them up. Those that fail
    are not tried again before the next launch. Workers run the files ``plugins`` first.
    """
    out, data, weights = out.absolute(), data and data.absolute(), weights and weights.absolute()
    files = tuple(path.absolute() for path in plugins)
    book = _Book(jobs, out)
    ready = sorted(book.left, key=_rank)
    if keep_models:
        _warn_of_runs_without_models(jobs, out)

    def report(slots: int) -> None:
        if on_change is not None:
            on_change(book.tally(slots))

    report(slots=0)
    while ready:
        size = _group_size(len(ready), engine.workers, device, together)
        groups = sorted(group_jobs(ready, size), key=lambda group: _rank(group[0]))
        assignments = [
            Assignment(
                group, out, data, device, save_every, keep_models, weights=weights, plugins=files
            )
            for group in groups
        ]
        with closing(engine.run(assignments)) as ended:
            report((engine.workers or len(groups)) * size)
            for outcomes in ended:
                book.add(outcomes)
                report((engine.workers or len(groups)) * size)
        ready = sorted(book.await_held(lambda: report(slots=0)), key=_rank)
    return book.tally(slots=0)


def _warn_of_runs_without_models(jobs: Sequence[Job], out: Path) -> None:
    folders = [RunFolder(out / job.id, job.id) for job in jobs]
    without = [folder for folder in folders if folder.is_done and not folder.has_model]
    if without:
        warnings.warn(
            f"{out} has {count(len(without), 'runs')} from before that kept no model: remove their "
            "folders to make them anew.",
            stacklevel=3,
        )


def check_folder(out: Path, jobs: Sequence[Job]) -> None:
    """Raise ``ValueError`` if ``out`` has one of ``jobs`` with settings that no table can mix."""
    check_plugins(out, jobs)
    ids = {job.id for job in jobs}
    ours = {run_key({"args": job.args}): job.args for job in jobs}
    for path in sorted(out.glob(f"*/{RESULTS}")):
        if path.parent.name in ids:
            continue
        record = read_first_record(path) or {}
        key = _key(record)
        if key in ours:
            differences = describe_differences(record["args"], ours[key]) or "other data"
            raise ValueError(
                f"{out} holds runs of the same kind with other settings or data, such as "
                f"{path.parent.name} (there and here: {differences}): choose another folder with "
                "--out."
            )


def check_plugins(out: Path, jobs: Sequence[Job]) -> None:
    """Raise ``ValueError`` if ``out`` has one of ``jobs`` by another version of a plugin."""
    origins = {_without_plugin(job.args): job.origin for job in jobs if job.origin}
    for path in sorted(out.glob(f"*/{RESULTS}")) if origins else ():
        args = (read_first_record(path) or {}).get("args")
        if not isinstance(args, dict):
            continue
        now = origins.get(_without_plugin(args))
        if now is not None and args.get(PLUGIN) != now:
            raise ValueError(
                f"{path.parent} was begun with the plugin {args.get(PLUGIN)}, which is now {now}: "
                "put that back, or choose another folder with --out."
            )


class _Book:
    """What has become of each run so far."""

    def __init__(self, jobs: Sequence[Job], out: Path) -> None:
        self._start = time.perf_counter()
        self._folders = {job: RunFolder(out / job.id, job.id) for job in jobs}
        self.left = []
        for job, folder in self._folders.items():
            if folder.is_done:
                folder.clear()
            else:
                self.left.append(job)
        self._done = self._done_before = len(self._folders) - len(self.left)
        self._failed: list[Outcome] = []
        self._held: list[Job] = []
        self._warm: tuple[int, float] | None = None  # runs that ended first, and when

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Write down what a worker tells."""
        for outcome in outcomes:
            if outcome.state == "done":
                self._done += 1
            elif outcome.state == "held":
                self._held.append(outcome.job)
            else:
                self._failed.append(outcome)

    def await_held(self, on_look: Callable[[], None]) -> list[Job]:
        """Wait until others have done what they have, or give up some of it, which is returned."""
        free: list[Job] = []
        while self._held and not free:
            held, self._held = self._held, []
            for job in held:
                folder = self._folders[job]
                with folder.claim() as is_free:
                    if folder.is_done:
                        self._done += 1
                    else:
                        (free if is_free else self._held).append(job)
            on_look()
            if self._held and not free:
                time.sleep(_POLL)
        return free

    def tally(self, slots: int) -> Tally:
        """Return the counts, with at most ``slots`` runs under way."""
        n, seconds = len(self._folders), time.perf_counter() - self._start
        ended = self._done - self._done_before + len(self._failed)
        warm = self._warm
        if warm is None and 0 < slots <= ended:
            self._warm = ended, seconds  # for later tallies: this one would know nothing
        left = n - self._done - len(self._failed) - len(self._held)
        return Tally(
            total=n,
            done=self._done,
            done_before=self._done_before,
            running=min(slots, left),
            held=len(self._held),
            failed=tuple(self._failed),
            seconds=seconds,
            warm_runs=warm[0] if warm else 0,
            warm_seconds=warm[1] if warm else 0.0,
            is_warming_up=warm is None,
        )


def _rank(job: Job) -> tuple[int, int]:
    """Put default configurations first, for an early table of all algorithms."""
    return job.hparams_seed, job.trial_seed


def _group_size(n: int, workers: int | None, device: str, together: int | None) -> int:
    """Choose how many runs a worker gets at once, fewer if some would get none."""
    if together is None:
        together = _TOGETHER_GPU if torch.device(device).type == "cuda" else 1
    return together if workers is None else min(together, math.ceil(n / workers))


def _key(record: Mapping[str, Any]) -> RunKey | None:
    """Return the run that a record is of, None if it is damaged."""
    try:
        key = run_key(record)
        hash(key)  # not of lists, which damage may leave
        return key
    except (KeyError, TypeError, ValueError):
        return None


def _without_plugin(args: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in args.items() if name not in (PLUGIN, "output_dir")}
    return json.dumps(rest, sort_keys=True)
