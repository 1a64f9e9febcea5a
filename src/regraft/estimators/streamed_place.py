"""Where a new domain lies among the mixtures of a model, from rows that are never in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.core.closure_test import MAX_ROWS
from regraft.core.group_shares import TINY, chances, estimate_shares, expected_accuracy, log_ratios
from regraft.core.row_sums import RowChunk, RowSums, Sums
from regraft.estimators.cro import CROClassifier
from regraft.estimators.linear_maps import apply_maps
from regraft.estimators.placing import (
    Located,
    Placement,
    check_enough,
    check_new,
    closure_of,
    describe_place,
    find_rows,
    joint_of_chunk,
    predicted_classes,
    reference_of,
    warn_of_known,
)


def compared_step(n_rows: int) -> int:
    """Return the step between the rows that are compared with the sources one by one."""
    return -(-n_rows // MAX_ROWS)


def place_rows(
    model: CROClassifier, rows: RowSums, compared: NDArray[np.floating[Any]]
) -> Placement:
    """Place all ``rows`` as ``place`` does; every :func:`compared_step`-th of them is in memory.

    All rows decide the shares and the expected accuracy. The closure test compares the rows (m, d)
    that are in memory, which are those that it takes of a table in memory.
    """
    reference = reference_of(model)
    check_enough(rows.n_rows)
    [counts] = rows.sum(known_sums, reference.X)
    known = counts.numpy() > 0
    check_new(model, reference, known)
    warn_of_known(reference, known, rows.n_rows)
    maps = torch.from_numpy(model.group_heads_)
    likelihood = RowLikelihood(rows.map(row_ratios, maps, reference.shares))
    region = estimate_shares(likelihood, 0, reference)
    head = torch.from_numpy(model._head)
    sums = rows.sum(chance_sums, maps, head, region.shares, reference.shares)
    mean, square = (torch.cat(sums) / rows.n_rows).tolist()
    moments = mean, max(square - mean * mean, 0.0)
    predicted = predicted_classes(model, reference.X.numpy())
    accuracy = expected_accuracy(region, moments, reference, predicted)
    closure = closure_of(reference, compared, region)
    numbers = closure.rows * compared_step(rows.n_rows)
    located = Located(region, replace(closure, rows=numbers), *accuracy)
    return describe_place(model, located, rows.n_rows)


class RowLikelihood:
    """Mean log-likelihood of shares on rows of relative densities, see :func:`row_ratios`."""

    def __init__(self, rows: RowSums) -> None:
        self._rows = rows
        self._last: tuple[bytes, float, NDArray[np.float64]] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._rows.n_rows

    def _at(self, shares: NDArray[np.float64]) -> tuple[bytes, float, NDArray[np.float64]]:
        """Return value and slope, which come from one pass over the rows."""
        key = shares.tobytes()
        if self._last is None or self._last[0] != key:
            value, slope = self._rows.sum(likelihood_sums, torch.from_numpy(shares.copy()))
            n = self.n_rows
            self._last = key, float(value) / n, (slope / n).numpy()
        return self._last

    def value(self, shares: NDArray[np.float64]) -> float:
        """Return the mean log-likelihood."""
        return self._at(shares)[1]

    def slope(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return its derivatives (G,)."""
        return self._at(shares)[2]


def row_ratios(chunk: RowChunk, maps: Tensor, shares: Tensor) -> Tensor:
    """Return the densities (b, G) of rows in each group over the largest, then its logarithm."""
    ratio = log_ratios(joint_of_chunk(maps.numpy(), chunk.X), shares)
    top = ratio.amax(dim=1, keepdim=True)
    return torch.cat([(ratio - top).exp(), top], dim=1)


def likelihood_sums(chunk: RowChunk, shares: Tensor) -> Sums:
    """Return the log-likelihood of shares (G,), and its slope (G,)."""
    ratio = chunk.X[:, :-1]
    density = ratio @ shares + TINY
    return density.log().sum() + chunk.X[:, -1].sum(), (1 / density) @ ratio


def known_sums(chunk: RowChunk, sources: Tensor) -> Sums:
    """Return how many chunks hold each of the source rows (m, d)."""
    return (torch.from_numpy(find_rows(sources.numpy(), chunk.X.numpy())).double(),)


def chance_sums(
    chunk: RowChunk, maps: Tensor, head: Tensor, target: Tensor, shares: Tensor
) -> Sums:
    """Return the chances that predictions are right, and their squares, each summed (1,)."""
    predicted = apply_maps(head.numpy(), chunk.X.double()).argmax(dim=1)
    chance = chances(joint_of_chunk(maps.numpy(), chunk.X), predicted, target, shares)
    return chance.sum().reshape(1), chance.square().sum().reshape(1)
