"""Columns of tables as they come: numbers, categories, and what is no feature."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

MISSING_TEXTS = frozenset({"", "na", "n/a", "<na>", "nan", "null", "none", "?"})  # in any case
_TRUTH = {"true": True, "false": False}  # likewise
FREE_TEXT = "is free text"  # a reason to leave a column out
IS_MISSING, EQUALS = " is missing", "="  # in names of features made of gaps and texts
_ID_NAME = re.compile(r"(?i)(.*[ _.-])?(id|uuid|guid)|.*[a-z]I[Dd]|unnamed: 0|row_?(number|nr)")
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})( .*)?"
)
_MIN_ROWS = 20  # fewer values that all differ say nothing about a column
_NEARLY_ALL = 0.95  # share of different values in an id or a free text
_RANGE = 20  # times the number of rows: how far apart ids lie at most
_LONG, _VERY_LONG = 25, 60  # mean number of characters in a free text, among categories
_FEW_VALUES, _REPEATS = 20, 5  # of a category that is mostly written in numbers
_SHOWN = 3  # cells in a sentence
_PROBLEMS = 20  # in one message
_LARGEST = 1e100  # of a number: squares of larger ones leave no room for sums

Columns = Mapping[str, NDArray[Any]]  # by name, (n,) each
Kind = Literal["number", "category"]


def parse_cell(cell: Any) -> float | bool | str | None:
    """Return a cell as a number, a truth value, a text, or None if it is missing."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):  # pandas' own
        return None
    if isinstance(cell, bool | np.bool_):
        return bool(cell)
    if isinstance(cell, str):
        text = cell.strip()
        if text.lower() in MISSING_TEXTS:
            return None
        if text.lower() in _TRUTH:
            return _TRUTH[text.lower()]
    elif isinstance(cell, list | tuple | dict | set | bytes | np.ndarray):
        raise TypeError(f"a {type(cell).__name__}")
    else:
        text = str(cell)
    try:
        number = parse_number(text)
    except ValueError:
        return text
    return None if np.isnan(number) else number


def parse_number(text: str) -> float:
    """Return the number that a text is; raise ``ValueError`` if it is none.

    ``float`` takes 20_30 for 2030, which in tables is a code or a range, and the digits of all
    scripts.
    """
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)


