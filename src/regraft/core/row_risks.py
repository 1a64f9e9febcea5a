"""Weighted risks of rows that are never seen together, as sums that Newton's method asks for.

Rows stay in the features' own coordinates, less their mean. Only heads and sums are turned into
whitened coordinates and back, where the ridges live, so a pass costs no whitening.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from regraft.core.group_models import GroupModels
from regraft.core.newton import (
    RisksAtHead,
    assemble_hessian,
    curvature_product,
    hessian_diagonal,
    log_probabilities,
    losses,
    pair_grams,
    weighted_gradients,
)
from regraft.core.row_sums import RowChunk, RowSums, Sums
from regraft.core.whitening import Whitening


@dataclass(frozen=True)
class RowFrame:
    """Coordinates of the rows: features less a mean, with a constant 1, and how to whiten them."""

    mean: Tensor  # (d,)
    whiten: Tensor  # (d + 1, k)

    @classmethod
    def of(cls, whitening: Whitening) -> RowFrame:
        """Return the frame whose rows ``whitening`` whitens."""
        directions = whitening.basis / whitening.scale
        whiten = directions.new_zeros((directions.shape[0] + 1, directions.shape[1] + 1))
        whiten[:-1, :-1] = directions
        whiten[-1, -1] = 1.0
        return cls(whitening.mean, whiten)

    def rows(self, chunk: RowChunk) -> Tensor:
        """Return the rows (b, d + 1) of a chunk."""
        rows = chunk.X.new_ones((len(chunk.X), len(self.mean) + 1))
        torch.sub(chunk.X, self.mean, out=rows[:, :-1])
        return rows

    def spread(self, heads: Tensor) -> Tensor:
        """Return heads (..., k) on whitened rows as heads (..., d + 1) on these rows."""
        return heads @ self.whiten.T

    def gather(self, sums: Tensor) -> Tensor:
        """Return sums (..., d + 1) over these rows as sums (..., k) over whitened rows."""
        return sums @ self.whiten


@dataclass(frozen=True)
class RowBeliefs:
    """How likely each row is in each group, by models that have not seen the row."""

    maps: Tensor  # (F, C, G - 1, d + 1) log-odds of each group against the first, on [x, 1]
    tells: Tensor  # (C,) whether a class tells the groups apart

    @classmethod
    def of(cls, models: GroupModels | None, tells: Tensor, n_features: int) -> RowBeliefs:
        """Return the beliefs of ``models``; None is one group."""
        if models is None:
            maps = torch.zeros((1, len(tells), 0, n_features + 1), dtype=torch.float64)
            return cls(maps, tells)
        logits = models.maps_by_fold
        return cls(logits[:, :, 1:] - logits[:, :, :1], tells)

    @property
    def n_groups(self) -> int:
        """Number G of groups."""
        return self.maps.shape[2] + 1

    def __call__(self, chunk: RowChunk) -> Tensor:
        """Return P(u | x, y) (b, G) of a chunk."""
        logits = chunk.X.new_zeros((len(chunk.y), self.n_groups))
        if self.n_groups > 1:
            # All models on all rows: cheaper than to gather each row's own, if they are few.
            every = chunk.X @ self.maps[..., :-1].flatten(0, 2).T + self.maps[..., -1].flatten()
            own = chunk.group_fold * self.maps.shape[1] + chunk.y
            every = every.reshape(len(own), -1, self.n_groups - 1)
            logits[:, 1:] = every[torch.arange(len(own)), own]
        return torch.softmax(logits, dim=1)


@dataclass(frozen=True)
class RowWeights:
    """Weights of the rows in t targets: mixtures of groups, then maybe each source alone."""

    beliefs: RowBeliefs
    base: Tensor  # (K,) weight of a row of each source in the pooled rows
    tilts: Tensor  # (t, G) factors of the groups in each target
    without: int | None = None  # fold of the rows to leave out
    sources: Tensor | None = None  # (K,) weight of a row in its source alone; None for no sources

    def __call__(self, chunk: RowChunk) -> Tensor:
        """Return the weights (t, b) of a chunk."""
        weights = self.base[chunk.source] * (self.beliefs(chunk) @ self.tilts.T).T
        if self.sources is not None:
            number = torch.arange(len(self.base)).unsqueeze(1)
            alone = self.sources[chunk.source] * (chunk.source == number)
            weights = torch.cat([weights, alone])
        return weights if self.without is None else weights * (chunk.head_fold != self.without)

    def tilted(self, tilts: Tensor, without: int | None = None) -> RowWeights:
        """Return the weights of other mixtures, without the sources."""
        return replace(self, tilts=tilts, without=without, sources=None)


@dataclass(frozen=True)
class RowRisks:
    """Risks of ``n_targets`` targets over the rows, for :func:`minimize_largest_risk`."""

    rows: RowSums
    frame: RowFrame
    weights: RowWeights
    n_targets: int

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of targets."""
        return self.rows.n_rows, self.n_targets

    def at(self, head: Tensor) -> RisksAtHead:
        """Return the sums over the rows at ``head`` (C, k)."""
        return _RowsAtHead(self, head)


