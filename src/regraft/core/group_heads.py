"""P(y, u | x) of the pooled sources, as one linear softmax over pairs of a group and a class.

If features are normal with one covariance given group and class, this is the exact form. Within a
group it is a head of its own, P(y | x, u). The share of a group in a row, P(u | x), need not be
linear: whether colour agrees with the label depends on the shape and the colour together.

The directions are those known already: of the pooled head, and of the groups within each class.
Only how they add up is fitted, so few rows suffice, and it costs little. With very many classes
there are more directions than features: the heads are then those of normal features, by formula.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regraft.core.abduction import Groups
from regraft.core.decompositions import cholesky, eigh
from regraft.core.heads import SourceHeads
from regraft.core.many_classes import MANY_CLASSES
from regraft.core.newton import log_probabilities, minimize_largest_risk, soft_risks_in_memory
from regraft.core.whitening import Whitening

_RIDGE = 1e-5  # there are few directions
# Rows that are fitted: fewer if there are many outcomes, each of which costs as much as a row.
_MIN_ROWS, _MAX_ROWS, _MAX_ENTRIES = 16_000, 50_000, 800_000
_TOLERANCE = 1e-4  # nats
_SMALLEST_WITHIN = 1e-3  # of the mean variance within groups; is added to it
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
    if C > MANY_CLASSES:
        return _discriminate(sources, groups, chosen)
    pooled = sources.pooled - sources.pooled.mean(dim=0)
    maps = _on_whitened(groups.models.maps_by_fold, sources.whitening)
    contrasts = (maps[:, :, 1:] - maps[:, :, :1]).flatten(1, 2)  # (F, C (G - 1), k)
    scores = replace(held_out, fold=groups.fold[chosen]).logits(contrasts, Z).T
    known = torch.cat([unseen - unseen.mean(dim=1, keepdim=True), scores], dim=1)
    weight = sources.weight[chosen]
    basis = _whiten(known, weight)
    rows = torch.cat([known @ basis, torch.ones_like(known[:, :1])], dim=1)
    pairs = sources.y[chosen].unsqueeze(1) + C * torch.arange(G, device=rows.device)
    shares = rows.new_zeros((len(rows), G * C)).scatter_(1, pairs, groups.posterior[chosen])
    sums = minimize_largest_risk(
        soft_risks_in_memory(rows, shares, (weight / weight.sum()).unsqueeze(0), _RIDGE),
        ridge=_RIDGE,
        start=rows.new_zeros((G * C, rows.shape[1])),
        tolerance=_TOLERANCE,
    ).head
    heads = sums[:, :-1] @ basis.T @ torch.cat([pooled, contrasts.mean(dim=0)])
    heads[:, -1] += sums[:, -1]
    log_joint = log_probabilities(rows, sums).reshape(-1, G, C)
    return GroupHeads(heads.reshape(G, C, -1), chosen, log_joint)


def _discriminate(sources: SourceHeads, groups: Groups, chosen: Tensor) -> GroupHeads:
    """Return Fisher's discriminants of groups and classes, and of rows left out by their folds."""
    G, C, fold = groups.n_groups, len(sources.pooled), sources.held_out.fold
    F, Z = len(sources.held_out.pooled), sources.Z[:, :-1].to(sources.weight.dtype)
    joint = (groups.posterior * sources.weight.unsqueeze(1)).T  # (G, n)
    cell = fold * C + sources.y
    mass = torch.stack([w.new_zeros(F * C).index_add(0, cell, w) for w in joint], dim=1)
    total = torch.stack(
        [Z.new_zeros((F * C, Z.shape[1])).index_add(0, cell, Z * w[:, None]) for w in joint], dim=1
    )
    mass, total = mass.reshape(F, C, G), total.reshape(F, C, G, -1)
    square = torch.stack(
        [(Z[own] * sources.weight[own, None]).T @ Z[own] for own in (fold == f for f in range(F))]
    )
    one_row = 1 / len(Z)
    everything = _discriminants(mass.sum(dim=0), total.sum(dim=0), square.sum(dim=0), one_row)
    rest = [part.sum(dim=0) - part for part in (mass, total, square)]  # without each fold
    unseen = torch.stack(
        [_discriminants(rest[0][f], rest[1][f], rest[2][f], one_row) for f in range(F)]
    )
    held_out = replace(sources.held_out, fold=fold[chosen])
    logits = held_out.logits(unseen.flatten(1, 2), sources.Z[chosen]).T
    log_joint = torch.log_softmax(logits, dim=1).reshape(-1, G, C)
    return GroupHeads(everything, chosen, log_joint)


def _discriminants(mass: Tensor, total: Tensor, square: Tensor, one_row: float) -> Tensor:
    """Return heads (G, C, k) of normal rows with means of their own and one covariance.

    ``mass`` (C, G), ``total`` (C, G, k - 1) and ``square`` (k - 1, k - 1) are sums of weights, of
    weighted rows and of their squares. Each mean has one row more, at the mean of its class.
    """
    tiny = torch.finfo(mass.dtype).tiny
    centre = total.sum(dim=1, keepdim=True) / mass.sum(dim=1)[:, None, None].clamp_min(tiny)
    within = square - (total.flatten(0, 1) / mass.flatten().clamp_min(tiny)[:, None]).T @ (
        total.flatten(0, 1)
    )
    within = within / mass.sum()
    within.diagonal().add_(_SMALLEST_WITHIN * within.diagonal().mean().clamp_min(tiny))
    mass = mass + one_row
    mean = (total + one_row * centre) / mass.unsqueeze(2)
    coef = torch.cholesky_solve(mean.flatten(0, 1).T, cholesky(within)).T.reshape(mean.shape)
    level = mass.log() - 0.5 * (coef * mean).sum(dim=2)
    return torch.cat([coef, level.unsqueeze(2)], dim=2).transpose(0, 1)


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
