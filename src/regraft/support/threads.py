"""The number of threads for a computation, by its size and by how busy the machine is.

Threads of torch wait for each other by spinning, after every one of the many short steps of a fit.
If other programs need the cores too, a step ends only when the last thread has had its turn, and
two threads can take ten times as long as one. So little data get one thread, and more data get the
cores that are free.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np
import torch

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")

_NUMBERS_A_THREAD = 2**20  # with fewer, a second thread costs more than it gives
_CHOICE = "OMP_NUM_THREADS"  # of the user, who then has the say


@contextmanager
def threads_for(numbers: int) -> Iterator[None]:
    """Let torch compute with the threads that data of so many ``numbers`` deserve.

    There are never more than before. Afterwards there are as many as before.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(choose_threads(numbers, before))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def threads_by_size(work: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
    """Make a function compute with the threads that its argument ``X`` deserves."""
    signature = inspect.signature(work)

    @functools.wraps(work)
    def run(*args: _Given.args, **options: _Given.kwargs) -> _Answer:
        numbers = 0
        with suppress(ValueError):  # of rows of different lengths, which the function refuses
            numbers = math.prod(np.shape(signature.bind(*args, **options).arguments["X"]))
        with threads_for(numbers):
            return work(*args, **options)

    return run


def choose_threads(numbers: int, allowed: int) -> int:
    """Return how many of the ``allowed`` threads to use for data of so many ``numbers``."""
    if _CHOICE in os.environ:
        return allowed
    free = (os.cpu_count() or 1) - count_busy_cores()
    return max(1, min(allowed, numbers // _NUMBERS_A_THREAD, int(free)))


def count_busy_cores() -> float:
    """Return how many cores other programs use.

    The load of the last minute has our own work in it, and what runs at this moment may be over in
    the next: only what both show is counted.
    """
    if not hasattr(os, "getloadavg"):  # Windows
        return 0.0
    load = os.getloadavg()[0]
    with suppress(OSError, ValueError, IndexError):  # where there is no such file
        running = int(Path("/proc/loadavg").read_text().split()[3].split("/")[0])
        return min(load, max(running - 1.0, 0.0))  # one of them asks
    return load
