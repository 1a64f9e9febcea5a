"""How long the parts of a long computation take, and how long the rest may."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Seconds by part, in the order of ``parts``, and in all since it was made."""

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
        """Every part, then "total", to the hundredth."""
        total = time.perf_counter() - self._start
        return {name: round(s, 2) for name, s in (*self._seconds.items(), ("total", total))}


class Countdown:
    """Steps of the same kind, of which ``done`` were done before."""

    def __init__(self, name: str, total: int, done: int = 0) -> None:
        self._name, self._total, self._done, self._before = name, total, done, done
        self._start = time.perf_counter()

    def advance(self, done: int) -> str:
        """What to tell when ``done`` steps in all are done."""
        self._done = done
        text = f"{self._name}: {done} of {self._total}"
        if not self._before < done < self._total:
            return text
        pace = (time.perf_counter() - self._start) / (done - self._before)
        return f"{text}, {duration(pace * (self._total - done))} left"

    def next(self) -> str:
        """What to tell when one more step is done."""
        return self.advance(self._done + 1)


def duration(seconds: float) -> str:
    """Roughly so many seconds, minutes or hours."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {round(seconds / 60)} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
