"""P(y, u | x) of the pooled sources, as one linear softmax over pairs of a group and a class.

If features are normal with one covariance given group and class, this is the exact form. Within a
group it is a head of its own, P(y | x, u). The share of a group in a row, P(u | x), need not be
linear: whether colour agrees with the label depends on the shape and the colour together.

The directions are those known already: of the pooled head, and of the groups within each class.
Only how they add up is fitted, so few rows suffice, and it costs little.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regraft.core.abduction import Groups
from regraft.core.decompositions import eigh
from regraft.core.heads import SourceHeads
from regraft.core.newton import log_probabilities, minimax_newton
from regraft.core.whitening import Whitening

_RIDGE = 1e-5  # there are few directions
# Rows that are fitted: fewer if there are many outcomes, each of which costs as much as a row.
_MIN_ROWS, _MAX_ROWS, _MAX_ENTRIES = 16_000, 50_000, 800_000
_TOLERANCE = 1e-4  # nats
_SMALLEST = 1e-9  # of the largest variance; directions of less carry rounding errors


@dataclass(frozen=True)
class GroupHeads:
    """Heads whose softmax over groups and classes is P(y, u | x), and rows to check them on."""

    heads: Tensor  # (G, C, k) on whitened rows
    rows: Tensor  # (m,) numbers of source rows
    log_joint: Tensor  # (m, G, C) of these rows, along directions that have not seen them


def fit_group_heads(sources: SourceHeads, groups: Groups) -> GroupHeads:
    """Fit P(y, u | x) of the pooled sources.

    Each row counts for every group as much as it is believed to belong to it. Without a hidden
    factor the only head is the pooled one.
    """
    G, C = groups.n_groups, len(sources.pooled)
    # The rows are sorted by source, class and distance from the mean, so this is a fair sample.
    most = max(_MIN_ROWS, min(_MAX_ROWS, _MAX_ENTRIES // (G * G * C)))
    chosen = torch.arange(0, len(sources.y), -(-len(sources.y) // most)).to(sources.y.device)
    held_out = replace(sources.held_out, fold=sources.held_out.fold[chosen])
    Z = sources.Z[chosen]
    # Of heads that have not seen the row: those that have give larger logits than new rows get.
    unseen = held_out.logits(held_out.pooled, Z).T
    if groups.models is None:
        return GroupHeads(
            sources.pooled.unsqueeze(0), chosen, torch.log_softmax(unseen, dim=1).unsqueeze(1)
        )
    pooled = sources.pooled - sources.pooled.mean(dim=0)
    maps = _on_whitened(groups.models.maps_by_fold, sources.whitening)
    contrasts = (maps[:, :, 1:] - maps[:, :, :1]).flatten(1, 2)  # (F, C (G - 1), k)
    scores = replace(held_out, fold=groups.fold[chosen]).logits(contrasts, Z).T
    known = torch.cat([unseen - unseen.mean(dim=1, keepdim=True), scores], dim=1)
    joint = (groups.posterior * sources.weight.unsqueeze(1))[chosen].T  # (G, m)
    basis = _whiten(known, joint.sum(dim=0))
    rows = torch.cat([known @ basis, torch.ones_like(known[:, :1])], dim=1)
    pairs = sources.y[chosen] + C * torch.arange(G, device=joint.device).unsqueeze(1)
    sums = minimax_newton(
        rows.repeat(G, 1),
        pairs.flatten(),
        (joint / joint.sum()).reshape(1, -1),
        ridge=_RIDGE,
        start=rows.new_zeros((G * C, rows.shape[1])),
        tolerance=_TOLERANCE,
    ).head
    heads = sums[:, :-1] @ basis.T @ torch.cat([pooled, contrasts.mean(dim=0)])
    heads[:, -1] += sums[:, -1]
    log_joint = log_probabilities(rows, sums).reshape(-1, G, C)
    return GroupHeads(heads.reshape(G, C, -1), chosen, log_joint)


def _whiten(known: Tensor, weight: Tensor) -> Tensor:
    """Return a map (k, m) to uncorrelated columns of unit size, among which a search is short."""
    values, vectors = eigh(known.T @ (known * weight.unsqueeze(1)) / weight.sum())
    kept = values > _SMALLEST * values[-1]
    basis: Tensor = vectors[:, kept] / values[kept].sqrt()
    return basis


def _on_whitened(maps: Tensor, whitening: Whitening) -> Tensor:
    """Return linear maps (..., d + 1) on ``[x, 1]`` as maps (..., k) on whitened rows."""
    coef = maps[..., :-1] @ whitening.basis * whitening.scale
    level = maps[..., -1] + maps[..., :-1] @ whitening.mean
    return torch.cat([coef, level.unsqueeze(-1)], dim=-1)
