"""Linear softmax heads: pooled, per source, and the choice of their ridge and whitening.

Noise in the difference of two source heads is what extrapolation amplifies, so the whitening
shrinkage and the ridges are chosen by cross-validated log-likelihood on the sources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from regraft.domains import Domains
from regraft.lbfgs import minimize_batch
from regraft.newton import hessian, log_probabilities, minimax_newton
from regraft.whitening import CHUNK_ROWS, Whitening, fit_whitening

SHRINKAGES = (1e-3, 1e-2, 1e-1, 1.0)
POOLED_RIDGES = (1e-4, 1e-3, 1e-2, 1e-1)
SOURCE_RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_FOLDS = 3
# Cross-validated fits stop when their excess risk is estimated to be below this many nats.
_CV_TOLERANCE = 1e-6
# Curvature matrices up to this many entries precondition the cross-validated fits.
_DENSE_CURVATURE = 1_000_000
_FIT_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Regularization:
    """What cross-validation chose."""

    shrinkage: float  # of the whitening
    pooled_ridge: float
    source_ridge: float  # pulls each source head towards the pooled head
    log_likelihood: float  # held-out, per row (nats), of the source heads so regularized


@dataclass(frozen=True)
class SourceHeads:
    """Whitened source rows, sorted by domain, and the heads fitted on them."""

    whitening: Whitening
    Z: Tensor  # (n, k) whitened rows with a constant 1
    y: Tensor  # (n,)
    weight: Tensor  # (n,) sums to one, equal mass per domain
    slices: tuple[slice, ...]  # the rows of each domain
    order: Tensor  # (n,) row i here is row order[i] of the domains' X
    pooled: Tensor  # (C, k)
    heads: Tensor  # (K, C, k)
    regularization: Regularization


def fit_source_heads(domains: Domains) -> SourceHeads:
    """Whiten the pooled sources, choose the regularization, fit the pooled and the source heads."""
    whitening = fit_whitening(domains.X, domains.weight)
    order, fold = _sort_and_fold(domains, whitening.mean)
    y, weight, domain = domains.y[order], domains.weight[order], domains.domain[order]
    bounds = torch.searchsorted(domain, torch.arange(len(domains.names) + 1, device=y.device))
    slices = tuple(slice(int(a), int(b)) for a, b in zip(bounds, bounds[1:], strict=False))

    whitening = whitening.with_shrinkage(SHRINKAGES[-2])
    Z = whitening(domains.X, order)
    choice, pooled, heads = _cross_validate(Z, y, weight, slices, fold, whitening, len(domains.classes))
    rescale = whitening.scale / whitening.with_shrinkage(choice.shrinkage).scale
    whitening = whitening.with_shrinkage(choice.shrinkage)
    Z[:, :-1] *= rescale
    rescale = torch.cat([rescale, rescale.new_ones(1)])
    pooled = _fit(Z, y, weight, choice.pooled_ridge, pooled / rescale)
    heads = torch.stack(
        [
            _fit(Z[s], y[s], weight[s] / weight[s].sum(), choice.source_ridge, start, pooled)
            for s, start in zip(slices, heads / rescale, strict=True)
        ]
    )
    return SourceHeads(whitening, Z, y, weight, slices, order, pooled, heads, choice)


def _fit(
    Z: Tensor,
    y: Tensor,
    weight: Tensor,
    ridge: float,
    start: Tensor,
    anchor: Tensor | None = None,
    penalty: Tensor | None = None,
) -> Tensor:
    return minimax_newton(
        Z, y, weight.unsqueeze(0), ridge=ridge, start=start, anchor=anchor, penalty=penalty,
        tolerance=_FIT_TOLERANCE,
    ).head


def _sort_and_fold(domains: Domains, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Rows by domain and, within class, by distance from the mean; folds are dealt in turn.

    Folds made from the rows' content, not their order or a seed, are stratified and leave the
    fit invariant to shuffling, relabelling, rotating and rescaling.
    """
    distance = torch.empty(len(domains.y), dtype=mean.dtype, device=mean.device)
    for start in range(0, len(distance), CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        distance[rows] = (domains.X[rows].to(mean.dtype) - mean).square().sum(dim=1)
    order = torch.argsort(distance, stable=True)
    order = order[torch.argsort(domains.y[order], stable=True)]
    order = order[torch.argsort(domains.domain[order], stable=True)]
    return order, torch.arange(len(order), device=order.device) % _FOLDS


def _cross_validate(
    Z: Tensor,
    y: Tensor,
    weight: Tensor,
    slices: tuple[slice, ...],
    fold: Tensor,
    whitening: Whitening,
    n_classes: int,
) -> tuple[Regularization, Tensor, Tensor]:
    """The regularization of the most likely held-out source rows; and heads to start from."""
    penalties = torch.stack([whitening.penalty(shrinkage) for shrinkage in SHRINKAGES])
    zero = Z.new_zeros((n_classes, Z.shape[1]))
    pooled = _fit(Z, y, weight, POOLED_RIDGES[0], zero)
    grid = _Grid(penalties, POOLED_RIDGES)
    fits, likelihood = _fit_folds(Z, y, weight, fold, grid, torch.zeros_like(pooled), pooled)
    best = likelihood.argmax(dim=1)  # the pooled ridge of each shrinkage
    anchors = fits[:, torch.arange(len(SHRINKAGES)), best]  # (folds, shrinkages, C, k)

    grid = _Grid(penalties, SOURCE_RIDGES)
    total = Z.new_zeros((len(SHRINKAGES), len(SOURCE_RIDGES)))
    starts = []
    for rows in slices:
        source_weight = weight[rows] / weight[rows].sum()
        start = _fit(Z[rows], y[rows], source_weight, 1e-2, pooled, pooled)
        starts.append(start)
        total += _fit_folds(Z[rows], y[rows], source_weight, fold[rows], grid, anchors, start)[1]
    i, j = divmod(int(total.argmax()), len(SOURCE_RIDGES))
    choice = Regularization(
        shrinkage=SHRINKAGES[i],
        pooled_ridge=POOLED_RIDGES[int(best[i])],
        source_ridge=SOURCE_RIDGES[j],
        log_likelihood=float(total[i, j]) / len(slices),
    )
    return choice, pooled, torch.stack(starts)


@dataclass(frozen=True)
class _Grid:
    """Every penalty (P, k) times every ridge."""

    penalties: Tensor
    ridges: tuple[float, ...]

    @property
    def column_ridges(self) -> Tensor:
        """(P · R, k)."""
        ridges = self.penalties.new_tensor(self.ridges)
        return (ridges[None, :, None] * self.penalties[:, None, :]).flatten(0, 1)


def _fit_folds(
    Z: Tensor,
    y: Tensor,
    weight: Tensor,
    fold: Tensor,
    grid: _Grid,
    anchors: Tensor,
    start: Tensor,
) -> tuple[Tensor, Tensor]:
    """Fit a head for every fold left out and every penalty and ridge, all in one batch.

    ``anchors`` broadcasts to (folds, P, C, k). Returns heads (folds, P, R, C, k) and the mean
    held-out log-likelihood (P, R).
    """
    n_classes, k = start.shape
    shape = (_FOLDS, len(grid.penalties), len(grid.ridges), n_classes, k)
    batch = _FOLDS * shape[1] * shape[2]
    anchor = anchors.expand(_FOLDS, shape[1], n_classes, k).unsqueeze(2).expand(shape)
    anchor = anchor.reshape(batch, n_classes, k)
    column_ridge = grid.column_ridges.repeat(_FOLDS, 1).unsqueeze(1)  # (B, 1, k)
    training = torch.stack([weight * (fold != f) for f in range(_FOLDS)])
    training = training / training.sum(dim=1, keepdim=True)
    per_problem = shape[1] * shape[2]

    def value_and_gradient(flat: Tensor) -> tuple[Tensor, Tensor]:
        heads = flat.reshape(batch, n_classes, k)
        shift = heads - anchor
        value = (column_ridge * shift.square()).sum(dim=(1, 2))
        gradient = 2 * column_ridge * shift
        for rows in _chunks(len(Z), batch * n_classes):
            log_p, loss = _batched_losses(Z[rows], y[rows], heads)
            row_weight = training[:, rows].repeat_interleave(per_problem, dim=0)  # (B, c)
            value += (row_weight * loss).sum(dim=1)
            residual = log_p.exp_()  # (C, B, c)
            residual.scatter_add_(0, _labels(y[rows], batch), torch.full_like(loss, -1.0)[None])
            residual *= row_weight
            gradient += (residual.reshape(n_classes * batch, -1) @ Z[rows]).reshape(
                n_classes, batch, k
            ).transpose(0, 1)
        return value, gradient.flatten(1)

    precondition = _preconditioner(Z, weight, start, grid.column_ridges)
    flat = minimize_batch(
        value_and_gradient,
        start.expand(batch, n_classes, k).flatten(1),
        precondition,
        tolerance=_CV_TOLERANCE,
    )
    heads = flat.reshape(batch, n_classes, k)
    held_out = Z.new_zeros(batch)
    for rows in _chunks(len(Z), batch * n_classes):
        _, loss = _batched_losses(Z[rows], y[rows], heads)
        outside = torch.stack([weight[rows] * (fold[rows] == f) for f in range(_FOLDS)])
        held_out -= (outside.repeat_interleave(per_problem, dim=0) * loss).sum(dim=1)
    return heads.reshape(shape), held_out.reshape(shape[:3]).sum(dim=0)


def _chunks(n: int, columns: int) -> list[slice]:
    """Row slices small enough for a (rows x columns) temporary to stay in cache."""
    size = max(256, min(CHUNK_ROWS, 400_000 // columns))
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]


def _labels(y: Tensor, batch: int) -> Tensor:
    return y.expand(1, batch, len(y))


def _batched_losses(Z: Tensor, y: Tensor, heads: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities (C, B, n) and cross-entropies (B, n) of B heads (B, C, k)."""
    batch, n_classes, k = heads.shape
    logits = (heads.transpose(0, 1).reshape(-1, k) @ Z.T).reshape(n_classes, batch, len(Z))
    log_p = torch.log_softmax(logits, dim=0)
    return log_p, -log_p.gather(0, _labels(y, batch)).squeeze(0)


def _preconditioner(
    Z: Tensor, weight: Tensor, head: Tensor, column_ridges: Tensor
) -> Callable[[Tensor], Tensor]:
    """Inverse curvature at ``head`` for each of G column ridges, applied to (folds · G, C · k)."""
    p = log_probabilities(Z, head).exp()
    n_classes, k = head.shape
    ridge = 2 * column_ridges.repeat(1, n_classes)  # (G, C·k)
    if len(ridge) * (n_classes * k) ** 2 <= _DENSE_CURVATURE * len(ridge) and n_classes * k <= 1000:
        factor = torch.linalg.cholesky(hessian(Z, p, weight) + torch.diag_embed(ridge))

        def dense(gradient: Tensor) -> Tensor:
            rhs = gradient.reshape(_FOLDS, len(ridge), -1).permute(1, 2, 0)
            return torch.cholesky_solve(rhs, factor).permute(2, 0, 1).reshape(gradient.shape)

        return dense
    diagonal = (weight @ (p * (1 - p))).repeat_interleave(k) + ridge
    return lambda gradient: gradient / diagonal.repeat(_FOLDS, 1)
