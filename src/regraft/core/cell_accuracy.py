"""Accuracy by class: in cells of rows, and with all classes counted alike."""

from __future__ import annotations

from scipy.special import ndtri
from torch import Tensor

from regraft.core.domain_scores import or_one
from regraft.core.evidence import CONFIDENCE, HeldOutRows
from regraft.core.group_targets import GroupTargets

INTERVAL_ERRORS = float(ndtri((1 + CONFIDENCE) / 2))  # on either side of a 95 % interval
_ERRORS = 2.0  # by which a head must be better than guessing


def accuracy_in_cells(
    correct: Tensor, weight: Tensor, cell: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    """Return the accuracy (size, m) in each cell under weights (n, m), and its standard error.

    Errors are by the width of Wilson's interval at the effective number of rows.
    """

    def total(values: Tensor) -> Tensor:
        return values.new_zeros((size, values.shape[1])).index_add(0, cell, values)

    mass = total(weight)
    right = total(weight * correct.unsqueeze(1)) / or_one(mass)
    rows = mass.square() / or_one(total(weight.square()))
    z = INTERVAL_ERRORS
    spread = right * (1 - right) * rows + z * z / 4
    return right, spread.sqrt() / (rows + z * z)


def beats_guessing(targets: GroupTargets, held_out: HeldOutRows) -> bool:
    """Return whether, with all classes counted alike, a head tells something in every target.

    Guessing one class always is right in one class and wrong in the others. A head like that is
    robust, but says nothing, and fails where the shares of the classes are others.
    """
    weight = targets.shares * targets.base.unsqueeze(1)
    right, error = accuracy_in_cells(held_out.correct, weight, targets.y, targets.n_classes)
    balanced = right.mean(dim=0)
    error = error.square().sum(dim=0).sqrt() / targets.n_classes
    return bool((balanced - _ERRORS * error > 1 / targets.n_classes).all())
