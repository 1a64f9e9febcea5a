"""Many small steps in a row: eagerly on the CPU, as CUDA graphs that run side by side on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    ran alone. ``on_progress`` is told the number of rounds over all steps from time to time.
    """
    if device.type == "cuda" and times > _WARM_UP:
        _replay(steps, times, device, on_progress)
        return
    for done in range(1, times + 1):
        for step in steps:
            step()
        if on_progress is not None and (done % _REPORT_EVERY == 0 or done == times):
            on_progress(done)


def _replay(
    steps: Sequence[Callable[[], None]],
    times: int,
    device: torch.device,
    on_progress: Callable[[int], None] | None,
) -> None:
    streams = [torch.cuda.Stream(device) for _ in steps]  # type: ignore[no-untyped-call]
    graphs = []
    for step, stream in zip(steps, streams, strict=True):
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                step()
        torch.cuda.synchronize(device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            step()
        graphs.append(graph)
    for done in range(_WARM_UP + 1, times + 1):
        for graph, stream in zip(graphs, streams, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
        if on_progress is not None and done % _REPORT_EVERY == 0:
            torch.cuda.synchronize(device)
            on_progress(done)
    torch.cuda.synchronize(device)
    if on_progress is not None:
        on_progress(times)
