"""Bounds on the rows of a group whose members are not known, only how many they are.

Let row i count by an unknown ``c_i`` between ``least`` and 1: by 1 if it is of the group. For any
number t, ``c_i (v_i - t) <= (v_i - t)+ - least (t - v_i)+``. Where the mean of c over some rows is
that of their known ``share``, the mean of ``c v`` is therefore at most that of
``share t + (v - t)+ - least (t - v)+``, whichever rows the members are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from scipy.special import stdtrit
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
    parts = [part for c in y.bincount().nonzero() for part in _cut(share, y, int(c))]
    number, levels = _find_levels(value, share, base, parts, least)
    above = limit_products(value, share, levels[number], least)
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
    return float(mean + float(stdtrit(freedom, level)) * squares.sqrt() / size)


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
        parts = _cut(share, y, int(c))
        levels[c, : len(parts)] = _find_levels(value, share, base, parts, least)[1]
        cuts[c, : len(parts) - 1] = share[[int(part[0]) for part in parts[1:]]]
    return ShareParts(cuts, levels)


def _cut(share: Tensor, y: Tensor, c: int) -> tuple[Tensor, ...]:
    """Return the rows of class ``c`` in parts of about equal number, in the order of share."""
    rows = (y == c).nonzero().squeeze(1)
    rows = rows[share[rows].argsort(stable=True)]
    return rows.tensor_split(max(1, min(_PARTS, len(rows) // _FEWEST_ROWS)))


def _find_levels(
    value: Tensor, share: Tensor, base: Tensor, parts: Sequence[Tensor], least: float
) -> tuple[Tensor, Tensor]:
    """Return the part (n,) of each row, and the t of each part: its mean is bounded best there."""
    sizes = torch.tensor([len(part) for part in parts], device=value.device)
    index = torch.arange(len(parts), device=value.device)
    rows, owner = torch.cat(list(parts)), index.repeat_interleave(sizes)
    number = rows.new_zeros(len(value)).index_copy(0, rows, owner)
    order = rows[value[rows].argsort(descending=True)]
    order = order[number[order].argsort(stable=True)]  # by part, the largest value first
    mass, held = (
        base.new_zeros(len(parts)).index_add(0, owner, each[rows]) for each in (base, base * share)
    )
    top = (held / mass - least) / (1 - least)  # the share of rows that count fully
    before = mass.cumsum(dim=0) - mass
    reached = (base[order].cumsum(dim=0) - before[owner]) / mass[owner] + owner
    last = sizes.cumsum(dim=0) - 1
    at = torch.searchsorted(reached, top + index).clamp(last - sizes + 1, last)
    return number, value[order[at]]


def limit_products(value: Tensor, share: Tensor, level: Tensor, least: float) -> Tensor:
    """Return terms (m,) whose mean is the largest that the mean of ``c value`` can be."""
    step = value - level
    return share * level + step.clamp_min(0) + least * step.clamp_max(0)
