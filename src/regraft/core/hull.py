"""Plausible targets: the affine hull of the source heads, and the weights that make each target.

If the abduction of a target is an affine combination of the sources' abductions, its head is the
same combination of the source heads. Its surrogate is the source rows, reweighted so that the
conditional of each source becomes the target head: real inputs keep real labels. The law of the
inputs moves with the weights, unless it is asked to stay. The sources themselves are plausible too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from regraft.core.ball_search import maximize_in_ball
from regraft.core.decompositions import eigh
from regraft.core.heads import SourceHeads
from regraft.core.target_rows import (
    FactorizedRows,
    TargetRows,
    TiltedRows,
    entry_of_label,
    factorized_labels,
)
from regraft.core.transplant import Witness, find_witness
from regraft.core.whitening import conversion_chunks

Objective = Literal["risk", "regret"]

# Heads whose tilt logits differ by less than this (root mean square, nats) are the same head.
_SAME_HEAD_NATS = 1e-6
_MOST_NATS = 1e6  # of a radius: odds beyond any that data could tell apart
_SMALLEST_ERROR = 1e-12  # of a mean, below which it has no slope
_GLANCE_ROWS = 4096  # by which the search chooses where to look closely, at all rows
_GLANCE_ENTRIES = 2**19  # of a temporary


@dataclass(frozen=True)
class Hull:
    """Target heads ``center + Σ_j z_j directions_j``; ``|z|`` is the shift in nats.

    The directions are orthonormal in the root mean square of the tilt logits over source rows
    and classes, so ``|z| <= radius`` allows a shift of at most ``radius`` nats.
    """

    center: Tensor  # (C, k) mean of the source heads
    directions: Tensor  # (m, C, k), m <= K - 1; m = 0: the hull is a point
    sources: Tensor  # (K, m) the source heads in these coordinates
    mixing: Tensor  # (m, K) z @ mixing + 1 / K are the affine coefficients of the sources
    projection: Tensor  # (C, C) onto the class directions in which the targets differ

    def head(self, z: Tensor) -> Tensor:
        """Return the head (C, k) of the target at ``z`` (m,)."""
        shift: Tensor = torch.tensordot(z, self.directions, dims=1)
        return self.center + shift

    def coefficients(self, z: Tensor) -> Tensor:
        """Return the affine weights (K,) of the source heads at ``z``; they sum to one."""
        return z @ self.mixing + 1.0 / self.mixing.shape[1]


@dataclass(frozen=True)
class PlausibleTargets:
    """Targets of a game, an audit or a certificate: a hull, and the rows that weights turn into it.

    The hull is of heads, or of the abductions behind them.
    """

    family: str
    hull: Hull
    rows: TargetRows
    witness: Callable[[Tensor], Witness]  # of the target with some map of the hull


@dataclass(frozen=True)
class Attack:
    """Worst target found for a predictor."""

    z: Tensor  # (m,) the worst target found
    value: float  # its risk, or regret
    weights: Tensor  # (n,) its surrogate
    source: int | None = None  # the source that it is, if it is one as it stands


def supported_radius(hull: Hull) -> float:
    """Return how far from their mean the sources let one expect a further domain (nats).

    If K domains and one more are drawn alike, the square of its distance from their mean is on
    average (K + 1) / (K - 1) times that of one of the K. The farthest of these stands for them all.
    """
    n_sources = len(hull.sources)
    if n_sources == 1:
        return 0.0
    return math.sqrt((n_sources + 1) / (n_sources - 1)) * float(hull.sources.norm(dim=1).max())


def check_radius(radius: float) -> None:
    """Raise ``ValueError`` unless ``radius`` is a finite number of nats, 0 or more."""
    if not 0 <= radius < float("inf"):
        raise ValueError(f"radius is {radius}: pass a finite number of nats, 0 or more.")
    if radius > _MOST_NATS:
        raise ValueError(f"radius is {radius:g}: pass {_MOST_NATS:g} nats at most.")


def check_objective(objective: str) -> None:
    """Raise ``ValueError`` unless ``objective`` is "risk" or "regret"."""
    if objective not in ("risk", "regret"):
        raise ValueError(f'objective is {objective!r}: pass "risk" or "regret".')


def check_rank(rank: int | None, n_classes: int) -> None:
    """Raise ``ValueError`` unless ``rank`` is None or a possible transplant dimension."""
    if rank is not None and not 1 <= rank <= n_classes - 1:
        raise ValueError(
            f"rank is {rank}, but heads of {n_classes} classes differ in at most {n_classes - 1} "
            f"direction(s): leave it out, or pass a rank from 1 to {n_classes - 1}."
        )


def fit_hull(
    heads: Tensor,
    Z: Tensor,
    weight: Tensor,
    rank: int | None = None,
    moves: Tensor | None = None,
) -> Hull:
    """Fit the hull of source ``heads`` (K, C, k) on rows ``Z`` (n, k).

    ``rank`` is the transplant dimension r: head differences are approximated in that many class
    directions (at most C - 1, the default). ``moves`` (K, C, n) are the logits by which the sources
    differ from their mean, in which nats are measured; by default those of ``heads`` on the rows.
    """
    n_sources, n_classes = heads.shape[:2]
    # Softmax ignores a constant over classes.
    projection = torch.eye(n_classes).to(heads) - 1.0 / n_classes
    center = heads.mean(dim=0)
    moves = _tilt(heads - center, Z) if moves is None else moves
    logits = projection @ moves * (weight / n_classes).sqrt()  # (K, C, n)
    if rank is not None:
        _, vectors = eigh(torch.einsum("san,sbn->ab", logits, logits))
        kept = vectors[:, -rank:] @ vectors[:, -rank:].T
        projection, logits = kept @ projection, kept @ logits
    stacked = logits.reshape(n_sources, -1)
    squares, vectors = eigh(stacked @ stacked.T)
    keep = squares > max(_SAME_HEAD_NATS**2, 1e-10 * float(squares[-1]))
    lengths, axes = squares[keep].sqrt(), vectors[:, keep]
    mixing = (axes / lengths).T
    directions = torch.tensordot(mixing, projection @ (heads - center), dims=1)
    center = center - center.mean(dim=0)
    return Hull(center, directions, axes * lengths, mixing, projection)


def tilt_rows(
    hull: Hull, heads: Tensor, Z: Tensor, y: Tensor, weight: Tensor, domain: Tensor
) -> TiltedRows:
    """Prepare the rows ``Z`` (n, k) of sources with ``heads`` (K, C, k) for the hull's targets."""
    center = _tilt(hull.center, Z)
    own = torch.empty_like(center)
    for s, head in enumerate(heads):
        rows = domain == s
        own[:, rows] = _tilt(head, Z[rows])
    return TiltedRows(
        tilt=_tilt(hull.directions, Z),
        center=center,
        own=own,
        y=y,
        domain=domain,
        log_weight=weight.log(),
        sources=hull.sources,
    )


