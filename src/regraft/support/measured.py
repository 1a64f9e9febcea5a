"""A measured share with its interval, as charts, tables and sentences show it."""

from __future__ import annotations

from dataclasses import dataclass

from regraft.support.table import percent


@dataclass(frozen=True)
class MeasuredShare:
    """A share of one, the ends of its interval, and a bound below it where one is certified."""

    value: float
    low: float
    high: float
    bound: float | None = None

    def __str__(self) -> str:
        return f"{percent(self.value)} ({100 * self.low:.1f} to {100 * self.high:.1f})"

    @property
    def interval(self) -> str:
        """The ends in words."""
        return f"{percent(self.low)} to {percent(self.high)}"


def around(value: float, error: float | None, errors: float = 1.96) -> MeasuredShare:
    """Return a share with a normal interval inside [0, 1], of no width if the error is unknown."""
    half = errors * (error or 0.0)
    return MeasuredShare(value, max(value - half, 0.0), min(value + half, 1.0))
