"""Some of very many classes, whose rows are enough to choose a ridge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from regraft.core.crossfit import CrossFit
from regraft.core.ridge_path import FOLDS, RidgePath

if TYPE_CHECKING:
    from regraft.core.heads import Regularization
    from regraft.core.whitening import Whitening

MANY_CLASSES = 100  # of more than these, some choose
_SOME_CLASSES = 32
_TOLERANCE = 1e-4  # nats, of heads that judge rows left out


class FoldedRows(NamedTuple):
    """Whitened rows, sorted by source, and which fold holds each of them out."""

    Z: Tensor  # (n, k)
    y: Tensor  # (n,)
    weight: Tensor  # (n,) sums to one
    slices: tuple[slice, ...]  # the rows of each source
    fold: Tensor  # (n,)
    whitening: Whitening
    n_classes: int


@dataclass(frozen=True)
class SomeClasses:
    """Rows of some classes. A class has a smaller ``share`` of all rows than of these."""

    classes: Tensor  # (c,) in rising order
    rows: Tensor  # (n,) whether a row is in one of them
    y: Tensor  # (m,) the place of each such row's class among them
    share: float  # of these classes in all, by which a ridge for all is smaller


def take_classes(y: Tensor, n_classes: int) -> SomeClasses:
    """Take classes of all sizes, evenly, given the class indices ``y`` (n,)."""
    by_size = torch.bincount(y, minlength=n_classes).argsort(stable=True)
    places = torch.linspace(0, n_classes - 1, _SOME_CLASSES, device=y.device).round().long()
    classes = by_size[places].sort().values
    rows = torch.isin(y, classes)
    return SomeClasses(
        classes, rows, torch.searchsorted(classes, y[rows]), len(classes) / n_classes
    )


def cross_validate_some(
    folded: FoldedRows, choose: Callable[[FoldedRows], tuple[Regularization, CrossFit]]
) -> tuple[Regularization, CrossFit]:
    """Choose the regularization on the rows of some classes, and fit the heads of all with it.

    ``choose`` does so for few classes.
    """
    Z, y, weight, slices, fold, whitening, n_classes = folded
    some = take_classes(y, n_classes)
    kept = some.rows
    sizes = [size for rows in slices if (size := int(kept[rows].sum()))]
    ends = torch.tensor([0, *sizes]).cumsum(0).tolist()
    parts = tuple(slice(*pair) for pair in pairwise(ends))
    mass = weight[kept] / weight[kept].sum()
    few = len(some.classes)
    choice, _ = choose(FoldedRows(Z[kept], some.y, mass, parts, fold[kept], whitening, few))
    penalty = whitening.penalty(choice.shrinkage).unsqueeze(0)
    zero = weight.new_zeros((FOLDS, 1, n_classes, Z.shape[1]))
    pooled = RidgePath(Z, y, weight, fold, penalty, zero, _TOLERANCE)
    pooled.advance(some.share * choice.pooled_ridge)
    heads = pooled.heads.repeat(1, len(slices), 1, 1)
    likelihood = 0.0
    for s, rows in enumerate(slices):
        own, label = torch.unique(y[rows], return_inverse=True)
        mass, anchors = weight[rows] / weight[rows].sum(), pooled.heads[:, :, own]
        path = RidgePath(Z[rows], label, mass, fold[rows], penalty, anchors, _TOLERANCE)
        path.advance(some.share * choice.source_ridge)
        heads[:, s, own] = path.heads[:, 0]
        likelihood += float(path.likelihood) / len(slices)
    found = replace(
        choice,
        pooled_ridge=some.share * choice.pooled_ridge,
        source_ridge=some.share * choice.source_ridge,
        log_likelihood=likelihood,
    )
    return found, CrossFit(fold, pooled.heads[:, 0], heads)
