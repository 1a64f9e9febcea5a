"""Partial identification: how far P(y | x) of a row can move over the plausible targets.

Each family has one function from what the model knows of the rows to :class:`RowBounds`.

Mixtures of hidden groups. A target weighs group u by ``t_u = π_star(u) / π(u)``, so its conditional
is ``Σ_u t_u P(y, u | x)`` of the pooled sources, divided by its sum over the classes; this is
``Σ_u P_star(u | x) P(y | x, u)`` with ``P_star(u | x) ∝ t_u P(u | x)``. It is a ratio of linear
functions of t, and one class is ahead of another on one side of a plane in t. So least, largest and
whether the leading class changes are settled at the extreme targets
(:func:`~regraft.core.group_targets.extreme_tilts`): all three are exact.

If every class mixes the groups in its own way and label shares are kept, class y has the mass
``Σ_u t_yu P(y, u | x) / Σ_u t_yu P(u | y)``. The masses of the classes move independently, so a
class has its least probability where its own mass is least and all others are largest. Exact again.

Hull. Targets are ``softmax(center + Σ_j z_j tilt_j)`` with ``|z| <= radius``; see
:func:`hull_bounds`. Factorized targets move P(u | x) in that way; see :func:`factorized_bounds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.core.ball_bounds import greatest_log_sum, least_log_sum
from regraft.core.group_targets import extreme_tilts
from regraft.core.whitening import row_chunks


@dataclass(frozen=True)
class Interval:
    """Least and largest probability of each class over all plausible targets, row by row.

    It says what is not known about the target. It does not contain the error of estimating the
    groups or heads from finitely many rows.

    Parameters
    ----------
    lower, upper : ndarray (n, C)
        No plausible target gives a class less than ``lower`` or more than ``upper``.
    decided : ndarray (n,) of bool
        Whether one class is the most probable one in every plausible target.
    classes : ndarray (C,)
        Labels of the columns.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    decided: NDArray[np.bool_]
    classes: NDArray[Any]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return lists by row, for JSON."""
        ends = {"least": self.lower, "largest": self.upper, "decided": self.decided}
        return {name: values.tolist() for name, values in ends.items()}


@dataclass(frozen=True)
class RowBounds:
    """Bounds of the class probabilities of some rows."""

    lower: Tensor  # (n, C)
    upper: Tensor  # (n, C)
    decided: Tensor  # (n,) bool


def join_bounds(parts: Sequence[RowBounds]) -> RowBounds:
    """Return the bounds of all rows from those of successive chunks."""
    columns = ((part.lower, part.upper, part.decided) for part in parts)
    return RowBounds(*map(torch.cat, zip(*columns, strict=True)))


def mixture_bounds(
    logits: Tensor, prior_shift: float | None, prior: Tensor | None = None
) -> RowBounds:
    """Return the bounds over all mixtures of the groups.

    ``logits`` (n, G, C) are log P(y, u | x) of the pooled sources, up to a constant in each row.
    ``prior_shift`` bounds the change of the log-odds of any two groups. With ``prior`` (C, G),
    P(u | y) of the pooled sources, every class mixes the groups in its own way.
    """
    tilts = extreme_tilts(logits.shape[1], prior_shift).to(logits)
    # Mass (n, V, C) of each class in each extreme target.
    log_mass = torch.logsumexp(logits.unsqueeze(1) + tilts.log().unsqueeze(2), dim=2)
    if prior is None:
        p = torch.softmax(log_mass, dim=2)
        leader = log_mass.argmax(dim=2)
        return RowBounds(p.amin(1), p.amax(1), (leader == leader[:, :1]).all(dim=1))
    share = (tilts @ prior.T).clamp_min(torch.finfo(prior.dtype).tiny)  # (V, C)
    low, high = torch.aminmax(log_mass - share.log(), dim=1)
    worst, best = _against_others(low, high), _against_others(high, low)
    decided = (worst.argmax(dim=2) == torch.arange(low.shape[1])).any(dim=1)
    return RowBounds(_own_share(worst), _own_share(best), decided)


def _against_others(own: Tensor, others: Tensor) -> Tensor:
    """Return, for each class y, the log-masses (n, y, c): ``own`` of y and those of ``others``."""
    table = others.unsqueeze(1).repeat(1, others.shape[1], 1)
    torch.diagonal(table, dim1=1, dim2=2).copy_(own)
    return table


def _own_share(table: Tensor) -> Tensor:
    return torch.diagonal(torch.softmax(table, dim=2), dim1=1, dim2=2)


def hull_bounds(logits: Tensor, mixing: Tensor, radius: float) -> RowBounds:
    """Return bounds over all heads of a hull within ``radius`` nats of its center.

    ``logits`` (n, K, C) are those of the source heads, ``mixing`` (m, K) as in
    :class:`~regraft.core.hull.Hull`. No target lies outside of the bounds:

    - Two classes: the log-odds are linear in z, so both ends are exact.
    - Largest: log P is concave in z. The bound is the tangent's where Newton's method ends.
    - Least: a convex function is largest at a corner. The ball is an interval (two sources:
      exact) or is put into a polygon, which makes the radius larger by .12 %. If targets move
      logits in three dimensions or more, which takes four sources and four classes, the bound of
      the third and further ones is looser.
    - A row is decided if no contrast of two classes can change its sign: exact.
    """
    n, _, C = logits.shape
    center, tilt = logits.mean(dim=1), mixing.to(logits) @ logits  # (n, C), (n, m, C)
    if len(mixing) >= C:  # rotate the ball: contrasts of C classes need only C - 1 coordinates
        contrasts = torch.linalg.qr(tilt[..., 1:] - tilt[..., :1], mode="r").R
        tilt = torch.nn.functional.pad(contrasts, (1, 0))
    parts = []
    for rows in row_chunks(n, C * C * (1 + tilt.shape[1])):
        # Logits of all classes c against each class y: (n, y, c) and (n, y, c, m).
        base = center[rows].unsqueeze(1) - center[rows].unsqueeze(2)
        moves = (tilt[rows].mT.unsqueeze(1) - tilt[rows].mT.unsqueeze(2)).contiguous()
        ahead = base + radius * torch.linalg.vector_norm(moves, dim=3) < 0
        decided = (ahead | torch.eye(C, dtype=torch.bool)).all(dim=2).any(dim=1)
        problems = base.flatten(0, 1), moves.flatten(0, 1), radius
        lower = torch.exp(-greatest_log_sum(*problems)).reshape(-1, C)
        upper = torch.exp(-least_log_sum(*problems)).reshape(-1, C)
        parts.append(RowBounds(lower, upper, decided))
    return join_bounds(parts)


def factorized_bounds(
    abductions: Tensor, deduction: Tensor, mixing: Tensor, radius: float
) -> RowBounds:
    """Return bounds over all abductions of a hull within ``radius`` nats of its center.

    ``abductions`` (n, K, G) are logits of the groups in each source, ``deduction`` (n, G, C) those
    of the labels in each group. P(u | x) of each group is bounded by :func:`hull_bounds`, and
    P(y | x) by every mixture that these bounds leave: exact for two groups, else an outer bound.
    """
    groups, p = hull_bounds(abductions, mixing, radius), torch.softmax(deduction, dim=2)
    contrasts = (p.unsqueeze(3) - p.unsqueeze(2)).flatten(2)  # of every class with every other
    C = p.shape[2]
    ahead = _least_mixture(groups, contrasts).reshape(-1, C, C) > 0
    decided = (ahead | torch.eye(C, dtype=torch.bool)).all(dim=2).any(dim=1)
    return RowBounds(_least_mixture(groups, p), -_least_mixture(groups, -p), decided)


def _least_mixture(shares: RowBounds, values: Tensor) -> Tensor:
    """Return the least ``Σ_u a_u values_u`` (n, m) over shares within bounds that sum to one.

    What the lower bounds leave goes to the smallest values first, up to the upper bounds.
    """
    low, room = shares.lower.unsqueeze(2), (shares.upper - shares.lower).unsqueeze(2)
    ordered, order = values.sort(dim=1)
    room = room.expand_as(values).gather(1, order)
    before = room.cumsum(dim=1) - room
    filled = torch.minimum((1 - low.sum(dim=1, keepdim=True) - before).clamp_min(0), room)
    return (low * values).sum(dim=1) + (filled * ordered).sum(dim=1)
