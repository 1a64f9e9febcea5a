"""Features of a table or a bank of any length, block by block in the order of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.data.banks import is_bank, is_unfinished, open_bank
from regraft.data.columns import Role, TableError
from regraft.data.table_rows import check_table, open_parquet, read_names, read_rows
from regraft.data.tables import (
    FeatureTable,
    align,
    feature_names,
    not_a_number,
    parquet_features,
    read_table,
)
from regraft.support.memory_map import find_mapping, released

_ROWS = 8192  # of a block, in memory at once

Block = NDArray[np.floating[Any]]  # (b, d)


def read_blocks(
    path: Path, names: Sequence[str], n_features: int, roles: Sequence[Role]
) -> Iterator[Block]:
    """Yield the features of a table or a bank, in the order of a model's ``names``.

    Without names, they are ``n_features`` columns in the order of the file. Columns with one of the
    ``roles`` are no features. Of a .npz file, all rows are in memory at once. Raises ``TableError``
    with one sentence if the file cannot be read or has other columns.
    """
    if is_bank(path) or is_unfinished(path):
        X = align(FeatureTable(open_bank(path).X, None, None), names, n_features)
        yield from (X[rows] for rows in released(_chunks(len(X)), find_mapping(X)))
        return
    if path.suffix.lower() == ".npz":
        X = align(read_table(path, need_label=False, need_domain=False), names, n_features)
        yield from (X[rows] for rows in _chunks(len(X)))
        return
    check_table(path)
    columns = feature_names(path, read_names(path), roles)
    empty = FeatureTable(np.empty((0, len(columns))), None, None, features=columns)
    align(empty, names, n_features)  # for its errors
    order = list(names) if len(names) else list(columns)
    n_rows = 0
    for block in (_parquet_blocks if path.suffix.lower() == ".parquet" else _text_blocks)(
        path, order
    ):
        n_rows += len(block)
        yield block
    if not n_rows:
        raise TableError(f"{path} has no rows: add data below the header.")


def _chunks(n_rows: int) -> Iterator[slice]:
    return (slice(start, start + _ROWS) for start in range(0, n_rows, _ROWS))


def _parquet_blocks(path: Path, names: Sequence[str]) -> Iterator[Block]:
    with open_parquet(path) as file:
        first = 1
        for batch in file.iter_batches(_ROWS, columns=list(names)):
            yield parquet_features(path, batch, names, first)
            first += len(batch)


def _text_blocks(path: Path, names: Sequence[str]) -> Iterator[Block]:
    block = np.empty((_ROWS, len(names)))
    filled = 0
    for row in read_rows(path, [Role(name, "feature") for name in names]):
        try:
            block[filled] = [float(cell) for cell in row.cells]
        except (TypeError, ValueError):
            raise not_a_number(path, row.number, names, row.cells) from None
        filled += 1
        if filled == len(block):
            yield block.copy()
            filled = 0
    if filled:
        yield block[:filled]
