"""Class probabilities of rows that a classifier has judged elsewhere, read from a file."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.data.columns import TableError, quoted
from regraft.data.npz_tables import open_npz, read_matrix, read_texts
from regraft.data.tables import FeatureTable, check_table_file, read_table, to_matrix
from regraft.estimators.column_kinds import parse_number, to_texts

_PREFIX = "probability_"
_NUMBER = "row"  # column of the rows' numbers, from 1, as regraft predict writes it
_ALL_CLASSES = 1e-3  # how far from 1 the sum of a row may be
# How the names of columns tell a class: as regraft predict writes it, P(sick) or prob sick, p1.
_NOTATIONS = (
    re.compile(rf"{_PREFIX}(.+)"),
    re.compile(r"(?:probability|proba|prob|p) ?\((.+)\)", re.IGNORECASE),
    re.compile(r"(?:probability|proba|prob|p)[\s_](.+)|p(\d+)", re.IGNORECASE),
    re.compile(r"(.+)"),
)


@dataclass(frozen=True)
class StoredProbabilities:
    """A classifier that knows the probabilities (n, P) of some rows, in their order."""

    classes_: NDArray[Any]  # (P,)
    values: NDArray[np.floating[Any]]

    def predict_proba(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return the probabilities, of rows ``X`` that they are of."""
        return self.values


def read_probabilities(
    path: str | Path,
    labels: NDArray[Any],
    ids: NDArray[Any] | None = None,
    id_column: str = "id",
    kept: NDArray[np.bool_] | None = None,
) -> StoredProbabilities:
    """Read class probabilities: an array ``probabilities`` in .npz, or a table's columns.

    Columns ``probability_<label>``, as ``regraft predict`` writes them, ``P(<label>)`` and
    ``<label>`` are found by their names, and what else there is is left out; of .npz, an array
    ``classes`` names them. Without such names, they are in the sorted order of ``labels``. Rows are
    matched by their ``ids``, if the file has the ``id_column``, else by their numbers. ``kept``
    says which rows of the data's file the labels are of; None for all.
    """
    path, classes = Path(path), np.unique(labels)
    kept = np.ones(len(labels), np.bool_) if kept is None else kept
    check_table_file(path)
    if path.suffix.lower() == ".npz":
        return _read_arrays(path, classes, kept)
    table = read_table(path, need_label=False, need_domain=False)
    names = [name for name in table.features if name != id_column]
    columns = _find_columns(path, names, classes)
    if columns is None:
        columns = [name for name in names if name != _NUMBER]
        _check_order(path, columns, classes, has_rows=len(table) == len(kept))
    elif others := [name for name in names if name not in (*columns, _NUMBER)]:
        columns = _add_classes(table, columns, others)
    rows = _match_rows(path, table, columns, ids, id_column, kept)
    return StoredProbabilities(_with_others(classes, columns), to_matrix(table, columns)[rows])


def _read_arrays(path: Path, classes: NDArray[Any], kept: NDArray[np.bool_]) -> StoredProbabilities:
    with open_npz(path) as arrays:
        if "probabilities" not in arrays.files:
            raise TableError(
                f"{path} has no array 'probabilities' (it has {quoted(arrays.files)}): save one "
                "of shape (rows, classes)."
            )
        values = read_matrix(path, arrays, "probabilities")
        names = read_texts(path, arrays, "classes") if "classes" in arrays.files else None
    values = values[kept] if len(values) == len(kept) else values
    if names is None:
        return StoredProbabilities(classes, values)
    if len(names) != values.shape[1]:
        raise TableError(
            f"{path} has {len(names)} classes and {values.shape[1]} columns of probabilities: "
            "name one for each."
        )
    chosen = _find_columns(path, names, classes)
    if chosen is None:
        raise TableError(
            f"{path} has the classes {quoted(names)}, and the data "
            f"{quoted(list(map(str, classes)))}: name the same."
        )
    chosen += [name for name in names if name not in chosen]
    order = [names.index(name) for name in chosen]
    return StoredProbabilities(_with_others(classes, chosen), values[:, order])


def _check_order(
    path: Path, columns: Sequence[str], classes: NDArray[Any], *, has_rows: bool
) -> None:
    """Warn that columns without names of classes are taken in order; refuse more or fewer."""
    shown = quoted(list(map(str, classes)))
    if len(columns) != len(classes):
        raise TableError(
            f"{path} has the columns {quoted(columns)}, and the data the classes {shown}: write a "
            f"column {_PREFIX}<class> for each."
        )
    if has_rows:  # others are refused
        warnings.warn(
            f"the columns {quoted(columns)} of {path} are taken for the classes {shown} in this "
            f"order: name them {_PREFIX}<class>.",
            stacklevel=3,
        )


