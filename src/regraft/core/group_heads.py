"""P(y, u | x) of the pooled sources, as one linear softmax over pairs of a group and a class.

If features are normal with one covariance given group and class, this is the exact form. Within a
group it is a head of its own, P(y | x, u). The share of a group in a row, P(u | x), need not be
linear: whether colour agrees with the label depends on the shape and the colour together.

The directions are those known already: of the pooled head, and of the groups within each class.
Only how they add up is fitted, so few rows suffice, and it costs little.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regraft.core.abduction import Groups
from regraft.core.heads import SourceHeads
from regraft.core.newton import logits, minimax_newton
from regraft.core.whitening import Whitening

_RIDGE = 1e-6  # there are few directions
_MAX_ROWS = 50_000
_TOLERANCE = 1e-5  # nats


def fit_group_heads(sources: SourceHeads, groups: Groups) -> Tensor:
    """Return heads (G, C, k) on whitened rows, whose softmax over both is P(y, u | x).

    Each row counts for every group as much as it is believed to belong to it. Without a hidden
    factor the only head is the pooled one.
    """
    G, C = groups.n_groups, len(sources.pooled)
    if groups.models is None:
        return sources.pooled.unsqueeze(0)
    pooled = sources.pooled - sources.pooled.mean(dim=0)
    maps = _on_whitened(groups.models.maps, sources.whitening)
    contrasts = (maps[:, 1:] - maps[:, :1]).flatten(0, 1)  # (C (G - 1), k)
    # The rows are sorted by source, class and distance from the mean, so this is a fair sample.
    every = slice(None, None, -(-len(sources.y) // _MAX_ROWS))
    # Of heads that have not seen the row: those that have give larger logits than new rows get.
    unseen = sources.held_out.logits(sources.held_out.pooled, sources.Z).T[every]
    scores = logits(sources.Z[every], contrasts)
    known = torch.cat([unseen - unseen.mean(dim=1, keepdim=True), scores], dim=1)
    joint = (groups.posterior * sources.weight.unsqueeze(1))[every].T  # (G, n)
    scale = (joint.sum(dim=0) @ known.square() / joint.sum()).sqrt().clamp_min(_TOLERANCE)
    rows = torch.cat([known / scale, torch.ones_like(known[:, :1])], dim=1)
    pairs = sources.y[every] + C * torch.arange(G, device=joint.device).unsqueeze(1)
    sums = minimax_newton(
        rows.repeat(G, 1),
        pairs.flatten(),
        (joint / joint.sum()).reshape(1, -1),
        ridge=_RIDGE,
        start=rows.new_zeros((G * C, rows.shape[1])),
        tolerance=_TOLERANCE,
    ).head
    heads = sums[:, :-1] / scale @ torch.cat([pooled, contrasts])
    heads[:, -1] += sums[:, -1]
    return heads.reshape(G, C, -1)


def _on_whitened(maps: Tensor, whitening: Whitening) -> Tensor:
    """Return linear maps (..., d + 1) on ``[x, 1]`` as maps (..., k) on whitened rows."""
    coef = maps[..., :-1] @ whitening.basis * whitening.scale
    level = maps[..., -1] + maps[..., :-1] @ whitening.mean
    return torch.cat([coef, level.unsqueeze(-1)], dim=-1)