def factorize_rows(
    hull: Hull, abductions: Tensor, deduction: Tensor, y: Tensor, weight: Tensor, domain: Tensor
) -> FactorizedRows:
    """Prepare rows for targets with abductions in a hull, given the logits of groups and of labels.

    ``abductions`` (K, G, n) and ``deduction`` (G, C, n) are as in :func:`factorized_labels`.
    """
    center = abductions.mean(dim=0)
    return FactorizedRows(
        tilt=torch.tensordot(hull.mixing, abductions - center, dims=1),
        center=center,
        log_deduction=torch.log_softmax(deduction, dim=1),
        own=factorized_labels(abductions, deduction, domain),
        y=y,
        domain=domain,
        log_weight=weight.log(),
        sources=hull.sources,
    )


def _tilt(heads: Tensor, Z: Tensor) -> Tensor:
    """Return logits (..., C, n) of heads (..., C, k) on rows (n, k), in the heads' precision."""
    if Z.dtype == heads.dtype:
        return heads @ Z.T
    answer = heads.new_empty((*heads.shape[:-1], len(Z)))
    for rows in conversion_chunks(Z, heads.dtype):
        answer[..., rows] = heads @ Z[rows].to(heads.dtype).T
    return answer


def plausible_targets(sources: SourceHeads, rank: int | None = None) -> tuple[Hull, TiltedRows]:
    """Return the hull of the source heads, and the sources' own rows prepared for its targets.

    Rows are weighed by heads that have not seen them. Other heads would give more weight to labels
    that they remember.
    """
    logits = sources.held_out.logits(sources.held_out.heads, sources.Z)
    center = logits.mean(dim=0)
    moves = logits - center
    hull = fit_hull(sources.heads, sources.Z, sources.weight, rank, moves)
    domain = sources.domain
    return hull, TiltedRows(
        tilt=torch.tensordot(hull.mixing, hull.projection @ moves, dims=1),
        center=center,
        own=logits[domain, :, torch.arange(len(domain), device=domain.device)].T.contiguous(),
        y=sources.y,
        domain=domain,
        log_weight=sources.weight.log(),
        sources=hull.sources,
    )


