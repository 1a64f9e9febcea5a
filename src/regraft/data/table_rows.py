"""Tables of any length, read row by row: .csv and .jsonl, gzipped or not, and .parquet."""

from __future__ import annotations

import csv
import gzip
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

from regraft.data.columns import Role, TableError, decode_cell, is_missing
from regraft.support.csv_dialect import DottedThousands, find_delimiter, read_decimals
from regraft.support.extras import require
from regraft.support.json_files import parse_object
from regraft.support.reading import check_file

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ".tsv.gz", ".jsonl.gz")
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
_TABLE_OF_TEXT = {"tsv": "csv"}  # read in the same way
_LONGEST_LINE = 2**28  # bytes
# A gzipped table may unpack to this many times its size, and to these bytes in any case.
_MOST_GROWTH, _FREE_BYTES = 300, 2**28
_PLAIN = (str, int, float, list, tuple, dict, set, type(None))  # of a cell of Parquet
_PARQUET_ROWS = 1024  # in memory at once


@dataclass(frozen=True)
class Row:
    """The cells of a row: all of them, or those that were asked for, in the order of the roles."""

    number: int  # from 1; a header is 0
    where: str  # for a sentence: row 3 (line 4) of reviews.csv
    cells: Sequence[Any]


def read_rows(path: Path, roles: Sequence[Role]) -> Iterator[Row]:
    """Yield the rows of a table as they are read; raise ``TableError`` with one sentence."""
    check_table(path)
    if len({role.name for role in roles}) < len(roles):
        options = ", ".join(f"--{role.option}" for role in roles)
        raise TableError(f"one column cannot serve twice: name different ones with {options}.")
    read = {"csv": _csv_rows, "jsonl": _json_rows, "parquet": _parquet_rows}
    return read[table_kind(path)](path, roles)


def table_kind(path: Path) -> str:
    """Return csv, jsonl or parquet, by the name of a file, which may be gzipped."""
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    return _TABLE_OF_TEXT.get(kind, kind)


def read_names(path: Path) -> Sequence[str]:
    """Return the names of the columns of a table; of .jsonl, those of its first row."""
    check_table(path)
    if path.suffix.lower() == ".parquet":
        with open_parquet(path) as table:
            names: list[str] = table.schema_arrow.names
            return names
    if table_kind(path) == "csv":
        return list(next(open_csv(path)).cells)
    return list(next(read_records(path), (0, {}))[1])


def describe_wrong_suffix(path: Path, suffixes: Sequence[str]) -> str:
    """Say that a file has none of the ``suffixes``, and what to do."""
    if path.suffix.lower() in _SPREADSHEETS:
        return f"{path} is a spreadsheet: save it as CSV (.csv), and pass that file."
    return f"{path} does not end in {', '.join(suffixes)}: convert it to one of these formats."


def check_table(path: Path) -> None:
    """Raise an error with one sentence unless ``path`` is a file with one of the suffixes."""
    check_file(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}: check the path.")
    if path.is_dir():
        raise TableError(f"{path} is a folder: pass the table inside it.")
    if not path.name.lower().endswith(SUFFIXES):
        raise TableError(describe_wrong_suffix(path, SUFFIXES))


def read_cell(cell: Any, role: Role, where: str, *, is_name: bool = True) -> str:
    """Convert a cell to text, or raise ``TableError``: a name may be a number, or only blanks."""
    if is_missing(cell) or not (is_name or str(cell).strip()):
        raise TableError(
            f"{where} has no {role.option} (column {role.name!r}): fill it in or drop the row."
        )
    if not isinstance(cell, str | int | float if is_name else str):
        raise TableError(
            f"{where} holds a {type(cell).__name__} as its {role.option}: make it a string"
            f"{' or a number' if is_name else ''}."
        )
    return check_characters(str(cell), role.option, where)