def to_numbers(values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return numbers (n,), NaN where there is none, and the rows that hold something else."""
    if values.dtype.kind in "fiub":
        return values.astype(np.float64), np.empty(0, np.intp)
    parsed = _parse(values, lambda cell: cell)
    texts = [row for row, cell in enumerate(parsed) if isinstance(cell, str)]
    numbers = [np.nan if cell is None or isinstance(cell, str) else cell for cell in parsed]
    return np.array(numbers, np.float64), np.array(texts, np.intp)


def to_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Return the texts (n,) that stand for categories, None where a cell is missing.

    Numbers are written in one way, so that 1, 1.0 and "01" are one category.
    """
    texts = np.empty(len(values), object)
    texts[:] = _parse(values, _write)
    return texts


def _write(cell: float | bool | str | None) -> str | None:
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "TRUE" if cell else "FALSE"
    return str(int(cell)) if cell.is_integer() else repr(cell)


def _parse(values: NDArray[Any], convert: Callable[[Any], Any]) -> list[Any]:
    """Parse the cells, each different one once, and ``convert`` them."""
    cells = values.tolist()
    try:
        # True equals 1, so the type belongs to the key.
        known = {(type(cell), cell): cell for cell in cells}
    except TypeError:
        raise TypeError(f"a {next(type(c) for c in cells if not _is_plain(c)).__name__}") from None
    parsed = {key: convert(parse_cell(cell)) for key, cell in known.items()}
    return [parsed[type(cell), cell] for cell in cells]


def _is_plain(cell: Any) -> bool:
    try:
        hash(cell)
    except TypeError:
        return False
    return True


@dataclass(frozen=True)
class RawColumn:
    """One column of a table, which is studied before it serves as a feature."""

    name: str
    values: NDArray[Any]  # (n,)
    is_category: bool = False  # it was said to be one

    def problem(self) -> str | None:
        """Say in one sentence why the column cannot be used and how to repair it, if so."""
        try:
            self._numbers  # noqa: B018
        except TypeError as error:
            return self._nested(error, "drop the column")
        if self.kind == "category":
            return None
        return self._find_problem("numbers", "repair them, or name the column as categorical")

    def number_problem(self) -> str | None:
        """Say in one sentence why a model that reads numbers here cannot read a cell, if so."""
        return self._find_problem("numbers for the model", "repair or empty the cell")

    def _find_problem(self, what: str, remedy: str) -> str | None:
        try:
            numbers, bad = self._numbers
        except TypeError as error:
            return self._nested(error, remedy)
        if len(bad):
            return (
                f"column {self.name!r} holds {what}, but not in {_show_rows(bad, self.values)}: "
                f"{remedy}."
            )
        for what, wrong in (
            ("an infinite number", np.isinf(numbers)),
            (f"a number beyond {_LARGEST:g}", abs(numbers) > _LARGEST),
        ):
            if wrong.any():
                return (
                    f"column {self.name!r} holds {what} in "
                    f"{_show_rows(np.flatnonzero(wrong), self.values)}: repair it, or leave it "
                    "empty."
                )
        return None

    def text_problem(self) -> str | None:
        """Say in one sentence why a model that reads categories here cannot read a cell, if so."""
        try:
            self.counts  # noqa: B018
        except TypeError as error:
            return self._nested(error, "repair or empty the cell")
        return None

    def _nested(self, error: TypeError, remedy: str) -> str:
        return f"column {self.name!r} holds {error} in a cell: {remedy}."

    @cached_property
    def kind(self) -> Kind:
        """Numbers, or categories: what is mostly text, or says so, or has few written values."""
        bad = self._numbers[1]
        if self.is_category:
            return "category"
        if not len(bad):
            return "number"
        present = self.counts.total()
        few = len(self.counts) <= min(_FEW_VALUES, present // _REPEATS)
        return "category" if few or 2 * len(bad) > present else "number"

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each text occurs that is not missing."""
        return Counter(text for text in to_texts(self.values).tolist() if text is not None)

    @cached_property
    def _numbers(self) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        return to_numbers(self.values)

    def numbers(self) -> NDArray[np.float64]:
        """Return the column as numbers (n,)."""
        return self._numbers[0]

    def find_reason(self, max_categories: int) -> str | None:
        """Say in a few words why the column is no feature; None if it is one."""
        numbers = self.numbers()
        if self.kind == "number":
            present = numbers[~np.isnan(numbers)]
            if len(present) == 0:
                return "is empty"
            if len(present) == len(numbers) and (present == present[0]).all():
                return "is constant"
            return self._number_reason(present)
        if not self.counts:
            return "is empty"
        present_texts = self.counts.total()
        if present_texts == len(numbers) and len(self.counts) == 1:
            return "is constant"
        reason = None if self.is_category else self._text_reason(present_texts, max_categories)
        if reason is not None and all(map(_DATE.fullmatch, self.counts)):
            return "looks like a date"
        return reason

    def _number_reason(self, present: NDArray[np.float64]) -> str | None:
        if len(present) < 2 or not (present == np.floor(present)).all():
            return None
        if (np.diff(present) == 1).all() and len(present) > 2:
            return "numbers the rows"
        share = len(np.unique(present)) / len(present)
        # Ids lie close together or rise; sums of money and the like do neither.
        is_dense = np.ptp(present) <= _RANGE * len(present) or (np.diff(present) > 0).all()
        if share >= _NEARLY_ALL and len(present) >= _MIN_ROWS and is_dense:
            return "has another whole number in nearly every row, as an id has"
        if share > 0.5 and _ID_NAME.fullmatch(self.name):
            return "is named as an id"
        return None

    def _text_reason(self, present: int, max_categories: int) -> str | None:
        distinct = len(self.counts)
        if present < _MIN_ROWS or distinct <= 2:
            return None
        length = sum(len(text) * times for text, times in self.counts.items()) / present
        nearly_all = distinct >= _NEARLY_ALL * present
        if (nearly_all and length > _LONG) or (distinct > max_categories and length > _VERY_LONG):
            return FREE_TEXT
        if nearly_all:
            return "has another text in nearly every row, as an id has"
        if distinct > 0.5 * present and _ID_NAME.fullmatch(self.name):
            return "is named as an id"
        kept = sum(times for _, times in self.counts.most_common(max_categories))
        if 2 * kept < present:
            return f"has too many different texts ({distinct:,} in {present:,} rows)"
        return None


def _show_rows(rows: NDArray[np.intp], values: NDArray[Any]) -> str:
    """Name the first rows, with what they hold."""
    cells = [(row + 1, str(values[row])) for row in rows[:_SHOWN].tolist()]
    shown = ", ".join(
        f"row {number} ({text!r})" if len(text) <= 40 else f"row {number} (a long text)"
        for number, text in cells
    )
    more = len(rows) - len(cells)
    return f"{shown} and {more:,} more" if more else shown


def describe_unknown(counts: Mapping[str, int], known: str = "fit") -> str:
    """Say in how many rows each categorical column holds what fit has not seen; "" if in none.

    ``known`` is what it did not occur in.
    """
    shown = ", ".join(f"{name!r} ({n:,} row{'s' * (n > 1)})" for name, n in counts.items() if n)
    said = f"these columns hold values or gaps that did not occur in {known} and count for nothing"
    return f"{said}: {shown}." if shown else ""


def find_alike(name: str, names: Iterable[str]) -> str | None:
    """Return the one of ``names`` that was probably meant, if there is one."""
    by_case = {each.lower(): each for each in names}
    alike = get_close_matches(name.lower(), by_case, 1)
    return by_case[alike[0]] if alike else None


def take_rows(table: Columns, rows: NDArray[Any] | None) -> Columns:
    """Return the rows of a table that a mask or numbers choose, all if there are none."""
    return table if rows is None else {name: values[rows] for name, values in table.items()}


class ColumnProblems(ValueError):
    """Columns that cannot be used; the message tells all of their ``problems``."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(join_problems(problems, "the table"))
        self.problems = tuple(problems)


def join_problems(problems: Sequence[str], what: str) -> str:
    """Write one problem as it is, and several as one message with numbers."""
    if len(problems) == 1:
        return problems[0]
    shown = problems if len(problems) <= _PROBLEMS else problems[: _PROBLEMS - 1]
    parts = "; ".join(f"({i}) {text.removesuffix('.')}" for i, text in enumerate(shown, 1))
    more = len(problems) - len(shown)
    parts += f"; and {more:,} more" if more else ""
    return f"{what} has {len(problems)} problems: {parts}."
