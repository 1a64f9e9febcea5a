"""Tables in memory, as the sums over rows that fits and audits of large tables ask for."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regraft.core.row_sums import (
    NO_FOLDS,
    RowFolds,
    RowFunction,
    RowMap,
    RowTable,
    Sums,
    add_in_order,
)
from regraft.estimators.streamed import SampledRows


@dataclass(frozen=True)
class LocalRows:
    """Sums over the rows of one table, chunk by chunk, in this process."""

    table: RowTable
    folds: RowFolds = NO_FOLDS

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.table.y)

    def sum(self, function: RowFunction, *arguments: Any) -> Sums:
        """Apply ``function`` to each chunk of rows, and add what it returns."""
        return add_in_order(self.table.sums(self.folds, function, arguments))

    def with_folds(self, folds: RowFolds) -> Self:
        """Return the same rows, dealt to folds."""
        return replace(self, folds=folds)

    def map(self, function: Callable[..., Tensor], *arguments: Any) -> Self:
        """Return rows (b, k) that ``function`` makes of each chunk; they are kept."""
        return replace(self, table=self.table.map(RowMap(function, arguments)))


def split_rows(
    X: NDArray[Any], y: NDArray[Any], domain: NDArray[Any], drawn: NDArray[np.bool_] | None = None
) -> tuple[SampledRows, LocalRows, NDArray[np.int64]]:
    """Return the rows that are drawn, or all, then all rows, and their counts (K, C)."""
    if drawn is None:
        drawn = np.ones(len(y), bool)
    classes, y_index = np.unique(y, return_inverse=True)
    names, source = np.unique(domain, return_inverse=True)
    counts = np.zeros((len(names), len(classes)), np.int64)
    np.add.at(counts, (source, y_index), 1)
    sample = SampledRows(X[drawn], y[drawn], domain[drawn], np.flatnonzero(drawn))
    rows = LocalRows(RowTable(X, y_index.astype(np.uint8), source.astype(np.uint8)))
    return sample, rows, counts


def list_numbers(value: Any) -> list[float]:
    """List all numbers of a nested document, in order."""
    if isinstance(value, dict):
        return [number for each in value.values() for number in list_numbers(each)]
    if isinstance(value, list | tuple):
        return [number for each in value for number in list_numbers(each)]
    return [float(value)] if isinstance(value, int | float) else []
