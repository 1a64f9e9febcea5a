"""Weighted risks of rows that are never seen together, as sums that Newton's method asks for.

Rows stay in the features' own coordinates, less their mean. Only heads and sums are turned into
whitened coordinates and back, where the ridges live, so a pass costs no whitening. Risks and
gradients are those of all rows. Curvature, which only says where to step, is that of a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regraft.core.group_models import GroupModels
from regraft.core.newton import RisksAtHead, risks_in_memory
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
        rows = self.mean.new_ones((len(chunk.X), len(self.mean) + 1))
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

    maps: Tensor  # (F, C, G - 1, d + 1) log-odds of each group against the first, on rows
    tells: Tensor  # (C,) whether a class tells the groups apart

    @classmethod
    def of(cls, models: GroupModels | None, tells: Tensor, frame: RowFrame) -> RowBeliefs:
        """Return the beliefs of ``models``, on rows of ``frame``; None is one group."""
        if models is None:
            maps = torch.zeros((1, len(tells), 0, len(frame.mean) + 1), dtype=torch.float64)
            return cls(maps, tells)
        logits = models.maps_by_fold
        maps = logits[:, :, 1:] - logits[:, :, :1]  # on [x, 1]
        level = maps[..., -1:] + (maps[..., :-1] @ frame.mean).unsqueeze(-1)
        return cls(torch.cat([maps[..., :-1], level], dim=-1), tells)

    @property
    def n_groups(self) -> int:
        """Number G of groups."""
        return self.maps.shape[2] + 1

    def __call__(self, chunk: RowChunk, Z: Tensor) -> Tensor:
        """Return P(u | x, y) (G, b) of a chunk whose rows are ``Z`` (b, d + 1)."""
        logits = Z.new_zeros((self.n_groups, len(Z)))
        if self.n_groups > 1:
            # All models on all rows: cheaper than to gather each row's own, if they are few.
            every = (self.maps.flatten(0, 2) @ Z.T).reshape(-1, self.n_groups - 1, len(Z))
            own = chunk.group_fold * self.maps.shape[1] + chunk.y
            logits[1:] = every.gather(0, own.expand(1, self.n_groups - 1, -1)).squeeze(0)
        return torch.softmax(logits, dim=0)


@dataclass(frozen=True)
class RowWeights:
    """Weights of the rows in t targets, which are mixtures of groups."""

    beliefs: RowBeliefs
    base: Tensor  # (K,) weight of a row of each source in the pooled rows
    tilts: Tensor  # (t, G) factors of the groups in each target

    def __call__(self, chunk: RowChunk, Z: Tensor) -> Tensor:
        """Return the weights (t, b) of a chunk whose rows are ``Z`` (b, d + 1)."""
        return self.base[chunk.source] * (self.tilts @ self.beliefs(chunk, Z))

    def by_source(self, chunk: RowChunk, values: Tensor) -> Tensor:
        """Return the sums (K, m) of values (m, b) in each source alone, as its rows weigh there."""
        scaled = (values * (len(self.base) * self.base)[chunk.source]).T
        return values.new_zeros((len(self.base), len(values))).index_add_(0, chunk.source, scaled)


def relative(heads: Tensor) -> Tensor:
    """Return heads (..., C - 1, k) whose logits are those of ``heads`` less the first class's."""
    return heads[..., 1:, :] - heads[..., :1, :]


