"""Bounds on the rows of a group whose members are not known, only how many they are.

Let row i count by an unknown ``c_i`` between ``least`` and 1: by 1 if it is of the group. For any
number t, ``c_i (v_i - t) <= (v_i - t)+ - least (t - v_i)+``. Where the mean of c over some rows is
that of their known ``share``, the mean of ``c v`` is therefore at most that of
``share t + (v - t)+ - least (t - v)+``, whichever rows the members are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.stats import t as student
from torch import Tensor

from regraft.core.evidence import CONFIDENCE

_PARTS = 10  # of each class, by share
_FEWEST_ROWS = 20  # of a part


def bound_group_mean(
    value: Tensor, share: Tensor, base: Tensor, y: Tensor, *, least: float, together: int
) -> float:
    """Return an upper bound on the mean of ``value`` (n,) over the rows of a group.

    Rows have the weights ``base`` (n,) in the pooled sources. ``share`` (n,) must be right on
    average in each tenth of each class of ``y`` (n,), cut by share; nothing else is assumed about
    it. The bound is one-sided; so many hold ``together`` with the confidence.
    """
    above = torch.empty_like(value)
    for c in y.bincount().nonzero().flatten():
        for part in _cut(share, y, int(c)):
            level = _find_level(value[part], share[part], base[part], least)
            above[part] = limit_products(value[part], share[part], level, least)
    size = base @ share
    mean = (base @ above) / size
    squares = (base * (above - mean * share)).square().sum()
    return bound_mean(mean, squares, size, (base * share).square().sum(), together)


def bound_mean(mean: Tensor, squares: Tensor, size: Tensor, sizes: Tensor, together: int) -> float:
    """Return Student's bound on a mean over the rows of a group, from sums over rows.

    ``squares`` is the sum of the squared deviations from the mean, ``size`` that of the rows'
    weights in the group, and ``sizes`` that of their squares.
    """
    freedom = max(float(size.square() / sizes) - 1, 1e-3)
    level = 1 - (1 - CONFIDENCE) / together
    return float(mean + float(student.ppf(level, freedom)) * squares.sqrt() / size)


@dataclass(frozen=True)
class ShareParts:
    """Where each class is cut by share, and the number t of each part, found on a sample."""

    cuts: Tensor  # (C, parts - 1) from which share on a row is in the next part; inf for none
    levels: Tensor  # (C, parts)

    def limit(self, value: Tensor, share: Tensor, y: Tensor, least: float) -> Tensor:
        """Return terms (m,) whose mean bounds that of ``c value`` (m,) on other rows."""
        part = (share.unsqueeze(1) >= self.cuts[y]).sum(dim=1)
        return limit_products(value, share, self.levels[y, part], least)


def cut_by_share(
    value: Tensor, share: Tensor, base: Tensor, y: Tensor, n_classes: int, *, least: float
) -> ShareParts:
    """Find the parts and their numbers as :func:`bound_group_mean` does, for use on more rows."""
    cuts = value.new_full((n_classes, _PARTS - 1), float("inf"))
    levels = value.new_zeros((n_classes, _PARTS))
    for c in y.bincount().nonzero().flatten():
        for i, part in enumerate(_cut(share, y, int(c))):
            levels[c, i] = _find_level(value[part], share[part], base[part], least)
            if i:
                cuts[c, i - 1] = share[part[0]]
    return ShareParts(cuts, levels)


def _cut(share: Tensor, y: Tensor, c: int) -> tuple[Tensor, ...]:
    """Return the rows of class ``c`` in parts of about equal number, in the order of share."""
    rows = (y == c).nonzero().squeeze(1)
    rows = rows[share[rows].argsort(stable=True)]
    return rows.tensor_split(max(1, min(_PARTS, len(rows) // _FEWEST_ROWS)))


def _find_level(value: Tensor, share: Tensor, base: Tensor, least: float) -> Tensor:
    """Return the t at which the mean of ``c value`` over these rows is bounded best."""
    order = value.argsort(descending=True)
    mass = base[order].cumsum(dim=0) / base.sum()
    top = (base @ share / base.sum() - least) / (1 - least)  # the share of rows that count fully
    at = int(torch.searchsorted(mass, top).clamp_max(len(order) - 1))
    return value[order[at]]


def limit_products(value: Tensor, share: Tensor, level: Tensor, least: float) -> Tensor:
    """Return terms (m,) whose mean is the largest that the mean of ``c value`` can be."""
    step = value - level
    return share * level + step.clamp_min(0) + least * step.clamp_max(0)