def _add_classes(table: FeatureTable, columns: list[str], others: list[str]) -> list[str]:
    """Return all columns if only with the others, of classes that no row has, rows sum to one."""
    try:
        known, more = to_matrix(table, columns).sum(axis=1), to_matrix(table, others).sum(axis=1)
    except TableError:  # they hold other things
        return columns
    is_whole, would_be = (np.abs(total - 1) <= _ALL_CLASSES for total in (known, known + more))
    return [*columns, *others] if would_be.all() and not is_whole.all() else columns


def _with_others(classes: NDArray[Any], columns: Sequence[str]) -> NDArray[Any]:
    """Return the classes, and behind them the names of columns that are of none of the rows."""
    others = columns[len(classes) :]
    return np.array([*classes, *others], object) if others else classes


def _find_columns(path: Path, names: Sequence[str], classes: NDArray[Any]) -> list[str] | None:
    """Return the column of each class, and those of classes that no row has; None without names.

    All are named in one way. Upper and lower case count only where they tell classes apart.
    """
    best: list[str] = []
    for notation in _NOTATIONS:
        texts = {
            name: next(filter(None, found.groups())).strip()
            for name in names
            if (found := notation.fullmatch(name.strip()))
        }
        for write in (_as_number, str.casefold):
            chosen, missing = _pick(path, texts, classes, write)
            if not missing:
                # Of the other columns in such a notation, each is of a class that no row has.
                rest = [] if notation is _NOTATIONS[-1] else texts
                return [*chosen, *(name for name in rest if name not in chosen)]
            if len(missing) < len(classes):
                best = best or missing
    if best:
        wanted = quoted([f"{_PREFIX}{label}" for label in best])
        raise TableError(f"{path} has no column {wanted}: write one for each class of the data.")
    return None


def _as_number(text: str) -> str:
    """Write numbers in one way, so that 1 and 1.0 are one class; leave other texts."""
    try:
        return repr(parse_number(text))
    except ValueError:
        return text


def _pick(
    path: Path, texts: Mapping[str, str], classes: NDArray[Any], write: Callable[[str], str]
) -> tuple[list[str], list[str]]:
    """Return the columns of the classes, by what their names say, and the classes without one."""
    chosen, missing = list[str](), list[str]()
    for label in map(str, classes):
        found = [name for name, text in texts.items() if write(text) == write(label.strip())]
        if len(found) > 1 or set(found) & set(chosen):
            raise TableError(
                f"{path} has columns {quoted(list(texts))}, which do not tell the classes "
                f"{quoted(list(map(str, classes)))} apart: name them {_PREFIX}<class>."
            )
        chosen += found
        missing += [] if found else [label]
    return chosen, missing


def _match_rows(
    path: Path,
    table: FeatureTable,
    columns: Sequence[str],
    ids: NDArray[Any] | None,
    id_column: str,
    kept: NDArray[np.bool_],
) -> NDArray[np.intp]:
    """Return the row of the file for each row of the data; raise ``TableError`` for others."""
    n = len(table)
    assert isinstance(table.X, Mapping)
    if id_column in table.features and ids is not None:
        name, wanted = id_column, to_texts(ids).tolist()
    elif _NUMBER in table.features and _NUMBER not in columns:
        name, wanted = _NUMBER, [str(i + 1) for i in np.flatnonzero(kept)]
    else:
        if id_column in table.features:
            warnings.warn(
                f"{path} has a column {id_column!r}, which the data lack or have gaps in: its rows "
                "are taken in their order.",
                stacklevel=3,
            )
        return np.flatnonzero(kept) if n == len(kept) else np.arange(n)
    own = to_texts(table.X[name]).tolist()
    place = {value: i for i, value in enumerate(own)}
    if len(place) < n or None in place:
        raise TableError(
            f"{path} has some {name!r} twice or not at all: write another one in each row, or "
            "leave the column out."
        )
    missing = [value for value in wanted if value not in place]
    if missing:
        raise TableError(
            f"{path} has no row with {missing[0]!r} as {name!r}, which the data have: pass the "
            "probabilities of all rows."
        )
    if len(set(wanted)) < len(wanted):
        raise TableError(f"the data have some {name!r} twice: write another one in each row.")
    return np.array([place[value] for value in wanted])