def judge_logits(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return losses (H, b) and probabilities (H, C - 1, b) of all classes but the first.

    ``logits`` (H, C - 1, b) are relative to the first class.
    """
    top = logits.amax(dim=1, keepdim=True).clamp_min_(0)
    p = torch.exp_(logits - top)
    total = p.sum(dim=1, keepdim=True).add_(torch.exp(-top))
    own = logits.gather(1, _place(y, len(logits))) * (y > 0)
    return (top + total.log() - own).squeeze(1), p.div_(total)


def _place(y: Tensor, n_heads: int) -> Tensor:
    """Return where (H, 1, b) the class of each row stands among all but the first."""
    return (y - 1).clamp_min_(0).expand(n_heads, 1, -1)


@dataclass(frozen=True)
class Problem:
    """Which weighted risks a search minimizes the largest of."""

    tilts: Tensor  # (t, G) factors of the groups in each target
    without: int = -1  # fold of the rows to leave out; -1 for none


@dataclass(frozen=True)
class HeadBatch:
    """Heads of problems that have the same number of targets."""

    heads: Tensor  # (H, C - 1, d + 1) relative to the first class
    tilts: Tensor  # (H, t, G)
    without: Tensor  # (H, 1, 1)


def risk_sums(
    chunk: RowChunk, frame: RowFrame, weights: RowWeights, batches: tuple[HeadBatch, ...]
) -> Sums:
    """Return risks (H, t) and gradients (H, t, C - 1, d + 1), of one batch after the other."""
    Z = frame.rows(chunk)
    belief, base = weights.beliefs(chunk, Z), weights.base[chunk.source]
    minus = (chunk.y > 0).to(Z).neg_()
    found = list[Tensor]()
    for batch in batches:
        H, others, k = batch.heads.shape
        logits = (batch.heads.reshape(-1, k) @ Z.T).reshape(H, others, -1)
        loss, residual = judge_logits(logits, chunk.y)
        residual.scatter_add_(1, _place(chunk.y, H), minus.expand(H, 1, -1))
        w = base * (chunk.head_fold != batch.without) * (batch.tilts @ belief)  # (H, t, b)
        scaled = w.unsqueeze(2) * residual.unsqueeze(1)
        gradients = scaled.reshape(-1, len(Z)) @ Z
        found += (w @ loss.unsqueeze(2)).squeeze(2), gradients.reshape(*scaled.shape[:3], k)
    return tuple(found)


@dataclass(frozen=True)
class CurvatureSample:
    """Rows in memory whose curvature stands for that of all rows."""

    Z: Tensor  # (m, k) whitened
    y: Tensor  # (m,)
    belief: Tensor  # (m, G)
    base: Tensor  # (m,) weights in the pooled rows
    fold: Tensor  # (m,)

    def at(self, head: Tensor, problem: Problem) -> RisksAtHead:
        """Return the sums over these rows at ``head`` (C, k)."""
        weights = (problem.tilts @ self.belief.T) * self.base * (self.fold != problem.without)
        weights = weights / weights.sum(dim=1, keepdim=True)
        return risks_in_memory(self.Z, self.y, weights, head, ridge=0.0).at(head)


@dataclass(frozen=True)
class RowRisks:
    """Risks over all rows, at several heads in one pass."""

    rows: RowSums
    frame: RowFrame
    weights: RowWeights
    sample: CurvatureSample

    def at(self, heads: Mapping[int, Tensor], problems: Sequence[Problem]) -> dict[int, RowsAtHead]:
        """Return the sums at heads (C, k) of some of the problems, by number."""
        sizes = sorted({len(problems[i].tilts) for i in heads})
        groups = [[i for i in heads if len(problems[i].tilts) == size] for size in sizes]
        batches = tuple(
            HeadBatch(
                relative(self.frame.spread(torch.stack([heads[i] for i in group]))),
                torch.stack([problems[i].tilts for i in group]),
                torch.tensor([problems[i].without for i in group]).reshape(-1, 1, 1),
            )
            for group in groups
        )
        sums = iter(self.rows.sum(risk_sums, self.frame, self.weights, batches))
        found = dict[int, RowsAtHead]()
        for group in groups:
            risks, gradients = next(sums), self.frame.gather(next(sums))
            gradients = torch.cat([-gradients.sum(dim=2, keepdim=True), gradients], dim=2)
            for i, risk, gradient in zip(group, risks, gradients, strict=True):
                found[i] = RowsAtHead(risk, gradient, heads[i], problems[i], self.sample)
        return found


@dataclass(frozen=True)
class RowsAtHead:
    """Risks and gradients of all rows at one head, and the curvature of a sample there."""

    risks: Tensor  # (t,)
    _gradients: Tensor  # (t, C, k)
    head: Tensor  # (C, k)
    problem: Problem
    sample: CurvatureSample

    def gradients(self) -> Tensor:
        """Return the gradients (t, C, k) of the risks."""
        return self._gradients

    def hessian(self, mixture: Tensor) -> Tensor:
        """Return the Hessian (C·k, C·k) of the risks mixed by ``mixture`` (t,)."""
        return self.sample.at(self.head, self.problem).hessian(mixture)

    def curvature(self, mixture: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return the diagonal (C, k) of that Hessian, and its product with (b, C, k)."""
        return self.sample.at(self.head, self.problem).curvature(mixture)

    def of(self, targets: Sequence[int]) -> RowsAtHead:
        """Return the same for some of the targets."""
        chosen = list(targets)
        problem = replace(self.problem, tilts=self.problem.tilts[chosen])
        return replace(
            self, risks=self.risks[chosen], _gradients=self._gradients[chosen], problem=problem
        )
