"""Evidence for heads on all rows of a table, from sums over rows that the heads have not seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from regraft.core.evidence import Evidence, bound_evidence, tighten_bounds
from regraft.core.row_risks import RowBeliefs, RowFrame, RowWeights, judge_logits, relative
from regraft.core.row_sums import RowChunk, Sums
from regraft.core.uncertain_groups import ShareParts, bound_mean


def judge_chunk(
    chunk: RowChunk, Z: Tensor, heads: Tensor, most: float = math.inf
) -> tuple[Tensor, Tensor]:
    """Return losses, ``most`` at most, and successes (H, b) of rows ``Z`` under H heads.

    ``heads`` are (H, F, C, d + 1), one for each fold.
    """
    H, F, C, k = heads.shape
    every = (relative(heads).reshape(-1, k) @ Z.T).reshape(H, F, C - 1, len(Z))
    logits = every.gather(1, chunk.head_fold.expand(H, 1, C - 1, -1)).squeeze(1)
    best, place = logits.max(dim=1)
    predicted = torch.where(best > 0, place + 1, 0)
    loss = judge_logits(logits, chunk.y)[0].clamp_max_(most)
    return loss, (predicted == chunk.y).to(Z)


def evidence_sums(
    chunk: RowChunk, frame: RowFrame, heads: Tensor, weights: RowWeights, most: float = math.inf
) -> Sums:
    """Return the squared weights (t + K,) and, by target and head (t + K, H), what is measured.

    These are the weighted loss, its square, and the success, in each target and then each source.
    """
    Z = frame.rows(chunk)
    loss, correct = judge_chunk(chunk, Z, heads, most)
    w = weights(chunk, Z)
    share = (len(weights.base) * weights.base)[chunk.source]  # in the row's source
    squares = weights.by_source(chunk, share.unsqueeze(0)).squeeze(1)
    return (
        torch.cat([w.square().sum(dim=1), squares]),
        *(
            torch.cat([w @ each.T, weights.by_source(chunk, each)])
            for each in (loss, loss.square(), correct)
        ),
    )


def evidence_from(
    sums: Sums, target: int, head: int, name: str, *, together: int = 1, purity: float = 1.0
) -> Evidence:
    """Return the evidence of one head in one target from :func:`evidence_sums`."""
    squares, loss, loss_squares, correct = sums
    risk = float(loss[target, head])
    return bound_evidence(
        name,
        rows=float(1 / squares[target]),
        risk=risk,
        spread=max(float(loss_squares[target, head]) - risk * risk, 0.0),
        accuracy=float(correct[target, head]),
        together=together,
        purity=purity,
    )


def paired_sums(
    chunk: RowChunk, frame: RowFrame, heads: Tensor, weights: RowWeights, risks: Tensor
) -> Sums:
    """Return the squared difference of the influences of rows on two worst cases.

    ``heads`` (2, F, C, d + 1) have the ``risks`` (2,) in the two targets of ``weights``.
    """
    Z = frame.rows(chunk)
    loss, _ = judge_chunk(chunk, Z, heads)
    influence = weights(chunk, Z) * (loss - risks.unsqueeze(1))
    return ((influence[0] - influence[1]).square().sum(),)


def group_sums(chunk: RowChunk, frame: RowFrame, weights: RowWeights, n_folds: int) -> Sums:
    """Return what is known of the groups.

    These are the mass of each target in each fold (F, t), the part of it that is expected to lie
    on rows of its groups (t,), the mass of each class and group (C, G), and the sum (G, d + 1) of
    the rows of each group.
    """
    Z = frame.rows(chunk)
    belief, base = weights.beliefs(chunk, Z).T, weights.base[chunk.source]
    share = belief @ weights.tilts.T  # (b, t)
    joint = belief * base.unsqueeze(1)
    masses = share.new_zeros((n_folds, share.shape[1]))
    masses.index_add_(0, chunk.head_fold, share * base.unsqueeze(1))
    right = torch.stack(
        [
            (belief * torch.minimum(tilt, each.unsqueeze(1))).sum(dim=1)
            for tilt, each in zip(weights.tilts, share.T, strict=True)
        ],
        dim=1,
    )
    right = torch.where(weights.beliefs.tells[chunk.y].unsqueeze(1), right, share)
    classes = joint.new_zeros((len(weights.beliefs.tells), joint.shape[1]))
    classes.index_add_(0, chunk.y, joint)
    return masses, base @ right, classes, joint.T @ Z


@dataclass(frozen=True)
class TargetParts:
    """Parts of the rows by their share in one target, for each head and measure."""

    loss: tuple[ShareParts, ...]  # of each head
    error: tuple[ShareParts, ...]


def share_sums(
    chunk: RowChunk,
    frame: RowFrame,
    heads: Tensor,
    weights: RowWeights,
    parts: tuple[TargetParts, ...],
    least: float,
    most: float = math.inf,
) -> Sums:
    """Return the sums behind bounds by share, by target, head and measure (loss, error).

    These are the terms (t, H, 2), their squares and their products with the shares, and the shares
    (t,) and their squares, all times the rows' base weights.
    """
    Z = frame.rows(chunk)
    loss, correct = judge_chunk(chunk, Z, heads, most)
    base = weights.base[chunk.source]
    shares = (weights.tilts @ weights.beliefs(chunk, Z)) * base  # (t, b)
    terms = torch.stack(
        [
            torch.stack(
                [
                    torch.stack(
                        [
                            of_loss.limit(each, share, chunk.y, least),
                            of_error.limit(1 - right, share, chunk.y, least),
                        ]
                    )
                    for of_loss, of_error, each, right in zip(
                        part.loss, part.error, loss, correct, strict=True
                    )
                ]
            )
            for part, share in zip(parts, shares / base, strict=True)
        ]
    )  # (t, H, 2, b)
    terms = terms * base
    return (
        terms.sum(dim=3),
        terms.square().sum(dim=3),
        (terms * shares[:, None, None]).sum(dim=3),
        shares.sum(dim=1),
        shares.square().sum(dim=1),
    )


def tighten(
    found: Evidence, sums: Sums, target: int, head: int, *, together: int, pure: Evidence
) -> Evidence:
    """Take the bounds from :func:`share_sums` where they are better, but never than ``pure``."""
    terms, squares, products, size, sizes = sums

    def bound(measure: int) -> float:
        at = target, head, measure
        mean = terms[at] / size[target]
        spread = squares[at] - 2 * mean * products[at] + mean.square() * sizes[target]
        return bound_mean(mean, spread.clamp_min(0), size[target], sizes[target], together)

    return tighten_bounds(found, bound(0), bound(1), pure)


def make_weights(beliefs: RowBeliefs, counts: Tensor, tilts: Tensor) -> RowWeights:
    """Return weights that give each source the same mass; ``counts`` (K, C) are its rows."""
    rows = counts.sum(dim=1).to(torch.float64)
    return RowWeights(beliefs, 1 / (len(rows) * rows), tilts)
