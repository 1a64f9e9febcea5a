"""Plausible targets: the affine hull of the source heads, and the weights that make each target.

If the abduction of a target is an affine combination of the sources' abductions, its head is the
same combination of the source heads. Its surrogate is the source rows, reweighted so that the
conditional of each source becomes the target head: real inputs keep real labels. The law of the
inputs moves with the weights, unless it is asked to stay. The sources themselves are plausible too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from regraft.core.ball_search import maximize_in_ball
from regraft.core.heads import SourceHeads
from regraft.core.whitening import conversion_chunks

Objective = Literal["risk", "regret"]

# Heads whose tilt logits differ by less than this (root mean square, nats) are the same head.
_SAME_HEAD_NATS = 1e-6
_SMALLEST_ERROR = 1e-12  # of a mean, below which it has no slope


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
class TiltedRows:
    """Rows with the logits from which the weights of every target of a hull follow.

    A row (x, y) of source s has weight ``softmax((W - W_s) x)_y`` in the target with head W, times
    its own. Its labels given x are then those of W, if those of source s are those of W_s. The law
    of x moves with the weights.

    Classes come first and rows last, so that sums over classes run along contiguous memory.
    """

    tilt: Tensor  # (m, C, n) logits of the hull's directions
    center: Tensor  # (C, n) logits of the hull's center
    own: Tensor  # (C, n) logits by which the head of a row's source differs from the center
    y: Tensor  # (n,)
    domain: Tensor  # (n,)
    log_weight: Tensor  # (n,) logarithms of weights that sum to one
    sources: Tensor  # (K, m) the source heads in the hull's coordinates

    def take(self, rows: Tensor) -> TiltedRows:
        """Return some of the rows."""
        return replace(
            self,
            tilt=self.tilt[..., rows],
            center=self.center[:, rows],
            own=self.own[:, rows],
            y=self.y[rows],
            domain=self.domain[rows],
            log_weight=self.log_weight[rows],
        )

    def weights(self, z: Tensor) -> Tensor:
        """Return the weight (n,) of each row for the target at ``z``; the weights sum to one."""
        return self.weigh(torch.tensordot(z, self.tilt, dims=1))[0]

    def own_losses(self, z: Tensor) -> Tensor:
        """Return the cross-entropy (n,) of each row under the head of the target at ``z`` (m,)."""
        logits = self.center + torch.tensordot(z, self.tilt, dims=1)
        return -_entry_of_label(torch.log_softmax(logits, dim=0), self.y)

    def source_losses(self) -> Tensor:
        """Return the cross-entropy (n,) of each row under the head of its own source."""
        return -_entry_of_label(torch.log_softmax(self.center + self.own, dim=0), self.y)

    def source_weights(self, source: int) -> Tensor:
        """Return the weight (n,) of each row in a source as it is; the weights sum to one."""
        weight = self.log_weight.exp() * (self.domain == source)
        return weight / weight.sum()

    def weigh(self, tilt: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights (n,) of a target with logits (C, n), and shares (C, n) of the classes.

        A weight's logarithm changes with the logit of the label, less the mean of the logits under
        the shares.
        """
        log_share = torch.log_softmax(tilt - self.own, dim=0)
        # Relative to the largest, so that a far target's weights do not all underflow.
        weight = torch.softmax(self.log_weight + _entry_of_label(log_share, self.y), dim=0)
        return weight, log_share.exp_()


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


def check_objective(objective: str) -> None:
    """Raise ``ValueError`` unless ``objective`` is "risk" or "regret"."""
    if objective not in ("risk", "regret"):
        raise ValueError(f'objective is {objective!r}: pass "risk" or "regret".')


