"""Rows of a bank or of a folder of Parquet files, read in ranges: what shards are made of."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.data.banks import is_bank, is_unfinished, open_bank
from regraft.data.columns import Role, TableError, check_roles, is_missing, quoted
from regraft.data.table_columns import check_names, parquet_block
from regraft.data.table_rows import open_parquet, plain_cells
from regraft.estimators.column_kinds import Columns, take_rows
from regraft.support.extras import require
from regraft.support.memory_map import find_mapping, released

_ROWS = 8192  # that are read at once
_SUFFIX = ".parquet"

RawRows = Columns | NDArray[Any]  # as they are in the files: by column, or (b, d)


@dataclass(frozen=True)
class RowFiles:
    """Where the rows of a large table are, and the columns that hold labels and domains."""

    files: tuple[Path, ...]  # Parquet files in the order of their names; or one bank
    ends: tuple[int, ...]  # number of the row after the last one of each file
    n_columns: int
    label: str | None  # None if it is not read
    domain: str | None
    is_bank: bool
    unread: str | None = None  # a column of domains that is not needed, and has gaps

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.ends[-1]

    @property
    def n_bytes(self) -> int:
        """About the size of the features in memory, as numbers."""
        return 4 * self.n_rows * self.n_columns

    def read_codes(self, column: str, start: int, stop: int) -> tuple[NDArray[Any], list[Any]]:
        """Return codes (n,) of the labels or domains of a range of rows, and what they stand for.

        ``column`` is "label" or "domain". One that is not read has one value, None.
        """
        name = self.label if column == "label" else self.domain
        if name is None:
            return np.zeros(stop - start, np.int32), [None]
        if self.is_bank:
            bank = open_bank(self.files[0])
            index, names = {
                "label": (bank.y, bank.classes),
                "domain": (bank.domain, bank.domains),
            }[column]
            assert index is not None and names is not None
            codes = np.empty(stop - start, np.int32)
            for rows in released(_parts(start, stop), find_mapping(index)):
                codes[rows.start - start : rows.stop - start] = index[rows]
            return codes, list(names)
        codes, known = np.empty(stop - start, np.int32), dict[Any, int]()
        at = 0
        where = self.files[0] if len(self.files) == 1 else self.files[0].parent
        for batch in self._batches(start, stop, [name]):
            encoded = batch.column(name).dictionary_encode()
            values = plain_cells(encoded.dictionary)
            if encoded.null_count or any(value is None or value != value for value in values):
                raise TableError(
                    f"a row of {where} after row {start + at} has no {column} "
                    f"(column {name!r}): fill it in or drop the row."
                )
            if any(isinstance(value, bytes) for value in values):
                raise TableError(
                    f"a row of {where} after row {start + at} has bytes that are no text in UTF-8 "
                    f"for its {column} (column {name!r}): write a text or a number."
                )
            translate = np.array([known.setdefault(value, len(known)) for value in values])
            codes[at : at + len(batch)] = translate[encoded.indices.to_numpy()]
            at += len(batch)
        return codes, list(known)

    def has_gaps(self, name: str | None) -> bool:
        """Return whether a column of the Parquet files lacks a value anywhere."""
        if name is None:
            return False
        batches = self._batches(0, self.n_rows, [name])
        cells = (batch.column(name).unique().to_pylist() for batch in batches)
        return any(is_missing(cell) for values in cells for cell in values)

    def read_features(self, start: int, stop: int) -> Iterator[RawRows]:
        """Yield the features of a range of rows, some rows at a time: by column, or (b, d)."""
        if self.is_bank:
            X = open_bank(self.files[0]).X
            for rows in released(_parts(start, stop), find_mapping(X)):
                yield X[rows]
            return
        for batch in self._batches(start, stop, None):
            block = parquet_block(batch)
            others = self.label, self.domain, self.unread
            yield {name: cells for name, cells in block.items() if name not in others}

    def _batches(self, start: int, stop: int, columns: Sequence[str] | None) -> Iterator[Any]:
        """Yield record batches of the Parquet files, cut to the rows from ``start`` to ``stop``."""
        for path, (first, end) in zip(self.files, pairwise((0, *self.ends)), strict=True):
            if end <= start or first >= stop:
                continue
            with open_parquet(path) as file:
                sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
                for i, at in enumerate(accumulate(sizes, initial=first)):
                    if i == len(sizes) or at + sizes[i] <= start or at >= stop:
                        continue
                    for batch in file.iter_batches(
                        _ROWS, row_groups=[i], columns=columns, use_threads=False
                    ):
                        low, high = max(start - at, 0), min(stop - at, len(batch))
                        if low < high:
                            yield batch.slice(low, high - low)
                        at += len(batch)


def _parts(start: int, stop: int) -> Iterator[slice]:
    """Yield ranges of rows that are read at once."""
    return (slice(i, min(i + _ROWS, stop)) for i in range(start, stop, _ROWS))


def open_row_files(
    path: Path,
    label_column: str | None,
    domain_column: str,
    id_column: str | None = None,
    *,
    need_domain: bool = True,
) -> RowFiles:
    """Find the rows of a bank, a Parquet file or a folder of them; raise ``TableError``.

    Without a ``label_column``, labels are not read; domains that are not needed are not read if one
    is missing. An ``id_column`` must be there.
    """
    label = None if label_column is None else Role(label_column, "label")
    domain = Role(domain_column, "domain", need_domain)
    row_id = None if id_column is None else Role(id_column, "id")
    check_roles([role for role in (label, domain, row_id) if role is not None])
    if is_bank(path) or is_unfinished(path):
        _find(path, ("label", "domain"), row_id)
        return _open_bank(path, label, domain)
    if not path.exists():
        raise TableError(f"{path} does not exist: check the path.")
    files = _list_files(path)
    names: Sequence[str] = ()
    ends, schemas = [], []
    for file in files:
        with open_parquet(file) as opened:
            own = opened.schema_arrow.names
            ends.append(opened.metadata.num_rows)
            schemas.append(opened.schema_arrow)
        names = names or own
        if own != names:
            raise TableError(
                f"{file} {_compare_columns(own, names)}, other than {files[0]}: write all files "
                "of a table with the same columns."
            )
        check_names(file, own)
    label_name, domain_name, _ = _find(files[0], names, label, domain, row_id)
    if not sum(ends):
        raise TableError(f"{path} has no rows: add data.")
    for name in (label_name, domain_name):
        if name is not None:
            filled = zip(files, schemas, ends, strict=True)
            _check_types(name, {file: schema.field(name).type for file, schema, n in filled if n})
    found = RowFiles(
        files, tuple(accumulate(ends)), len(names), label_name, domain_name, is_bank=False
    )
    if not need_domain and found.has_gaps(domain_name):
        return replace(found, domain=None, unread=domain_name)
    return found


def _list_files(path: Path) -> tuple[Path, ...]:
    """Return the Parquet files of a table in the order of their names; warn of what is not read."""
    if not path.is_dir():
        if _is_parquet(path):
            return (path,)
        raise TableError(
            f"{path} is neither a bank nor a folder of Parquet files, which engines read in parts: "
            "convert it, or leave out --engine."
        )
    files, others = list[Path](), list[str]()
    for entry in sorted(path.iterdir()):
        if _is_parquet(entry):
            files.append(entry)
        elif not entry.name.startswith((".", "_")):  # what programs leave beside their tables
            others.append(entry.name)
    if not files:
        raise TableError(
            f"{path} holds no files that end in {_SUFFIX}, which engines read in parts, and "
            "folders in it are not looked into: put all files of the table into one folder."
        )
    if others:
        warnings.warn(
            f"{path} also holds {quoted(others)}, which {'is' if len(others) == 1 else 'are'} not "
            f"read: only its own files that end in {_SUFFIX} are.",
            stacklevel=2,
        )
    return tuple(files)


def _check_types(column: str, types: Mapping[Path, Any]) -> None:
    """Raise ``TableError`` if a column holds texts in some files and numbers in others.

    They would be other labels or domains, although they read the same.
    """
    arrow = require("pyarrow.types", "parquet")
    is_number = arrow.is_boolean, arrow.is_integer, arrow.is_floating, arrow.is_decimal
    found = dict[str, Path]()
    for file, kind in types.items():
        kind = kind.value_type if arrow.is_dictionary(kind) else kind
        if not arrow.is_null(kind):
            found.setdefault(
                "numbers" if any(is_one(kind) for is_one in is_number) else "texts", file
            )
    if len(found) > 1:
        raise TableError(
            f"column {column!r} holds texts in {found['texts']}, and numbers in "
            f"{found['numbers']}: write all files of a table with the same types."
        )


def _is_parquet(path: Path) -> bool:
    """Return whether the name of a file says that it is of Parquet."""
    return path.suffix.lower() == _SUFFIX and not path.is_dir()


def _compare_columns(own: Sequence[str], names: Sequence[str]) -> str:
    """Say how the columns of a file differ from the ``names`` of others."""
    lacks = [name for name in names if name not in own]
    has = [name for name in own if name not in names]
    parts = [f"lacks {quoted(lacks)}"] * bool(lacks) + [f"has {quoted(has)}"] * bool(has)
    return " and ".join(parts) or "has its columns in another order"


def refuse_parts(path: Path) -> None:
    """Raise ``TableError`` for a folder of Parquet files, which only engines read."""
    if path.is_dir() and any(map(_is_parquet, path.iterdir())):
        raise TableError(
            f"{path} is a folder of Parquet files, which fit, abduct, audit and place read in "
            "parts: add --engine local there, or pass one of the files."
        )


def _find(path: Path, names: Sequence[str], *roles: Role | None) -> list[str | None]:
    """Return the columns of the roles, None for what is not read."""
    return [None if role is None else role.find(path, tuple(names)) for role in roles]


def _open_bank(path: Path, label: Role | None, domain: Role) -> RowFiles:
    try:
        bank = open_bank(path)
    except ValueError as error:
        raise TableError(str(error)) from None
    held = {"label": bank.y, "domain": bank.domain}
    for role in (label, domain):
        if role is not None and role.needed and held[role.option] is None:
            name = role.option
            raise TableError(
                f"{path} is a bank without {name}s, which are needed here: embed its inputs with a "
                f"{name} each, in a folder domain/class/file or in a table."
            )
    _find(path, ("label", "domain"), label, domain)
    label_name, domain_name = (
        None if role is None or held[role.option] is None else role.option
        for role in (label, domain)
    )
    where = bank.X.shape[1], label_name, domain_name
    return RowFiles((path,), (len(bank.X),), *where, is_bank=True)


def take_block(block: RawRows, kept: NDArray[Any]) -> RawRows:
    """Return some rows of a block."""
    return block[kept] if isinstance(block, np.ndarray) else take_rows(block, kept)


def join_blocks(blocks: Sequence[RawRows]) -> RawRows:
    """Return blocks of rows as one."""
    arrays = [block for block in blocks if isinstance(block, np.ndarray)]
    if arrays:
        return np.concatenate(arrays)
    columns = [block for block in blocks if not isinstance(block, np.ndarray)]
    return {name: np.concatenate([block[name] for block in columns]) for name in columns[0]}


def count_block(block: RawRows) -> int:
    """Return the number of rows of a block."""
    return len(block) if isinstance(block, np.ndarray) else len(next(iter(block.values())))
