"""Worker processes on this machine."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import cast

import torch

from regraft.bench.engines.base import OutcomeStream, mark_lost, run_assignment
from regraft.bench.protocol.worker import Assignment, DatasetSource, Outcome


class LocalEngine:
    """Worker processes: by default one for every core, or for every GPU on device cuda."""

    def __init__(self, device: str = "cpu", workers: int | None = None) -> None:
        self._device = torch.device(device)
        self.workers = _default_workers(self._device) if workers is None else workers

    def run(self, assignments: Sequence[Assignment]) -> OutcomeStream:
        """Give each worker its next assignment; a single one on a GPU is this process itself."""
        if self.workers == 1 and self._device.type == "cuda":
            yield from map(run_assignment, assignments)
            return
        with closing(WorkerPool(self._device)) as pool:
            yield from pool.run(assignments, self.workers)


class WorkerPool:
    """Worker processes that are there for the next assignments too, until the pool is closed."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._idle: list[_Worker] = []

    def start(self, workers: int) -> None:
        """Start so many workers now, which can be ready by the time that there is work."""
        while len(self._idle) < workers:
            self._idle.append(self._start(self._idle))

    def run(self, assignments: Sequence[Assignment], workers: int) -> OutcomeStream:
        """Give each of so many workers its next assignment, and start those that are missing."""
        waiting = Waiting(assignments)
        busy: dict[Connection, _Worker] = {}
        ended: list[list[Outcome]] = []
        try:
            while waiting or busy:
                while waiting and len(busy) < workers:
                    worker = self._take_idle() or self._start(busy.values())
                    others = [other.source for other in busy.values()]
                    busy[worker.connection] = worker
                    worker.give(waiting.take(worker.source, others))
                yield from ended
                ended = []
                for connection in wait(list(busy)):
                    worker = busy.pop(cast("Connection", connection))
                    self._idle.append(worker)
                    ended.append(worker.take())
                self._idle = [worker for worker in self._idle if worker.is_alive]
            yield from ended
        finally:
            for worker in busy.values():
                worker.stop()

    def close(self) -> None:
        """Kill all workers; what they have not finished can be resumed from its folder."""
        for worker in self._idle:
            worker.stop()
        self._idle = []

    def _take_idle(self) -> _Worker | None:
        """Take an idle worker, unless all have died meanwhile."""
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive:
                return worker
            worker.stop()
        return None

    def _start(self, others: Iterable[_Worker]) -> _Worker:
        taken = {worker.index for worker in others}
        index = next(i for i in itertools.count() if i not in taken)
        return _Worker(index, _worker_variables(self._device, index))


class Waiting:
    """Assignments that nobody has begun, in their order for each source of a dataset."""

    def __init__(self, assignments: Iterable[Assignment]) -> None:
        self._by_source: dict[DatasetSource | None, deque[Assignment]] = {}
        for assignment in assignments:
            self._by_source.setdefault(assignment.source, deque()).append(assignment)

    def __len__(self) -> int:
        return sum(map(len, self._by_source.values()))

    def take(
        self, source: DatasetSource | None, others: Iterable[DatasetSource | None]
    ) -> Assignment:
        """Take the next one for a worker who has ``source`` open, or else where most wait for one.

        ``others`` are what the other workers have open.
        """
        if source not in self._by_source:
            opened = Counter(others)
            source = max(self._by_source, key=lambda s: len(self._by_source[s]) / (1 + opened[s]))
        queue = self._by_source[source]
        assignment = queue.popleft()
        if not queue:
            del self._by_source[source]
        return assignment


class _Worker:
    """Process that executes one assignment after another."""

    def __init__(self, index: int, variables: Mapping[str, str]) -> None:
        self.index = index
        self.source: DatasetSource | None = None  # of the dataset that it has open
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _environment_variables(variables), _without_interrupts():
            self._process.start()
        theirs.close()

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.is_alive()

    def give(self, assignment: Assignment) -> None:
        """Send ``assignment`` to the worker; if it is dead, ``take`` reports it."""
        self._assignment, self.source = assignment, assignment.source
        with suppress(OSError):
            self.connection.send(assignment)

    def take(self) -> list[Outcome]:
        """Return the outcomes, when the connection is ready."""
        try:
            outcomes: list[Outcome] = self.connection.recv()
            return outcomes
        except (EOFError, OSError):
            self.stop()
            return mark_lost(self._assignment, _describe_exit(self._process.exitcode))

    def stop(self) -> None:
        """Kill the process now; its unfinished work can be resumed from its folder."""
        self._process.kill()
        self._process.join()
        self.connection.close()


def _serve(connection: Connection) -> None:
    """Execute assignments from ``connection`` until it closes; runs in the worker."""
    threading.Thread(target=_exit_with_launcher, daemon=True).start()
    while True:
        try:
            assignment = connection.recv()
        except EOFError:
            return
        connection.send(run_assignment(assignment))


def _exit_with_launcher() -> None:
    """Exit when the launcher ends, for whatever reason."""
    launcher = multiprocessing.parent_process()
    assert launcher is not None
    wait([launcher.sentinel])
    os._exit(1)


def _describe_exit(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return (
            f"its worker was killed by signal {-exit_code}: run the same command again, with "
            "fewer --workers if the memory was full."
        )
    return f"its worker ended with exit code {exit_code}: run the same command again."


def _default_workers(device: torch.device) -> int:
    if device.type == "cuda":
        return max(1, torch.cuda.device_count() if device.index is None else 1)
    return count_cores()


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _worker_variables(device: torch.device, index: int) -> dict[str, str]:
    """Return the environment variables of a worker."""
    if device.type == "cpu":
        return {"OMP_NUM_THREADS": "1"}
    if device != torch.device("cuda"):
        return {}
    known = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = known.split(",") if known else [str(i) for i in range(torch.cuda.device_count())]
    return {"CUDA_VISIBLE_DEVICES": gpus[index % len(gpus)]} if gpus else {}


@contextmanager
def _environment_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set ``variables`` for processes that are started inside."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block Ctrl-C in processes that are started inside; the launcher stops them instead."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its own start would let interrupts through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