def hull_targets(sources: SourceHeads, rank: int | None = None) -> PlausibleTargets:
    """Return the targets whose heads are affine combinations of the source heads."""
    hull, rows = plausible_targets(sources, rank)
    heads = torch.stack([hull.head(z) for z in hull.sources])
    return PlausibleTargets("hull", hull, rows, partial(find_witness, source_heads=heads))


def attack(
    rows: TargetRows,
    loss: Tensor,
    radius: float,
    objective: Objective = "risk",
    known: Sequence[Tensor] = (),
    errors: float = 0.0,
) -> Attack:
    """Find the worst target with ``|z| <= radius``, or the worst source, for row losses ``loss``.

    For ``regret``, the loss of the target's own head is subtracted from each row's loss. ``known``
    are targets in the ball that were found before; the result is at least as bad as these.
    ``errors`` standard errors are added to the value of each target.
    """

    def value_and_gradient(z: Tensor) -> tuple[float, Tensor]:
        return _value_and_gradient(rows, loss, z, objective, errors)

    fewer, stride = _thin(rows)

    def glance(targets: Tensor) -> Tensor:
        logits, _ = fewer.at(targets)
        own = loss[::stride]
        if objective == "regret":
            own = own + entry_of_label(torch.log_softmax(logits, dim=-2), fewer.y)
        return _means(fewer.weigh(logits)[0], own, errors / math.sqrt(stride))

    origin = loss.new_zeros(rows.sources.shape[1])
    z, value = maximize_in_ball(
        value_and_gradient, origin, radius, known, glance=_in_parts(fewer, glance)
    )
    own = loss - rows.source_losses() if objective == "regret" else loss
    best = Attack(z, value, rows.weights(z))
    for s in range(len(rows.sources)):
        if not (rows.domain == s).any():
            continue  # a fold may hold no row of a tiny source
        weight = rows.source_weights(s)
        value = float(weight @ own) + errors * standard_error(weight, own)
        if value > best.value:
            best = Attack(rows.sources[s], value, weight, s)
    return best


