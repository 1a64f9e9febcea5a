"""Class probabilities of rows that a classifier has judged elsewhere, read from a file."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.data.columns import TableError, quoted
from regraft.data.npz_tables import open_npz, read_matrix
from regraft.data.tables import FeatureTable, check_table_file, read_table, to_matrix

_PREFIX = "probability_"
# Other ways to write it: P(sick), prob sick, p1.
_NAMED = re.compile(r"(?:(?:probability|proba|prob|p)[\s_(\[]+|p(?=\d))(.+?)[)\]]?")
_NUMBER = "row"  # column of the rows' numbers, from 1, as regraft predict writes it


@dataclass(frozen=True)
class StoredProbabilities:
    """A classifier that knows the probabilities (n, P) of some rows, in their order."""

    classes_: NDArray[Any]  # (P,)
    values: NDArray[np.floating[Any]]

    def predict_proba(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return the probabilities, of rows ``X`` that they are of."""
        return self.values


def read_probabilities(
    path: str | Path, labels: NDArray[Any], ids: NDArray[Any] | None = None, id_column: str = "id"
) -> StoredProbabilities:
    """Read class probabilities: an array ``probabilities`` in .npz, or a table's columns.

    Columns ``probability_<label>``, as ``regraft predict`` writes them, ``P(<label>)`` and
    ``<label>`` are found by their names, and what else there is is left out; of .npz, an array
    ``classes`` names them. Without such names, they are in the sorted order of ``labels``. Rows are
    matched by their ``ids``, where the file has the ``id_column`` too, or by their numbers.
    """
    path, classes = Path(path), np.unique(labels)
    check_table_file(path)
    if path.suffix.lower() == ".npz":
        with open_npz(path) as arrays:
            if "probabilities" not in arrays.files:
                raise TableError(
                    f"{path} has no array 'probabilities' (it has {quoted(arrays.files)}): save "
                    "one of shape (rows, classes)."
                )
            values = read_matrix(path, arrays, "probabilities")
            named = arrays["classes"].astype(str).tolist() if "classes" in arrays.files else []
        if not named:
            return StoredProbabilities(classes, values)
        if len(named) != values.shape[1]:
            raise TableError(f"{path} has {len(named)} classes and {values.shape[1]} columns.")
        found = _find_columns(path, named, classes)
        assert found is not None
        at = [named.index(name) for name in found]
        return StoredProbabilities(_with_others(classes, found), values[:, at])
    table = read_table(path, id=id_column, need_label=False, need_domain=False)
    columns = _find_columns(path, table.features, classes)
    if columns is None:
        columns = [name for name in table.features if name != _NUMBER]
        if (len(table), len(columns)) == (len(labels), len(classes)):  # others are refused
            warnings.warn(
                f"the columns {quoted(columns)} of {path} are taken for the classes "
                f"{quoted(list(map(str, classes)))} in this order: name them {_PREFIX}<class>.",
                stacklevel=2,
            )
    values = to_matrix(table, columns)[_match_rows(path, table, ids, id_column)]
    return StoredProbabilities(_with_others(classes, columns), values)


def _with_others(classes: NDArray[Any], columns: Sequence[str]) -> NDArray[Any]:
    """Return the classes, and behind them the names of columns that are of none of the rows."""
    others = columns[len(classes) :]
    return np.array([*classes, *others], object) if others else classes


def _find_columns(path: Path, names: Sequence[str], classes: NDArray[Any]) -> list[str] | None:
    """Return the column of each class, and those of classes that no row has; None without names."""
    prefixed = [name for name in names if name.startswith(_PREFIX)]
    plain = [str(label).strip() for label in classes]  # headers are stripped too
    found: list[str | None]
    if prefixed:
        found = [name if (name := f"{_PREFIX}{label}") in names else None for label in plain]
    else:
        told = {_class_of(name): name for name in names}
        told |= {name.casefold(): name for name in names} | {name: name for name in names}
        found = [told.get(label, told.get(label.casefold())) for label in plain]
        if not any(found):
            return None
    missing = [label for label, name in zip(plain, found, strict=True) if name is None]
    if missing:
        wanted = quoted([f"{_PREFIX}{label}" for label in missing])
        raise TableError(f"{path} has no column {wanted}: write one for each class of the data.")
    chosen = [name for name in found if name is not None]
    return [*chosen, *(name for name in prefixed if name not in chosen)]


def _class_of(name: str) -> str:
    """Return the class, in lower case, that the name of a column tells."""
    text = name.strip().casefold()
    named = _NAMED.fullmatch(text)
    return text if named is None else named[1].strip()


def _match_rows(
    path: Path, table: FeatureTable, ids: NDArray[Any] | None, id_column: str
) -> NDArray[np.intp]:
    """Return the row of the file for each row of the data; raise ``TableError`` for others."""
    n = len(table)
    if table.id is not None and ids is not None:
        own, wanted, what = table.id.astype(str), ids.astype(str), f"the column {id_column!r}"
    elif _NUMBER in table.features:
        numbers = to_matrix(table, [_NUMBER])[:, 0]
        own, wanted, what = numbers, np.arange(1.0, n + 1), f"the column {_NUMBER!r}"
    else:
        return np.arange(n)
    if len(own) == len(wanted) and (own == wanted).all():
        return np.arange(n)
    place = {value: i for i, value in enumerate(own.tolist())}
    found = [place.get(value, -1) for value in wanted.tolist()]
    if len(place) < n or len(found) != n or min(found) < 0:
        raise TableError(
            f"{path} has other rows than the data by {what}: pass the probabilities of just these "
            "rows."
        )
    return np.array(found)
