"""How far a sweep is, and its table so far, while it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from regraft.cli.console import Console

if TYPE_CHECKING:
    from rich.console import RenderableType

    from regraft.bench.protocol.launch import Tally
    from regraft.support.table import Table

_LINE_EVERY = 10.0  # seconds between lines where there is no terminal
_HEARTBEAT = 60.0  # seconds after which a line comes in any case
_TABLE_EVERY = 5.0  # seconds between tables
_TABLE_SHARE = 0.05  # of the time that tables may take
_BAR_WIDTH = 30


def describe(tally: Tally) -> str:
    """Describe a sweep in a line: "120 of 360 runs, 2 failed, about 4 min left"."""
    parts = [f"{tally.done} of {tally.total} runs"]
    if tally.failed:
        parts.append(f"{len(tally.failed)} failed")
    if tally.held:
        parts.append(f"{tally.held} in another launcher's hands")
    if tally.time_left:
        parts.append(f"{tally.time_left} left")
    return ", ".join(parts)


class LiveSweep:
    """The display of a sweep on ``console``, which takes every tally.

    In a terminal there is a bar and below it ``table()``, None for none; that is asked for again
    every few seconds, from another thread. Elsewhere there is a line with the news every ten
    seconds, and one every minute without any.
    """

    def __init__(self, console: Console, table: Callable[[], Table | None]) -> None:
        self._console, self._table = console, _Kept(table)
        self._tally: Tally | None = None
        self._told_at = self._line_at = float("-inf")

    @contextmanager
    def showing(self) -> Iterator[Callable[[Tally], None]]:
        """Yield the function that takes every tally; at the end, leave the last one in a line."""
        if self._console.is_live:
            with self._console.live(self._draw):
                yield self._tell
        else:
            with _every(_HEARTBEAT, self._beat):
                yield self._tell_in_lines
        if self._tally is not None and self._line_at < self._told_at:
            self._console.note(describe(self._tally))

    def _tell(self, tally: Tally) -> None:
        self._tally, self._told_at = tally, time.perf_counter()

    def _tell_in_lines(self, tally: Tally) -> None:
        self._tell(tally)
        if self._told_at - self._line_at >= _LINE_EVERY:
            self._console.note(describe(tally))
            self._line_at = self._told_at

    def _beat(self) -> None:
        """Print a line when there has been none for long, as while twenty runs are under way."""
        now = time.perf_counter()
        if self._tally is not None and now - self._line_at >= _HEARTBEAT:
            self._console.note(self._news(self._tally))
            self._line_at = now

    def _news(self, tally: Tally) -> str:
        """Describe the sweep, what runs now and for how long it has been under way."""
        elapsed = tally.seconds + time.perf_counter() - self._told_at
        return f"{describe(tally)}; {tally.running} running, {_clock(elapsed)} so far"

    def _draw(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table as Grid
        from rich.text import Text

        if self._tally is None:
            return Text("starting ...")
        line, tally = Grid.grid(padding=(0, 1)), self._tally
        bar = ProgressBar(tally.total, tally.done, width=_BAR_WIDTH)
        line.add_row(bar, Text(self._news(tally)))
        table = self._table()
        if table is None:
            return line
        return Group(line, Text(f"\n{table.title}, so far"), table.terminal())


class _Kept:
    """The table that ``make`` made last, made anew when it is old and cheap enough."""

    def __init__(self, make: Callable[[], Table | None]) -> None:
        self._make = make
        self._table: Table | None = None
        self._due = float("-inf")

    def __call__(self) -> Table | None:
        start = time.perf_counter()
        if start >= self._due:
            self._table = self._make()
            end = time.perf_counter()
            self._due = end + max(_TABLE_EVERY, (end - start) / _TABLE_SHARE)
        return self._table


@contextmanager
def _every(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Call ``act`` again and again from another thread while inside."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(seconds):
            act()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _clock(seconds: float) -> str:
    """Format hours, minutes and seconds."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
