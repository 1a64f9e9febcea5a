"""Many small steps in a row: eagerly on the CPU, as CUDA graphs that run side by side on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

import torch

# A graph records a step that has run before: lazy allocations must be behind it.
_WARM_UP = 3
_REPORT_EVERY = 50


def repeat(
    steps: Sequence[Callable[[], None]],
    times: int,
    device: torch.device,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Call each of several independent steps ``times`` times.

    A step keeps its state in tensors that it updates in place, draws no random numbers and never
    waits for the device; it may then be recorded once and replayed, with the same bits as if it
    ran alone. ``on_progress`` is called with the rounds over all steps from time to time.
    """
    is_replayed = device.type == "cuda" and times > _WARM_UP
    if is_replayed:
        steps = [partial(Recorder(device).run, None, step) for step in steps]
    for done in range(1, times + 1):
        for step in steps:
            step()
        is_due = on_progress is not None and done % _REPORT_EVERY == 0
        if is_replayed and (is_due or done == times):
            torch.cuda.synchronize(device)
        if on_progress is not None and (is_due or done == times):
            on_progress(done)


class Recorder:
    """A runner of one computation's steps on its own stream, which records them for replay.

    Steps of the same variant are the same operations on the same tensors, with draws from
    ``generator`` alone; after a few have run, one is recorded, and all later ones are replays.
    """

    def __init__(self, device: torch.device, generator: torch.Generator | None = None) -> None:
        self._device, self._generator = device, generator
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream(device))
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._seen: dict[Hashable, int] = {}

    def stream(self) -> torch.cuda.StreamContext:
        """Run what is inside on the stream, after the steps before it."""
        return torch.cuda.stream(self._stream)

    def run(self, variant: Hashable, step: Callable[[], None]) -> None:
        """Perform ``step``, or replay one of the same ``variant``; waits only to record."""
        seen = self._seen[variant] = self._seen.get(variant, 0) + 1
        with self.stream():
            if seen <= _WARM_UP:
                step()
                return
            if variant not in self._graphs:
                self._graphs[variant] = self._record(step)
            self._graphs[variant].replay()

    def _record(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph:
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        if self._generator is not None:
            graph.register_generator_state(self._generator)
        # Recordings of one computation never run at once, so they may share their memory.
        pool = next((known.pool() for known in self._graphs.values()), None)
        with torch.cuda.graph(graph, pool=pool, stream=self._stream):
            step()
        return graph
