"""Processes that are killed at one of their calls, counted over all of them."""

import itertools
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Fate:
    """The process of the call ``last`` is killed before its work, or after it if ``is_late``.

    Each call leaves a file in ``folder``, for a process that was killed does not remember.
    """

    folder: Path
    last: int | None = None
    is_late: bool = False

    def call(self, work: Callable[[], T]) -> T:
        """Do the work, unless this is the last call."""
        is_last = self._count() == self.last
        if is_last and not self.is_late:
            os.kill(os.getpid(), signal.SIGKILL)
        found = work()
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    def _count(self) -> int:
        for number in itertools.count():
            try:
                (self.folder / str(number)).touch(exist_ok=False)
            except FileExistsError:  # of another call
                continue
            return number
        raise AssertionError

    @property
    def n_calls(self) -> int:
        """The number of calls so far."""
        return len(list(self.folder.iterdir()))
