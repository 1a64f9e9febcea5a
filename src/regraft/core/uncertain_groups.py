"""Bounds on the rows of a group whose members are not known, only how many they are.

Let row i count by an unknown ``c_i`` between ``least`` and 1: by 1 if it is of the group. For any
number t, ``c_i (v_i - t) <= (v_i - t)+ - least (t - v_i)+``. Where the mean of c over some rows is
that of their known ``share``, the mean of ``c v`` is therefore at most that of
``share t + (v - t)+ - least (t - v)+``, whichever rows the members are.
"""

from __future__ import annotations

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
        rows = (y == c).nonzero().squeeze(1)
        rows = rows[share[rows].argsort(stable=True)]
        for part in rows.tensor_split(max(1, min(_PARTS, len(rows) // _FEWEST_ROWS))):
            above[part] = _largest_products(value[part], share[part], base[part], least)
    size = base @ share
    mean = (base @ above) / size
    weight = base * share / size
    freedom = max(float(1 / weight.square().sum()) - 1, 1e-3)
    error = (base * (above - mean * share)).norm() / size
    level = 1 - (1 - CONFIDENCE) / together
    return float(mean + float(student.ppf(level, freedom)) * error)


def _largest_products(value: Tensor, share: Tensor, base: Tensor, least: float) -> Tensor:
    """Return terms (m,) whose mean is the largest that the mean of ``c value`` can be."""
    order = value.argsort(descending=True)
    mass = base[order].cumsum(dim=0) / base.sum()
    top = (base @ share / base.sum() - least) / (1 - least)  # the share of rows that count fully
    at = int(torch.searchsorted(mass, top).clamp_max(len(order) - 1))
    step = value - value[order[at]]
    return share * value[order[at]] + step.clamp_min(0) + least * step.clamp_max(0)
