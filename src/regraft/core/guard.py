"""The guard: the head of a game is taken only if held-out rows show that it is better than ERM's.

Two worst cases on the same rows share most of their noise. So they are compared by the standard
error of their difference, not by that of each.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

STANDARD_ERRORS = 2.0  # by which the head must beat ERM's
NOT_BETTER = (
    "measured on rows set aside, the robust model is not better in the worst domain by more than "
    "chance explains"
)


@dataclass(frozen=True)
class WorstCase:
    """Worst target of a head, on rows that the head has not seen."""

    weight: Tensor  # (n,) of the rows in that target; sums to one
    loss: Tensor  # (n,) of each row there


@dataclass(frozen=True)
class Advantage:
    """By how much one head's worst case is better than another's, on the same rows."""

    baseline: float  # held-out worst case of the other head
    value: float  # held-out worst case of the head
    standard_error: float  # of their difference

    @property
    def gain(self) -> float:
        """How much lower the head's worst case is."""
        return self.baseline - self.value

    @property
    def is_clear(self) -> bool:
        """Whether that is more than chance explains."""
        return self.gain > STANDARD_ERRORS * self.standard_error


def compare_worst_cases(baseline: WorstCase, answer: WorstCase) -> Advantage:
    """Return the advantage of the second head over the first, each at its own worst target."""
    values, influences = [], []
    for each in (baseline, answer):
        value = each.weight @ each.loss
        values.append(float(value))
        influences.append(each.weight * (each.loss - value))
    error = float((influences[0] - influences[1]).square().sum().sqrt())
    return Advantage(values[0], values[1], error)
