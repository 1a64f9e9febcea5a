"""How far an embedding is, told now and then."""

from __future__ import annotations

import time
from collections.abc import Callable

from regraft.support.progress import Countdown


class Meter:
    """Tells how many inputs are done, how fast, and how long the rest may take."""

    def __init__(self, tell: Callable[[str], None], name: str, every: float) -> None:
        self._tell, self._name, self._every = tell, name, every
        self._countdown: Countdown | None = None
        self._before, self._start, self._told_at = 0, 0.0, float("-inf")

    def __call__(self, done: int, total: int) -> None:
        """Take in the numbers; they are told at most every few moments, and at the end."""
        now = time.perf_counter()
        if self._countdown is None:
            self._countdown = Countdown(self._name, total, done)
            self._before, self._start = done, now
        if now - self._told_at < self._every and done < total:
            return
        self._told_at = now
        text = self._countdown.advance(done)
        if done > self._before:
            text += f", {(done - self._before) / (now - self._start):.0f} {self._name}/s"
        self._tell(text)