class _RowsAtHead:
    """Sums at one head: the risks and the gradients in one pass, the curvature in another."""

    def __init__(self, where: RowRisks, head: Tensor) -> None:
        self._where, self._head = where, where.frame.spread(head)

    @cached_property
    def _first(self) -> Sums:
        return self._sum(risk_sums)

    def _sum(self, function: Callable[..., Sums], *arguments: Tensor) -> Sums:
        where = self._where
        return where.rows.sum(function, where.frame, self._head, where.weights, *arguments)

    @property
    def risks(self) -> Tensor:
        return self._first[0]

    def gradients(self) -> Tensor:
        return self._where.frame.gather(self._first[1])

    def hessian(self, mixture: Tensor) -> Tensor:
        whiten = self._where.frame.whiten
        [grams] = self._sum(gram_sums, mixture)
        return assemble_hessian(whiten.T @ grams @ whiten, len(self._head))

    def curvature(self, mixture: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        frame = self._where.frame

        def product(v: Tensor) -> Tensor:
            return frame.gather(self._sum(product_sums, mixture, frame.spread(v))[0])

        return self._sum(diagonal_sums, mixture)[0], product


def risk_sums(chunk: RowChunk, frame: RowFrame, head: Tensor, weights: RowWeights) -> Sums:
    """Return the risks (t,) of a head (C, d + 1) and their gradients (t, C, d + 1)."""
    Z, w = frame.rows(chunk), weights(chunk)
    log_p = log_probabilities(Z, head)
    risks = w @ losses(log_p, chunk.y)
    residual = log_p.exp_()
    residual.scatter_add_(1, chunk.y.unsqueeze(1), torch.full_like(residual[:, :1], -1.0))
    return risks, weighted_gradients(Z, residual, w)


def gram_sums(
    chunk: RowChunk, frame: RowFrame, head: Tensor, weights: RowWeights, mixture: Tensor
) -> Sums:
    """Return the parts of the Hessian of the mixed risk; see :func:`pair_grams`."""
    Z = frame.rows(chunk)
    p = log_probabilities(Z, head).exp_()
    return (pair_grams(Z, p, mixture @ weights(chunk)),)


def diagonal_sums(
    chunk: RowChunk, frame: RowFrame, head: Tensor, weights: RowWeights, mixture: Tensor
) -> Sums:
    """Return the diagonal (C, k) of the Hessian on whitened rows."""
    Z = frame.rows(chunk)
    p = log_probabilities(Z, head).exp_()
    return (hessian_diagonal(Z @ frame.whiten, p, mixture @ weights(chunk)),)


def product_sums(
    chunk: RowChunk,
    frame: RowFrame,
    head: Tensor,
    weights: RowWeights,
    mixture: Tensor,
    v: Tensor,
) -> Sums:
    """Return the product of the Hessian with ``v`` (b, C, d + 1)."""
    Z = frame.rows(chunk)
    p = log_probabilities(Z, head).exp_()
    return (curvature_product(Z, p, p * (mixture @ weights(chunk)).unsqueeze(1), v),)
