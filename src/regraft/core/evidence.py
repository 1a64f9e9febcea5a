"""Evidence for a head: risk and accuracy on weighted rows that it has not seen, with bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from scipy.special import ndtri, stdtrit
from torch import Tensor

from regraft.core.newton import losses
from regraft.support.measured import MeasuredShare
from regraft.support.table import Cell, Number, Table, share

CONFIDENCE = 0.95


@dataclass(frozen=True)
class HeldOutRows:
    """Loss and success of each row under heads that were fitted without it."""

    loss: Tensor  # (n,)
    correct: Tensor  # (n,) 0 or 1


@dataclass(frozen=True)
class Evidence:
    """Risk and accuracy on weighted rows that the heads have not seen, with one-sided bounds."""

    name: str
    rows: float  # effective number of rows
    purity: float  # share of the weight that is expected to lie on rows of the group
    risk: float  # nats
    risk_bound: float  # above the true risk, with the confidence
    accuracy: float
    accuracy_bound: float  # below the true accuracy, with the confidence

    @property
    def measured(self) -> MeasuredShare:
        """The accuracy with its two-sided interval, which does not allow for impurity."""
        return MeasuredShare(
            self.accuracy, *accuracy_interval(self.accuracy, self.rows), self.accuracy_bound
        )


def judge(log_p: Tensor, y: Tensor) -> HeldOutRows:
    """Judge rows by the log-probabilities (C, n) of heads that were fitted without them."""
    return HeldOutRows(losses(log_p.T, y), (log_p.argmax(dim=0) == y).to(log_p.dtype))


def measure(
    name: str, weight: Tensor, held_out: HeldOutRows, *, together: int = 1, purity: float = 1.0
) -> Evidence:
    """Measure risk and accuracy under ``weight`` (n,), which sums to one, with their bounds.

    The bound of the risk is Student's, that of the accuracy is Wilson's, both at the effective
    number of rows. So many bounds hold ``together`` with the confidence (Bonferroni). Where only a
    share ``purity`` of the weight lies on rows of the group, the others may be all right and free
    of risk, and the bounds allow for that.
    """
    risk = float(weight @ held_out.loss)
    return bound_evidence(
        name,
        rows=float(1 / weight.square().sum()),
        risk=risk,
        spread=float(weight @ (held_out.loss - risk).square()),
        accuracy=float(weight @ held_out.correct),
        together=together,
        purity=purity,
    )


def bound_evidence(
    name: str,
    *,
    rows: float,
    risk: float,
    spread: float,
    accuracy: float,
    together: int,
    purity: float,
) -> Evidence:
    """Return the evidence of :func:`measure` from sums; ``spread`` is the variance of the loss."""
    level = 1 - (1 - CONFIDENCE) / together
    # With one effective row there is no spread to learn from.
    freedom = max(rows - 1, 1e-3)
    error = (spread / freedom) ** 0.5
    return Evidence(
        name=name,
        rows=rows,
        purity=purity,
        risk=risk,
        risk_bound=(risk + float(stdtrit(freedom, level)) * error) / purity,
        accuracy=accuracy,
        accuracy_bound=max(1 - (1 - _wilson(accuracy, rows, level)) / purity, 0.0),
    )


def accuracy_interval(accuracy: float, rows: float) -> tuple[float, float]:
    """Return the ends of Wilson's two-sided interval, at an effective number of rows."""
    level = (1 + CONFIDENCE) / 2
    return _wilson(accuracy, rows, level), 1 - _wilson(1 - accuracy, rows, level)


def pair_table(title: str, pairs: Iterable[tuple[str, Evidence, Evidence]], other: str) -> Table:
    """Show evidence of a head beside that of another, each pair under its name.

    ``other`` names the other head, as in "ERM's".
    """
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            name,
            Number(ours.rows, format=",.0f"),
            *(share(x) for e in (ours, theirs) for x in (e.accuracy, e.accuracy_bound)),
            *(Number(x, format=".3f") for e in (ours, theirs) for x in (e.risk, e.risk_bound)),
        )
        for name, ours, theirs in pairs
    )
    accuracy = "accuracy", "at least", f"{other} accuracy", f"{other} at least"
    risk = "risk (nats)", "at most", f"{other} risk", f"{other} at most"
    note = f"At least, at most: one-sided bounds with {CONFIDENCE:.0%} confidence."
    return Table(title, ("measured in", "effective rows", *accuracy, *risk), rows, note=note)


def _wilson(accuracy: float, rows: float, level: float) -> float:
    """Return the lower end of Wilson's one-sided interval."""
    z = float(ndtri(level))
    middle = accuracy + z * z / (2 * rows)
    spread = z * (accuracy * (1 - accuracy) / rows + z * z / (4 * rows * rows)) ** 0.5
    return float(max((middle - spread) / (1 + z * z / rows), 0.0))


def measure_sources(
    held_out: HeldOutRows, slices: Sequence[slice], names: Sequence[str], row_weight: Tensor
) -> tuple[Evidence, ...]:
    """Measure heads or a predictor on every source, by rows that count ``row_weight`` (n,) each."""
    evidence = []
    for rows, name in zip(slices, names, strict=True):
        weight = torch.zeros_like(held_out.loss)
        weight[rows] = row_weight[rows] / row_weight[rows].sum()
        evidence.append(measure(name, weight, held_out))
    return tuple(evidence)


def mean_by_source(values: Tensor, slices: Sequence[slice], row_weight: Tensor) -> Tensor:
    """Return the weighted mean (K,) of ``values`` (n,) over the rows of each source."""
    return torch.stack(
        [(values[rows] * row_weight[rows]).mean() / row_weight[rows].mean() for rows in slices]
    )


def mean_accuracy(held_out: HeldOutRows, slices: Sequence[slice], row_weight: Tensor) -> float:
    """Return the accuracy, mean over the sources."""
    total: float = sum(mean_by_source(held_out.correct, slices, row_weight).tolist())
    return total / len(slices)


def tighten_bounds(found: Evidence, risk: float, error: float, best: Evidence) -> Evidence:
    """Take bounds on risk and error where they are better than those found, but never than best."""
    risk = max(risk, best.risk_bound)
    accuracy = min(1 - error, best.accuracy_bound)
    return replace(
        found,
        risk_bound=min(found.risk_bound, risk),
        accuracy_bound=max(found.accuracy_bound, accuracy),
    )
