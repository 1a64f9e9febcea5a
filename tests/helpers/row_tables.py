"""Tables in memory, as the sums over rows that fits and audits of large tables ask for."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.core.row_sums import LocalRows, RowTable
from regraft.estimators.streamed import SampledRows


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
