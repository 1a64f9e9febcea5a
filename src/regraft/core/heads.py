"""Linear softmax heads, pooled and per source, and the choice of their ridge and whitening.

Extrapolation amplifies noise in the difference of two source heads, so the shrinkage of the
whitening and the ridges are chosen by cross-validated log-likelihood on the sources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regraft.core.crossfit import CrossFit
from regraft.core.domains import Domains, count_cells, domain_slices
from regraft.core.many_classes import MANY_CLASSES, FoldedRows, cross_validate_some
from regraft.core.newton import log_probabilities, losses, minimax_newton
from regraft.core.ridge_path import FOLDS, RidgePath, shorten
from regraft.core.whitening import Whitening, chunks_of, fit_whitening
from regraft.support.memory_map import released

SHRINKAGES = (1e-2, 1e-1, 1.0, 10.0)
# From the strongest down: weaker ridges are warm-started, and tried only while they help.
POOLED_RIDGES = (1e-1, 1e-2, 1e-3, 1e-4)
SOURCE_RIDGES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
_FIT_TOLERANCE = 1e-9
_ROUGH_TOLERANCE = 1e-5  # of heads of many classes
SMALLEST_RIDGE = 1e-10  # with smaller ones, curvature matrices may not factorize


@dataclass(frozen=True)
class Regularization:
    """Regularization chosen by cross-validation."""

    shrinkage: float  # of the whitening
    pooled_ridge: float
    source_ridge: float  # pulls each source head towards the pooled head
    log_likelihood: float  # held-out, per row (nats), of the source heads so regularized


@dataclass(frozen=True)
class SourceHeads:
    """Whitened source rows, sorted by domain, and the heads fitted on them."""

    whitening: Whitening
    Z: Tensor  # (n, k) whitened rows with a constant 1; float32 if very many, see Whitening
    y: Tensor  # (n,)
    weight: Tensor  # (n,) sums to one, equal mass per domain
    row_weight: Tensor  # (n,) for how many rows each row counts
    slices: tuple[slice, ...]  # the rows of each domain
    order: Tensor  # (n,) row i here is row order[i] of the domains' X
    pooled: Tensor  # (C, k)
    heads: Tensor  # (K, C, k)
    regularization: Regularization
    held_out: CrossFit  # the same heads, fitted without each fold of the rows

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of rows of each domain."""
        return tuple(rows.stop - rows.start for rows in self.slices)

    @property
    def domain(self) -> Tensor:
        """Index (n,) of each row's domain."""
        return torch.repeat_interleave(torch.tensor(self.sizes, device=self.y.device))

    @property
    def present(self) -> Tensor:
        """Whether each source (K, C) has rows of each class."""
        return count_cells(self.domain, self.y, len(self.slices), len(self.pooled)) > 0

    def optimism(self) -> Tensor:
        """Return how much (n,) the pooled head's loss on a row falls short, as it saw the row."""
        seen = losses(log_probabilities(self.Z, self.pooled), self.y)
        return self.held_out.pooled_losses(self.Z, self.y) - seen

    def held_out_losses(self, solve: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the loss (n,) of each row under a head that was fitted without its fold.

        ``solve`` maps the mask (n,) of the rows to fit on to a head (C, k).
        """
        fold = self.held_out.fold
        heads = torch.stack([solve(fold != f) for f in range(FOLDS)])
        return replace(self.held_out, pooled=heads).pooled_losses(self.Z, self.y)

    def learner_ridge(self, ridge: float | None) -> Tensor:
        """Return the column ridges (k,) of a head fitted to all rows; None takes the pooled head's.

        A number weighs the variance of the logits, which shrinks a head without turning it. The
        part of the ridge that suppresses weak directions of the features stays cross-validated.
        """
        pooled = self.regularization.pooled_ridge
        variance = self.whitening.eigenvalues / self.whitening.scale.square()
        variance = torch.cat([variance, variance.new_ones(1)])
        return (pooled if ridge is None else ridge) * variance + pooled * (1 - variance)


def fit_source_heads(domains: Domains) -> SourceHeads:
    """Whiten the pooled sources, choose the regularization, and fit the pooled and source heads.

    A source that lacks a class says nothing about it: its head is fitted to tell the classes that
    it has, and of the others it keeps what the pooled head says.
    """
    whitening = fit_whitening(domains.X, domains.weight, domains.mapping)
    order, fold = _sort_and_fold(domains, whitening.mean)
    y, weight, domain = domains.y[order], domains.weight[order], domains.domain[order]
    slices = domain_slices(domain, len(domains.names))
    whitening = whitening.with_shrinkage(SHRINKAGES[1])
    Z = whitening(domains.X, order, domains.mapping)
    rows = FoldedRows(Z, y, weight, slices, fold, whitening, len(domains.classes))
    choice, held_out = _cross_validate(rows)
    rescale = whitening.scale / whitening.with_shrinkage(choice.shrinkage).scale
    whitening = whitening.with_shrinkage(choice.shrinkage)
    Z[:, :-1] *= rescale.to(Z.dtype)
    rescale = torch.cat([rescale, rescale.new_ones(1)])
    held_out = CrossFit(fold, held_out.pooled / rescale, held_out.heads / rescale)
    pooled = _fit_head(Z, y, weight, choice.pooled_ridge, held_out.pooled.mean(dim=0))
    heads = torch.stack(
        [
            _fit_source(Z[s], y[s], weight[s] / weight[s].sum(), choice.source_ridge, start, pooled)
            for s, start in zip(slices, held_out.heads.mean(dim=0), strict=True)
        ]
    )
    row_weight = domains.row_weight[order]
    return SourceHeads(
        whitening, Z, y, weight, row_weight, slices, order, pooled, heads, choice, held_out
    )


def deal_rows(y: Tensor, domain: Tensor, parts: int) -> Tensor:
    """Deal rows (n,), sorted by domain and class, to ``parts`` in turn within each of these cells.

    Return the part (n,) of each row.
    """
    cell = domain * (int(y.max()) + 1) + y
    first = torch.searchsorted(cell, cell)  # where the row's domain and class begin
    return (torch.arange(len(cell), device=cell.device) - first) % parts


def check_ridge(ridge: float | None) -> None:
    """Raise ``ValueError`` unless ``ridge`` is None or a usable number."""
    if ridge is not None and not SMALLEST_RIDGE <= ridge < float("inf"):
        raise ValueError(
            f"ridge is {ridge}: pass a number of {SMALLEST_RIDGE:g} or more, or leave it out to "
            "cross-validate it."
        )


def _fit_head(
    Z: Tensor,
    y: Tensor,
    weight: Tensor,
    ridge: float,
    start: Tensor,
    anchor: Tensor | None = None,
) -> Tensor:
    """Return the head of the smallest weighted risk, with its ridge centred at ``anchor``."""
    is_rough = len(start) > MANY_CLASSES
    return minimax_newton(
        Z.float() if is_rough else Z,
        y,
        weight.unsqueeze(0),
        ridge=ridge,
        start=start,
        anchor=anchor,
        tolerance=_ROUGH_TOLERANCE if is_rough else _FIT_TOLERANCE,
    ).head


def _fit_source(
    Z: Tensor, y: Tensor, weight: Tensor, ridge: float, start: Tensor, pooled: Tensor
) -> Tensor:
    """Return the head (C, k) of a source, which is the pooled one in classes that it lacks.

    It is the solution of the ridge towards the pooled head, if a label is only asked for among the
    classes of the source: there the rows of the other classes do not enter.
    """
    own, label = torch.unique(y, return_inverse=True)
    head = pooled.clone()
    head[own] = _fit_head(Z, label, weight, ridge, start[own], pooled[own])
    return head


def _sort_and_fold(domains: Domains, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Sort rows by domain, class and distance from the mean, and deal them to folds in turn.

    Folds that depend on the rows' content, not on their order or a seed, are stratified and leave
    the fit invariant to shuffling, relabelling, rotating and rescaling.
    """
    distance = torch.empty(len(domains.y), dtype=mean.dtype, device=mean.device)
    for rows in released(chunks_of(domains.X), domains.mapping):
        distance[rows] = (domains.X[rows].to(mean.dtype) - mean).square().sum(dim=1)
    order = torch.argsort(distance, stable=True)
    order = order[torch.argsort(domains.y[order], stable=True)]
    order = order[torch.argsort(domains.domain[order], stable=True)]
    return order, deal_rows(domains.y[order], domains.domain[order], FOLDS)


def _cross_validate(folded: FoldedRows) -> tuple[Regularization, CrossFit]:
    """Choose the regularization under which held-out source rows are most likely; return its heads.

    For each shrinkage, take the pooled ridge of the most likely pooled heads. Then take the pair of
    shrinkage and source ridge of the most likely source heads.
    """
    if folded.n_classes > MANY_CLASSES:
        return cross_validate_some(folded._replace(Z=folded.Z.float()), _cross_validate)
    Z, y, weight, slices, fold, whitening, n_classes = folded
    Z = shorten(Z)
    penalties = torch.stack([whitening.penalty(shrinkage) for shrinkage in SHRINKAGES])
    zero = weight.new_zeros((n_classes, Z.shape[1]))
    pooled_path = RidgePath(
        Z, y, weight, fold, penalties, zero.expand(FOLDS, len(penalties), -1, -1)
    )
    pooled_ridges, anchors = _best_pooled(pooled_path)
    source_paths, classes = [], []
    for rows in slices:
        share = weight[rows] / weight[rows].sum()
        own, label = torch.unique(y[rows], return_inverse=True)
        classes.append(own)  # a source says nothing about classes that it lacks
        source_paths.append(
            RidgePath(Z[rows], label, share, fold[rows], penalties, anchors[:, :, own])
        )

    best = Regularization(0.0, 0.0, 0.0, -float("inf"))
    previous = weight.new_full((len(penalties),), -float("inf"))
    for ridge in SOURCE_RIDGES:
        for path in source_paths:
            path.advance(ridge)
        likelihood = torch.stack([path.likelihood for path in source_paths]).mean(dim=0)
        i = int(likelihood.argmax())
        if float(likelihood[i]) > best.log_likelihood:
            best = Regularization(SHRINKAGES[i], pooled_ridges[i], ridge, float(likelihood[i]))
            heads = anchors[:, i].unsqueeze(1).repeat(1, len(slices), 1, 1)
            for s, (path, own) in enumerate(zip(source_paths, classes, strict=True)):
                heads[:, s, own] = path.heads[:, i]
            held_out = CrossFit(fold, anchors[:, i], heads)
        rising = likelihood > previous  # a likelihood has one peak along the path
        if not bool(rising.any()):
            break
        for path in source_paths:
            path.keep(rising)
        previous = likelihood
    return best, held_out


def _best_pooled(path: RidgePath) -> tuple[list[float], Tensor]:
    """Return the best pooled ridge of each penalty and its heads by fold (folds, P, C, k)."""
    ridges = [POOLED_RIDGES[0]] * len(path.likelihood)
    heads = path.heads.clone()
    best = torch.full_like(path.likelihood, -float("inf"))
    for ridge in POOLED_RIDGES:
        path.advance(ridge)
        better = path.likelihood > best
        if not bool(better.any()):
            break
        best = torch.where(better, path.likelihood, best)
        heads[:, better] = path.heads[:, better]
        ridges = [ridge if b else r for r, b in zip(ridges, better.tolist(), strict=True)]
        path.keep(better)
    return ridges, heads
