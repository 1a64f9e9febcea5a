"""Features of a table or a bank of any length, block by block as a model takes them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.data.banks import is_bank, is_unfinished, open_bank, read_verified
from regraft.data.columns import Role, TableError
from regraft.data.model_features import features_for
from regraft.data.table_columns import iterate_columns
from regraft.data.tables import FeatureTable, read_table
from regraft.estimators.pipelines import Model

_ROWS = 8192  # of a block, in memory at once

Block = NDArray[np.floating[Any]]  # (b, d)


def read_blocks(path: Path, model: Model, roles: Sequence[Role] = ()) -> Iterator[Block]:
    """Yield the features of a table or a bank that the head of the model takes.

    Columns with one of the ``roles`` are no features. Of a .npz file, all rows are in memory at
    once. What the rows are warned of is told once. Raises ``ValueError`` with one sentence if the
    file cannot be read or has not the columns of the model.
    """
    if is_bank(path) or is_unfinished(path):
        for X in read_verified(open_bank(path), _ROWS):
            yield features_for(model, FeatureTable(X, None, None))
        return
    if path.suffix.lower() == ".npz":
        X = features_for(model, read_table(path, need_label=False, need_domain=False))
        yield from (X[start : start + _ROWS] for start in range(0, len(X), _ROWS))
        return
    names = {role.name for role in roles}
    first = 1
    for block in iterate_columns(path, _ROWS):
        columns = {name: cells for name, cells in block.items() if name not in names}
        table = FeatureTable(columns, None, None, features=tuple(columns))
        yield _make_features(model, table, path, first)
        first += len(table)


def _make_features(model: Model, table: FeatureTable, path: Path, first: int) -> Block:
    with warnings.catch_warnings():
        if first > 1:
            warnings.simplefilter("ignore")  # told of the first block
        try:
            return features_for(model, table)
        except ValueError as error:
            where = f"{path}, from row {first:,} on" if first > 1 else path
            raise TableError(f"{where}: {error}") from None
