"""Tables of any length, read row by row: .csv and .jsonl, gzipped or not, and .parquet."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regraft.data.columns import Role, TableError, is_missing
from regraft.support.extras import require
from regraft.support.json_files import parse_object

_SUFFIXES = (".csv", ".jsonl", ".parquet", ".csv.gz", ".jsonl.gz")
_PARQUET_ROWS = 1024  # in memory at once


@dataclass(frozen=True)
class Row:
    """The cells of a row that were asked for, in the order of the roles."""

    number: int  # from 1
    where: str  # for a sentence: row 3 (line 4) of reviews.csv
    cells: tuple[Any, ...]


def read_rows(path: Path, roles: Sequence[Role]) -> Iterator[Row]:
    """Yield the rows of a table as they are read; raise ``TableError`` with one sentence."""
    check_table(path)
    if len({role.name for role in roles}) < len(roles):
        options = ", ".join(f"--{role.option}" for role in roles)
        raise TableError(f"one column cannot serve twice: name different ones with {options}.")
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    read = {"csv": _csv_rows, "jsonl": _json_rows, "parquet": _parquet_rows}[kind]
    return read(path, roles)


def check_table(path: Path) -> None:
    """Raise an error with one sentence unless ``path`` is a file with one of the suffixes."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}: check the path.")
    if path.is_dir():
        raise TableError(f"{path} is a folder: pass the table inside it.")
    if not path.name.lower().endswith(_SUFFIXES):
        raise TableError(
            f"{path} does not end in {', '.join(_SUFFIXES)}: convert it to one of these formats."
        )


def name_of(cell: Any, role: Role, where: str) -> str:
    """Convert a label or a domain to text; raise ``TableError`` if there is none."""
    if is_missing(cell):
        raise TableError(
            f"{where} has no {role.option} (column {role.name!r}): fill it in or drop the row."
        )
    if not isinstance(cell, str | int | float):
        raise TableError(
            f"{where} holds a {type(cell).__name__} as its {role.option}: make it a string or a "
            "number."
        )
    return check_characters(str(cell), role.option, where)


def text_of(cell: Any, role: Role, where: str) -> str:
    """Check that a cell is a text of more than blanks, and return it; else raise ``TableError``."""
    if is_missing(cell) or (isinstance(cell, str) and not cell.strip()):
        raise TableError(
            f"{where} has no {role.option} (column {role.name!r}): fill it in or drop the row."
        )
    if not isinstance(cell, str):
        raise TableError(
            f"{where} holds a {type(cell).__name__} as its {role.option}: make it a string."
        )
    return check_characters(cell, role.option, where)


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


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
        try:
            for number, line in enumerate(file, 1):
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
    reader = csv.reader(_lines(path), skipinitialspace=True, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        if not header:
            raise TableError(f"{path} is empty: write a header row and rows of data.")
        columns = []
        for role in roles:
            role.find(path, header)
            if header.count(role.name) > 1:
                raise TableError(f"{path} has more than one column {role.name!r}: rename one.")
            columns.append(header.index(role.name))
        number = 0
        for cells in reader:
            if not cells:
                continue
            number += 1
            where = f"row {number} (line {reader.line_num}) of {path}"
            if len(cells) != len(header):
                raise TableError(
                    f"{where} has {len(cells)} cells but the header has {len(header)}: make them "
                    "equal."
                )
            yield Row(number, where, tuple(cells[column] for column in columns))
    except csv.Error as error:
        raise TableError(
            f"line {reader.line_num} of {path} is not CSV ({error}): repair it, or write the table "
            "as .jsonl."
        ) from None


def _json_rows(path: Path, roles: Sequence[Role]) -> Iterator[Row]:
    number = 0
    for line_number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        number += 1
        try:
            record = parse_object(line)
        except ValueError:
            raise TableError(
                f"line {line_number} of {path} is not a JSON object: write one object a line."
            ) from None
        if number == 1:
            for role in roles:
                role.find(path, list(record))
        cells = tuple(record.get(role.name) for role in roles)
        yield Row(number, f"row {number} (line {line_number}) of {path}", cells)


def _parquet_rows(path: Path, roles: Sequence[Role]) -> Iterator[Row]:
    parquet = require("pyarrow.parquet", "parquet")
    damaged = TableError(f"{path} is damaged or not a Parquet file: write it again.")
    with path.open("rb") as file:
        try:
            table = parquet.ParquetFile(file)
        except (OSError, ValueError):
            raise damaged from None
        for role in roles:
            role.find(path, table.schema_arrow.names)
        names = [role.name for role in roles]
        batches = table.iter_batches(_PARQUET_ROWS, columns=names)
        number = 0
        while True:
            try:
                batch = next(batches, None)
                if batch is None:
                    return
                columns = [batch.column(name).to_pylist() for name in names]
            except UnicodeDecodeError:
                raise TableError(
                    f"a row of {path} after row {number} is not text in UTF-8: write it again in "
                    "that encoding."
                ) from None
            except (OSError, ValueError):
                raise damaged from None
            for cells in zip(*columns, strict=True):
                number += 1
                yield Row(number, f"row {number} of {path}", cells)
