"""Named columns of tables: .csv and .jsonl, gzipped or not, and .parquet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.data.columns import TableError, quoted
from regraft.data.table_rows import (
    check_table,
    open_csv,
    open_parquet,
    plain_cells,
    read_records,
    table_kind,
)
from regraft.estimators.column_kinds import Columns, parse_cell, parse_number
from regraft.support.reading import check_fits

_CELL_BYTES = 8
_ROWS = 8192  # of a block, in memory as texts at once

_Cells = Mapping[str, Sequence[Any] | NDArray[Any]]  # of a block, by column


def read_columns(path: Path, plain: Collection[str] = ()) -> dict[str, Any]:
    """Read all columns of a table as arrays (n,), and those in ``plain`` as lists of cells.

    Columns of numbers are numbers; all others keep their cells as the file has them. Raises
    ``TableError`` with one sentence.
    """
    check_table(path)
    if table_kind(path) == "parquet":  # a few bytes can stand for any number of rows
        with open_parquet(path) as file:
            n_cells = file.metadata.num_rows * file.metadata.num_columns
        check_fits(n_cells * _CELL_BYTES, f"the table {path}")
    parts: dict[str, list[Any]] = {}
    lengths: list[int] = []
    for block in _read_cells(path):
        n_rows = len(next(iter(block.values())))
        for name in block:
            if name not in parts:  # also a key of .jsonl that comes late
                parts[name] = [[None] * n for n in lengths]
        for name in parts:
            cells = block.get(name, [None] * n_rows)
            parts[name].append(list(cells) if name in plain else _narrow(cells))
        lengths.append(n_rows)
    if not lengths:
        raise TableError(f"{path} has no rows: add data below the header.")
    return {
        name: [cell for part in blocks for cell in part] if name in plain else _join(blocks)
        for name, blocks in parts.items()
    }


def iterate_columns(path: Path, n_rows: int) -> Iterator[Columns]:
    """Yield the columns of ``n_rows`` rows at a time, as :func:`read_columns` reads them."""
    names: dict[str, None] = {}
    for block in _read_cells(path, n_rows):
        names |= dict.fromkeys(block)
        length = len(next(iter(block.values())))
        yield {name: _narrow(block.get(name, [None] * length)) for name in names}
    if not names:
        raise TableError(f"{path} has no rows: add data below the header.")


def parquet_block(batch: Any) -> Columns:
    """Return the columns of a record batch, as :func:`read_columns` reads them."""
    names = batch.schema.names
    return {name: _narrow(_parquet_column(batch.column(name))) for name in names}


def _read_cells(path: Path, n_rows: int = _ROWS) -> Iterator[_Cells]:
    check_table(path)
    read = {"csv": _csv_cells, "jsonl": _json_cells, "parquet": _parquet_cells}
    for block in read[table_kind(path)](path, n_rows):
        if not block:
            raise TableError(f"{path} has rows without columns: write a name for each value.")
        yield block


def _csv_cells(path: Path, n_rows: int) -> Iterator[_Cells]:
    rows = open_csv(path)
    header = list(next(rows).cells)
    check_names(path, header)
    while block := [row.cells for row in islice(rows, n_rows)]:
        yield dict(zip(header, zip(*block, strict=True), strict=True))


def _json_cells(path: Path, n_rows: int) -> Iterator[_Cells]:
    records = (record for _, record in read_records(path))
    while block := list(islice(records, n_rows)):
        names = dict.fromkeys(name for record in block for name in record)
        yield {name: [record.get(name) for record in block] for name in names}


def _parquet_cells(path: Path, n_rows: int) -> Iterator[_Cells]:
    with open_parquet(path) as file:
        names = file.schema_arrow.names
        check_names(path, names)
        for batch in file.iter_batches(n_rows, use_threads=False):
            try:
                yield {name: _parquet_column(batch.column(name)) for name in names}
            except UnicodeDecodeError:
                raise TableError(
                    f"a text in {path} is not in UTF-8: write the file again in that encoding."
                ) from None


def _parquet_column(column: Any) -> Sequence[Any] | NDArray[Any]:
    if column.null_count == 0 and str(column.type) != "bool":
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        if values.dtype.kind in "fiu":
            return values
    return plain_cells(column)


def check_names(path: Path, names: Sequence[str]) -> None:
    """Raise ``TableError`` if two columns have the same name."""
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise TableError(f"{path} has more than one column {quoted(twice)}: rename or drop them.")


def _narrow(cells: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """Return numbers if all cells are numbers or missing, to save memory; else the cells.

    TRUE and FALSE stay as they are, since a later block may hold other words.
    """
    if isinstance(cells, np.ndarray):
        return cells
    numbers = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            # Most cells of most tables are plain numbers.
            numbers[row] = parse_number(cell) if isinstance(cell, str) else _parse_other(cell)
        except (TypeError, ValueError):
            if isinstance(cell, str) and parse_cell(cell) is None:
                numbers[row] = np.nan
                continue
            texts = np.empty(len(cells), object)
            for i, each in enumerate(cells):  # one by one, so that lists stay lists
                texts[i] = each
            return texts
    return numbers


def _parse_other(cell: Any) -> float:
    """Return a cell that is no text as a number, NaN if it is missing; raise ``TypeError`` else."""
    value = parse_cell(cell)
    if isinstance(value, bool | str):
        raise TypeError(type(value).__name__)
    return np.nan if value is None else value


def _join(blocks: Sequence[Any]) -> NDArray[Any]:
    arrays = [_narrow(block) for block in blocks]
    if all(array.dtype.kind in "fiu" for array in arrays):
        return np.concatenate(arrays)
    return np.concatenate([array.astype(object) for array in arrays])
