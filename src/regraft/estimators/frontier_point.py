"""One size of shift on the frontier: heads trained for it, measured on rows not seen."""

from __future__ import annotations

from dataclasses import dataclass

from regraft.core.evidence import accuracy_interval
from regraft.support.measured import MeasuredShare
from regraft.support.table import percent

NOTHING = "nothing useful"  # where a bound on an accuracy is zero


@dataclass(frozen=True)
class FrontierPoint:
    """Heads trained for one size of shift without a fold of the rows, measured on that fold."""

    radius: float | None  # of the hull; None in the latent family
    source_accuracy: float
    worst_case_accuracy: float  # over the frontier's plausible domains
    worst_case_risk: float
    prior_shift: float | None = None  # of the latent family; None for every mixture
    source_rows: float | None = None  # effective number of rows behind the source accuracy
    worst_case_rows: float | None = None  # behind the worst-case accuracy
    # Standard errors of the differences from the first head, which is judged by the same rows.
    source_change_error: float | None = None
    worst_case_change_error: float | None = None
    # Latent family, whose fit may keep ERM's head; the point is that of the robust one.
    worst_case_bound: float | None = None  # on the accuracy there, also if groups are uncertain
    reason: str | None = None  # why a fit returns ERM's head; empty if it does not
    cost: float | None = None  # by how much the risk is larger than ERM's on the sources (nats)
    gain: float | None = None  # by how much it is lower in the worst mixture within the shift

    @property
    def source(self) -> MeasuredShare:
        """The source accuracy with its interval."""
        return _with_interval(self.source_accuracy, self.source_rows)

    @property
    def worst_case(self) -> MeasuredShare:
        """The worst-case accuracy with the interval that it would have if the domain were given."""
        return _with_interval(self.worst_case_accuracy, self.worst_case_rows)

    @property
    def at_least(self) -> str:
        """The bound on the worst-case accuracy, as it is printed."""
        bound = self.worst_case_bound
        return "–" if bound is None else percent(bound) if bound > 0 else NOTHING

    @property
    def returned(self) -> str:
        """Which model a fit for this size of shift returns."""
        return "ordinary" if self.reason else "robust"

    @property
    def label(self) -> str:
        """The size of the shift in nats, or "any"."""
        size = self.prior_shift if self.radius is None else self.radius
        return "any" if size is None else f"{size:g}"


def _with_interval(accuracy: float, rows: float | None) -> MeasuredShare:
    ends = (accuracy, accuracy) if rows is None else accuracy_interval(accuracy, rows)
    return MeasuredShare(accuracy, *ends)