def attack_keeping_inputs(
    rows: TargetRows, losses: Tensor, radius: float, errors: float = 0.0
) -> Tensor:
    """Find the worst target of the ball if the rows keep their weights and only labels change.

    ``losses`` (C, n) are those of a row with each label. Return the probabilities (C, n) of the
    labels under the target's head. Real labels would need weights without a bound, and means under
    such weights stray too far from the truth.
    """
    weight = torch.softmax(rows.log_weight, dim=0)

    def value_and_gradient(z: Tensor) -> tuple[float, Tensor]:
        logits, pull_back = rows.at(z)
        p = torch.softmax(logits, dim=0)
        loss = (p * losses).sum(dim=0)
        value, scale = weight @ loss, weight
        if errors:
            influence = weight * (loss - value)
            error = influence.square().sum().sqrt().clamp_min(_SMALLEST_ERROR)
            value = value + errors * error
            scale = weight + errors * weight * (influence - weight @ influence) / error
        return float(value), pull_back(scale * p * (losses - loss))

    fewer, stride = _thin(rows)
    some = torch.softmax(fewer.log_weight, dim=0)

    def glance(targets: Tensor) -> Tensor:
        p = torch.softmax(fewer.at(targets)[0], dim=-2)
        return _means(some, (p * losses[:, ::stride]).sum(dim=-2), errors / math.sqrt(stride))

    origin = weight.new_zeros(rows.sources.shape[1])
    z, _ = maximize_in_ball(value_and_gradient, origin, radius, glance=_in_parts(fewer, glance))
    return torch.softmax(rows.at(z)[0], dim=0)


def _thin(rows: TargetRows) -> tuple[TargetRows, int]:
    """Return every so many-th row, which is enough to see where the bad targets are.

    The rows are sorted by source, class and distance from the mean, so this is a fair sample.
    """
    stride = -(-len(rows.y) // _GLANCE_ROWS)
    if stride == 1:
        return rows, 1
    return rows.take(torch.arange(0, len(rows.y), stride, device=rows.y.device)), stride


def _means(weight: Tensor, loss: Tensor, errors: float) -> Tensor:
    """Return means (B,) of the losses, with so many standard errors; one of the two is (B, n)."""
    mean = (weight * loss).sum(dim=-1)
    spread: Tensor = torch.linalg.vector_norm(weight * (loss - mean.unsqueeze(-1)), dim=-1)
    return mean + errors * spread


def _in_parts(rows: TargetRows, glance: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Take so few targets (B, m) at a time that their rows stay in the cache."""
    size = max(1, _GLANCE_ENTRIES // rows.own.numel())
    return lambda targets: torch.cat([glance(part) for part in torch.split(targets, size)])


def standard_error(weight: Tensor, loss: Tensor) -> float:
    """Return the standard error of the mean of ``loss`` (n,) under weights that sum to one."""
    return float((weight * (loss - weight @ loss)).square().sum().sqrt())


def _value_and_gradient(
    rows: TargetRows, loss: Tensor, z: Tensor, objective: Objective, errors: float
) -> tuple[float, Tensor]:
    """Return the risk (or regret) of the surrogate at ``z``, and its gradient in ``z``."""
    logits, pull_back = rows.at(z)
    weight, share = rows.weigh(logits)
    if objective == "regret":
        log_p = torch.log_softmax(logits, dim=0)
        loss = loss + entry_of_label(log_p, rows.y)
    value = weight @ loss
    influence = weight * (loss - value)
    scale, slope = influence, weight
    if errors:
        error = influence.square().sum().sqrt().clamp_min(_SMALLEST_ERROR)
        bias = weight @ influence
        value = value + errors * error
        spread = (influence.square() - weight * error**2 - bias * influence) / error
        scale = influence + errors * spread
        slope = weight + errors * weight * (influence - bias) / error
    slopes = _label_slopes(rows.y, share, scale)
    if objective == "regret":
        slopes = slopes + _label_slopes(rows.y, log_p.exp_(), slope)
    return float(value), pull_back(slopes)


def _label_slopes(y: Tensor, share: Tensor, scale: Tensor) -> Tensor:
    """Return slopes (C, n) in the logits of ``scale · (logit of the label - mean under share)``."""
    slopes = -share * scale
    return slopes.scatter_add_(0, y.unsqueeze(0), scale.unsqueeze(0))