def check_characters(text: str, what: str, where: str) -> str:
    """Return ``text``; raise ``TableError`` if it holds what no text in UTF-8 should."""
    if "\0" in text:
        raise TableError(
            f"the {what} of {where} holds a NUL character: remove it, or save the file in UTF-8."
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TableError(
            f"the {what} of {where} holds half of a surrogate pair, which is no character: repair "
            "it."
        ) from None
    return text


def text_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file in UTF-8, which may be gzipped, with their line breaks."""
    packed = path.stat().st_size
    with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
        length = 0
        try:
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), 1):
                length += len(line)
                if len(line) == _LONGEST_LINE or length > _FREE_BYTES + _MOST_GROWTH * packed:
                    raise TableError(
                        f"line {number} of {path} is longer, or the file unpacks to more, than any "
                        "table does: check what the file is."
                    )
                try:
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError:
                    raise TableError(
                        f"line {number} of {path} is not text in UTF-8: save the file in that "
                        "encoding."
                    ) from None
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise TableError(f"{path} is damaged or not gzipped: write it again.") from None


def _csv_rows(path: Path, roles: Sequence[Role]) -> Iterator[Row]:
    rows = open_csv(path)
    header = next(rows).cells
    columns = []
    for role in roles:
        role.find(path, header)
        if header.count(role.name) > 1:
            raise TableError(f"{path} has more than one column {role.name!r}: rename one.")
        columns.append(header.index(role.name))
    for row in rows:
        yield replace(row, cells=[row.cells[column] for column in columns])


def open_csv(path: Path) -> Iterator[Row]:
    """Yield the header and the rows of a file; raise ``TableError`` with one sentence if it fails.

    Cells are separated by what the header has most of: commas, semicolons or tabs; in a .tsv file
    by tabs.
    """
    lines = text_lines(path)
    first = next(lines, "")
    delimiter = "\t" if ".tsv" in path.name.lower() else find_delimiter(first)
    reader = csv.reader(
        chain([first] if first else [], lines),
        skipinitialspace=True,
        strict=True,
        delimiter=delimiter,
    )
    try:
        header = [name.strip() for name in next(reader, [])]
        if not header:
            raise TableError(f"{path} is empty: write a header row and rows of data.")
        yield Row(0, f"the header of {path}", header)
        dots = DottedThousands(delimiter)
        for number, cells in enumerate(filter(None, reader), 1):
            where = f"row {number} (line {reader.line_num}) of {path}"
            if len(cells) != len(header):
                raise TableError(
                    f"{where} has {len(cells)} cells but the header has {len(header)}: make them "
                    "equal."
                )
            dots.look_at(cells, where)
            yield Row(number, where, read_decimals(cells, delimiter))
        if (warning := dots.warning()) is not None:
            warnings.warn(warning, stacklevel=2)
    except csv.Error as error:
        raise TableError(
            f"line {reader.line_num} of {path} is not CSV ({error}): repair it, or write the table "
            "as .jsonl."
        ) from None


def _json_rows(path: Path, roles: Sequence[Role]) -> Iterator[Row]:
    for number, (line_number, record) in enumerate(read_records(path), 1):
        if number == 1:
            for role in roles:
                role.find(path, list(record))
        cells = [record.get(role.name) for role in roles]
        yield Row(number, f"row {number} (line {line_number}) of {path}", cells)


def read_records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a .jsonl file, each with the number of its line."""
    for number, line in enumerate(text_lines(path), 1):
        if not line.strip():
            continue
        try:
            record = parse_object(line)
        except ValueError:
            raise TableError(
                f"line {number} of {path} is not a JSON object: write one object a line."
            ) from None
        yield number, record


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file; raise ``TableError`` for what pyarrow cannot read of it."""
    parquet = require("pyarrow.parquet", "parquet")
    with path.open("rb") as file:
        try:
            # Buffers read ahead are kept until the file is closed. And without use_threads=False
            # on every read, threads start that can abort the process when it ends soon after.
            yield parquet.ParquetFile(file, pre_buffer=False)
        except TableError:
            raise
        except (OSError, ValueError):
            raise TableError(f"{path} is damaged or not a Parquet file: write it again.") from None


def plain_cells(column: Any) -> list[Any]:
    """Return a column of Parquet as Python has it: decimals are numbers, dates and such are texts.

    So are bytes in UTF-8, since not every writer marks texts. Other bytes, and cells that hold
    several values, stay as they are, for others to refuse.
    """
    try:
        cells: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        raise
    except (ArithmeticError, LookupError, ValueError) as error:  # far dates, unknown time zones
        raise TableError(
            f"a column of the type {column.type} cannot be read ({str(error).rstrip('.')}): write "
            "its cells as numbers or texts."
        ) from None
    return [cell if isinstance(cell, _PLAIN) else _plain_cell(cell) for cell in cells]


def _plain_cell(cell: Any) -> int | float | str | bytes:
    if isinstance(cell, bytes):
        return decode_cell(cell)
    if not isinstance(cell, Decimal):
        return str(cell)
    return int(cell) if cell.is_finite() and cell == int(cell) else float(cell)


def _parquet_rows(path: Path, roles: Sequence[Role]) -> Iterator[Row]:
    names = [role.name for role in roles]
    with open_parquet(path) as table:
        for role in roles:
            role.find(path, table.schema_arrow.names)
        number = 0
        for batch in table.iter_batches(_PARQUET_ROWS, columns=names, use_threads=False):
            try:
                columns = [plain_cells(batch.column(name)) for name in names]
            except UnicodeDecodeError:
                raise TableError(
                    f"a row of {path} after row {number} is not text in UTF-8: write it again in "
                    "that encoding."
                ) from None
            for cells in zip(*columns, strict=True):
                number += 1
                yield Row(number, f"row {number} of {path}", cells)
