"""Heads that are given the hidden factor: what a head could do that finds the groups by itself.

Their ridge is chosen on held-out source rows by the worst risk over the groups.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from regraft.core.domains import check_domains, index_column
from regraft.core.heads import SOURCE_RIDGES, SourceHeads, fit_source_heads
from regraft.core.newton import minimax_newton
from regraft.estimators.baselines import group_weights
from regraft.estimators.linear import LinearHead


class GivenHead(LinearHead):
    """A head (C, k) on whitened rows that was solved elsewhere."""

    def __init__(self, head: Tensor | None = None) -> None:
        self.head = head

    def solve(self, sources: SourceHeads) -> Tensor:
        """Return the given head."""
        assert self.head is not None
        return self.head


def told_group_dro(
    X: ArrayLike, y: ArrayLike, factor: ArrayLike, sample_domain: ArrayLike
) -> LinearHead:
    """Fit GroupDRO: the smallest worst risk over the groups of factor and class."""
    return _fit_told(X, y, factor, sample_domain, lambda weights: weights)


def told_balanced(
    X: ArrayLike, y: ArrayLike, factor: ArrayLike, sample_domain: ArrayLike
) -> LinearHead:
    """Fit ERM with the same mass in each group of factor and class: the two are independent."""
    return _fit_told(X, y, factor, sample_domain, lambda weights: weights.mean(dim=0, keepdim=True))


def _fit_told(
    X: ArrayLike,
    y: ArrayLike,
    factor: ArrayLike,
    sample_domain: ArrayLike,
    objective: Callable[[Tensor], Tensor],
) -> LinearHead:
    """Fit the smallest worst risk over what ``objective`` makes of the groups' weights (G, n)."""
    domains = check_domains(X, y, sample_domain)
    sources = fit_source_heads(domains)
    _, value = index_column(factor, "factor", len(domains.y))
    group = torch.from_numpy(value)[sources.order] * len(domains.classes) + sources.y

    def solve(rows: Tensor, ridge: float) -> Tensor:
        targets = objective(group_weights(sources.weight * rows, group))
        column_ridge = sources.learner_ridge(ridge)
        return minimax_newton(
            sources.Z, sources.y, targets, ridge=column_ridge, start=sources.pooled
        ).head

    def held_out_worst(ridge: float) -> float:
        loss = sources.held_out_losses(lambda rows: solve(rows, ridge))
        return float((group_weights(sources.weight, group) @ loss).max())

    ridge = min(SOURCE_RIDGES, key=held_out_worst)
    head = solve(torch.ones_like(sources.weight), ridge)
    return GivenHead(head).fit_sources(domains, sources)