def check_rank(rank: int | None, n_classes: int) -> None:
    """Raise ``ValueError`` unless ``rank`` is None or a possible transplant dimension."""
    if rank is not None and not 1 <= rank <= n_classes - 1:
        raise ValueError(
            f"rank is {rank}, but heads of {n_classes} classes differ in at most {n_classes - 1} "
            f"direction(s): pass None or a rank from 1 to {n_classes - 1}."
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
        _, vectors = torch.linalg.eigh(torch.einsum("san,sbn->ab", logits, logits))
        kept = vectors[:, -rank:] @ vectors[:, -rank:].T
        projection, logits = kept @ projection, kept @ logits
    stacked = logits.reshape(n_sources, -1)
    squares, vectors = torch.linalg.eigh(stacked @ stacked.T)
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
        own[:, rows] = _tilt(head, Z[rows]) - center[:, rows]
    return TiltedRows(
        tilt=_tilt(hull.directions, Z),
        center=center,
        own=own,
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
        own=moves[domain, :, torch.arange(len(domain), device=domain.device)].T.contiguous(),
        y=sources.y,
        domain=domain,
        log_weight=sources.weight.log(),
        sources=hull.sources,
    )


def attack(
    rows: TiltedRows,
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

    z, value = maximize_in_ball(value_and_gradient, loss.new_zeros(len(rows.tilt)), radius, known)
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
    rows: TiltedRows, losses: Tensor, radius: float, errors: float = 0.0
) -> Tensor:
    """Find the worst target of the ball if the rows keep their weights and only labels change.

    ``losses`` (C, n) are those of a row with each label. Return the probabilities (C, n) of the
    labels under the target's head. Real labels would need weights without a bound, and means under
    such weights stray too far from the truth.
    """
    weight = torch.softmax(rows.log_weight, dim=0)

    def labels(z: Tensor) -> Tensor:
        return torch.softmax(rows.center + torch.tensordot(z, rows.tilt, dims=1), dim=0)

    def value_and_gradient(z: Tensor) -> tuple[float, Tensor]:
        p = labels(z)
        loss = (p * losses).sum(dim=0)
        value, scale = weight @ loss, weight
        if errors:
            influence = weight * (loss - value)
            error = influence.square().sum().sqrt().clamp_min(_SMALLEST_ERROR)
            value = value + errors * error
            scale = weight + errors * weight * (influence - weight @ influence) / error
        return float(value), rows.tilt.flatten(1) @ (scale * p * (losses - loss)).flatten()

    origin = weight.new_zeros(len(rows.tilt))
    return labels(maximize_in_ball(value_and_gradient, origin, radius)[0])


def standard_error(weight: Tensor, loss: Tensor) -> float:
    """Return the standard error of the mean of ``loss`` (n,) under weights that sum to one."""
    return float((weight * (loss - weight @ loss)).square().sum().sqrt())


def _value_and_gradient(
    rows: TiltedRows, loss: Tensor, z: Tensor, objective: Objective, errors: float
) -> tuple[float, Tensor]:
    """Return the risk (or regret) of the surrogate at ``z``, and its gradient in ``z``."""
    tilt = torch.tensordot(z, rows.tilt, dims=1)  # (C, n)
    weight, share = rows.weigh(tilt)
    if objective == "regret":
        log_p = torch.log_softmax(rows.center + tilt, dim=0)
        loss = loss + _entry_of_label(log_p, rows.y)
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
    gradient = _tilt_gradient(rows, share, scale)
    if objective == "regret":
        gradient = gradient + _tilt_gradient(rows, log_p.exp_(), slope)
    return float(value), gradient


def _entry_of_label(values: Tensor, y: Tensor) -> Tensor:
    """Return the entry (n,) of ``values`` (C, n) for the label of each row."""
    return values.gather(0, y.unsqueeze(0)).squeeze(0)


def _tilt_gradient(rows: TiltedRows, share: Tensor, scale: Tensor) -> Tensor:
    """Return the sum (m,) over rows of ``scale · (tilt of the label - mean tilt under share)``."""
    coefficient = -share * scale
    coefficient.scatter_add_(0, rows.y.unsqueeze(0), scale.unsqueeze(0))
    return rows.tilt.flatten(1) @ coefficient.flatten()
