"""Bodies of requests as rows of a model; everything that does not fit is one sentence."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from regraft.estimators.scoring import RawRows, Scorer
from regraft.support.csv_dialect import find_delimiter, read_decimals
from regraft.support.json_files import load_json

_MAX_EXTRA = 1000  # columns that the model does not know, in a row
_CELLS = {str, int, float, bool, type(None)}
_NUMBERS = {int, float}


class BadRequest(ValueError):
    """A request that cannot be answered, with its status and one sentence."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Query:
    """What a request asks for."""

    rows: RawRows
    interval: bool
    ignored: tuple[str, ...]  # columns that the model does not read
    warnings: tuple[str, ...]  # a sentence each


def read_query(body: bytes, is_csv: bool, scorer: Scorer, max_rows: int) -> Query:
    """Read the body of a request; raise ``BadRequest`` if it is none that the model can answer."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadRequest("the body is not UTF-8 text.") from None
    rows, interval = (_read_csv(text, max_rows), False) if is_csv else _read_json(text)
    if not rows:
        raise BadRequest("there are no rows: pass one or more.")
    if len(rows) > max_rows:
        raise BadRequest(
            f"there are {len(rows):,} rows, but {max_rows:,} are allowed: send them in parts.", 413
        )
    kinds = set(map(type, rows))
    if kinds == {dict}:
        raw, ignored = _read_named(rows, scorer)
    elif kinds == {list}:
        raw, ignored = _read_ordered(rows, scorer), ()
    else:
        raise BadRequest("rows must all be objects with column names, or all be lists of values.")
    said = _describe_strange(ignored, scorer), scorer.describe_unknown(raw)
    return Query(raw, interval, ignored, tuple(filter(None, said)))


def _describe_strange(ignored: Sequence[str], scorer: Scorer) -> str:
    """Say which columns the model has never seen; its label and the like are none of them."""
    roles = (scorer.about.get("columns") or {}).values()
    strange = [name for name in ignored if name not in {*scorer.about.get("not_read", ()), *roles}]
    if not strange:
        return ""
    return f"columns that the model does not know are not read: {_list(strange)}."


def _read_json(text: str) -> tuple[list[Any], bool]:
    try:
        document = load_json(text, parse_constant=_refuse_constant)
    except BadRequest:
        raise
    except ValueError:  # also numbers of thousands of digits
        raise BadRequest("the body is not JSON that can be read.") from None
    if isinstance(document, list):
        return document, False
    if not isinstance(document, dict) or not isinstance(document.get("rows"), list):
        raise BadRequest('the body must be a list of rows, or an object with the list "rows".')
    interval = document.get("interval", False)
    others = document.keys() - {"rows", "interval"}
    if others:
        raise BadRequest(f"there is no option {_show(min(others))}: pass rows and interval.")
    if not isinstance(interval, bool):
        raise BadRequest("interval must be true or false.")
    return document["rows"], interval


def _refuse_constant(name: str) -> NoReturn:
    raise BadRequest(f"{name} is no JSON: write null for a missing value.")


def _read_csv(text: str, max_rows: int) -> list[Any]:
    try:
        body = io.StringIO(text, newline="")
        delimiter = find_delimiter(body.readline())
        body.seek(0)
        lines = csv.reader(body, strict=True, skipinitialspace=True, delimiter=delimiter)
        names = [name.strip() for name in next(lines, [])]
        if len(set(names)) < len(names):
            raise BadRequest("two columns of the table have one name.")
        rows = []
        for line in lines:
            if not line:
                continue
            if len(line) != len(names):
                raise BadRequest(
                    f"line {lines.line_num} has {len(line)} values for {len(names)} columns."
                )
            rows.append(dict(zip(names, read_decimals(line, delimiter), strict=True)))
            if len(rows) > max_rows:
                break  # too many, whatever follows
    except csv.Error:
        raise BadRequest("the body is not a CSV table that can be read.") from None
    return rows


def _read_named(rows: Sequence[dict[str, Any]], scorer: Scorer) -> tuple[RawRows, tuple[str, ...]]:
    names = set[str]().union(*rows)
    known = set(scorer.columns)
    if len(names) > len(known) + _MAX_EXTRA:
        raise BadRequest(
            f"the rows have {len(names):,} columns, but the model reads {len(known):,}: leave out "
            "the others."
        )
    absent = [name for name in scorer.columns if name not in names]
    if absent:
        raise BadRequest(f"the rows lack {_list(absent)}, which the model was fitted on: add them.")
    columns = []
    for name in scorer.columns:
        try:
            columns.append([row[name] for row in rows])
        except KeyError:
            row = next(i for i, row in enumerate(rows, 1) if name not in row)
            raise BadRequest(
                f"row {row} has no {_show(name)}: pass null where a value is missing."
            ) from None
    return _read_cells(columns, scorer), tuple(sorted(names - known))


def _read_ordered(rows: Sequence[list[Any]], scorer: Scorer) -> RawRows:
    d = len(scorer.columns)
    if set(map(len, rows)) != {d}:
        row, length = next((i, len(row)) for i, row in enumerate(rows, 1) if len(row) != d)
        raise BadRequest(f"row {row} has {length:,} values, but the model reads {d:,}.")
    if "category" not in scorer.kinds and set(map(type, chain.from_iterable(rows))) <= _NUMBERS:
        matrix = _to_floats(rows)
        if matrix is not None and np.isfinite(matrix).all():
            return RawRows(matrix, [])
    return _read_cells(list(map(list, zip(*rows, strict=True))), scorer)


def _read_cells(columns: Sequence[list[Any]], scorer: Scorer) -> RawRows:
    arrays = []
    for name, values in zip(scorer.columns, columns, strict=True):
        kinds = set(map(type, values))
        if not kinds <= _CELLS:
            row = next(i for i, value in enumerate(values, 1) if type(value) not in _CELLS)
            raise BadRequest(f"row {row} has a list or an object in {_show(name)}: pass a value.")
        numbers = _to_floats(values) if kinds <= _NUMBERS else None
        arrays.append(_to_objects(values) if numbers is None else numbers)
    try:
        return scorer.read_columns(arrays)
    except ValueError as error:
        raise BadRequest(str(error)) from None


def _to_floats(values: Any) -> NDArray[np.float64] | None:
    """Return numbers as an array, None if one is too large for it."""
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:
        return None


def _to_objects(values: list[Any]) -> NDArray[Any]:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(_show, names[:5])) + (", ..." if len(names) > 5 else "")


def _show(name: str) -> str:
    """Quote a name that came with a request, or its beginning."""
    return repr(name if len(name) <= 40 else f"{name[:40]}...")
