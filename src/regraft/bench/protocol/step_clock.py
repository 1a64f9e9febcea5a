"""The time that the steps of a run take, without evaluations and what else lies between them."""

from __future__ import annotations

import time
from typing import Any

import torch

_Mark = Any  # seconds, or an event on a GPU


class StepClock:
    """A stopwatch that runs while steps are taken.

    On a GPU, where steps are queued, it marks the device's current stream and never waits: call
    ``start`` and ``stop`` in the stream of the steps, and ``take`` once the stream was waited for.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._begin: _Mark | None = None  # None while it does not run
        self._ended: list[tuple[_Mark, _Mark]] = []

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped since."""
        return self._begin is not None

    def start(self) -> None:
        """Begin, or go on, before a step."""
        self._begin = self._mark()

    def stop(self) -> None:
        """Pause after a step, unless it stands already."""
        if self._begin is not None:
            self._ended.append((self._begin, self._mark()))
            self._begin = None

    def take(self) -> float:
        """Return the seconds that it ran for until it was stopped; start over."""
        seconds = sum(_seconds(begin, end) for begin, end in self._ended)
        self._ended.clear()
        return seconds

    def _mark(self) -> _Mark:
        if self._device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event


def _seconds(begin: _Mark, end: _Mark) -> float:
    if isinstance(begin, float):
        return float(end - begin)
    return float(begin.elapsed_time(end)) / 1000  # of milliseconds
