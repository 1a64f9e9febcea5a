"""Progress of a long computation: callbacks, the time of its parts, and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

OnProgress = Callable[[str], None]  # called with a line about what is done or comes next
OnCount = Callable[[int, int], None]  # called with how many are done, and of how many


def ignore_progress(message: str) -> None:
    """Show nothing."""


class Stopwatch:
    """The seconds of each of the ``parts``, and of all since it was made."""

    def __init__(self, *parts: str) -> None:
        self._start = time.perf_counter()
        self._seconds = dict.fromkeys(parts, 0.0)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the time spent inside as part ``name``, also if it ends in an error."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] += time.perf_counter() - start

    def seconds(self) -> dict[str, float]:
        """Return the seconds of every part, then of "total", to the hundredth."""
        total = time.perf_counter() - self._start
        return {name: round(s, 2) for name, s in (*self._seconds.items(), ("total", total))}


class Countdown:
    """A count of equal steps, of which ``done`` were done before; ``total`` may be unknown."""

    def __init__(self, name: str, total: int | None, done: int = 0) -> None:
        self._name, self._total, self._done, self._before = name, total, done, done
        self._start = time.perf_counter()

    def advance(self, done: int, *, with_speed: bool = False) -> str:
        """Describe the progress after ``done`` steps in all, and their speed if asked for."""
        self._done = done
        text = f"{self._name}: {done}" + ("" if self._total is None else f" of {self._total}")
        if done > self._before:
            pace = (time.perf_counter() - self._start) / (done - self._before)
            if self._total is not None and done < self._total:
                text += f", {duration(pace * (self._total - done))} left"
            if with_speed and pace < 1:  # else it would read "0 a second"
                text += f", {1 / pace:.0f} {self._name}/s"
        return text

    def next(self) -> str:
        """Describe the progress after one more step."""
        return self.advance(self._done + 1)


class Meter:
    """An ``OnCount`` that describes number, speed and time left at most every ``every`` seconds."""

    def __init__(self, on_progress: OnProgress, name: str, every: float) -> None:
        self._on_progress, self._name, self._every = on_progress, name, every
        self._countdown: Countdown | None = None
        self._shown_at = float("-inf")

    def __call__(self, done: int, total: int | None) -> None:
        """Take in the numbers, and pass them on if it is time."""
        now = time.perf_counter()
        if self._countdown is None:
            self._countdown = Countdown(self._name, total, done)
        if now - self._shown_at >= self._every or (total is not None and done >= total):
            self._shown_at = now
            self._on_progress(self._countdown.advance(done, with_speed=True))


def duration(seconds: float) -> str:
    """Describe roughly how many seconds, minutes or hours these are."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {round(seconds / 60)} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
