"""Matrices of features, validated; what is wrong is said by the names of columns that have one.

Sparse matrices are welcome, but every model here is fitted on dense rows, so they are filled up.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from regraft.core.whitening import row_chunks
from regraft.support.memory_map import find_mapping, released

_FLOAT_TYPES = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))
_SMALLEST_ENTRY, _LARGEST_ENTRY = 1e-100, 1e100  # squares of these stay finite
_MAX_SCALE_RATIO = 1e3
_MAX_DENSE_BYTES = 2**32  # of a sparse matrix that is filled up
_MAX_NAMES = 3
# Few entries hide the others if the range is so many times that of nine tenths of some rows.
_FAR, _TAIL, _GLANCE = 1e4, 0.05, 200
_COPIES, _MOST_COMPARED = 0.05, 20_000  # share of rows that is told, and rows compared
# Fitted by itself it would learn from rows that the model must not see.
_IN_PIPELINE = "put {} before the model in a pipeline, which fits it on the model's rows alone"


def column_names(X: Any) -> tuple[str, ...]:
    """Return the names of the columns of a data frame; none for other matrices."""
    columns = getattr(X, "columns", None)
    names = () if columns is None else tuple(columns)
    return tuple(names) if all(isinstance(name, str) for name in names) else ()


def check_no_text(X: Any, names: Sequence[str]) -> None:
    """Raise ``ValueError`` with the names of all columns of a data frame that hold text."""
    cells = np.asarray(X) if names else np.empty((0, 0))
    if cells.dtype.kind not in "OUS":
        return
    found = {
        name: row
        for name, column in zip(names, cells.T, strict=True)
        if (row := _first_text(column)) is not None
    }
    if found:
        first, row = next(iter(found.items()))
        many = len(found) > 1
        raise ValueError(
            f"column{'s' * many} {join_names(list(map(repr, found)))} hold{'s' * (not many)} text "
            f"({cells[row, list(names).index(first)]!s} in row {row} of {first!r}): "
            f"{_IN_PIPELINE.format('TableFeatures()')}."
        )


def _first_text(column: NDArray[Any]) -> int | None:
    """Return the first row of a column that is text and no number."""
    for row, value in enumerate(column):
        if isinstance(value, str | bytes):
            try:
                float(value)
            except ValueError:
                return row
    return None


def check_features(X: ArrayLike, names: Sequence[str] = ()) -> NDArray[np.floating[Any]]:
    """Return ``X`` as a finite matrix of floats, uncopied if it is one, or raise ``ValueError``.

    ``names`` are those of the columns, by default those of a data frame. Sparse matrices are
    filled up.
    """
    names = names or column_names(X)
    check_no_text(X, names)
    try:
        features = _fill_up(X) if issparse(X) else np.asarray(X)
        if features.dtype not in _FLOAT_TYPES or min(features.strides, default=0) < 0:
            features = features.astype(np.float64)  # torch takes neither other types nor reversals
    except (TypeError, ValueError) as error:
        if issparse(X):
            raise
        raise ValueError(
            f"X cannot be read as numbers ({error}): pass a matrix of numeric features."
        ) from None
    if features.ndim != 2:
        raise ValueError(
            f"X has {features.ndim} dimension(s), not 2: pass one row per sample, "
            "for example X.reshape(len(X), -1)."
        )
    if 0 in features.shape:
        raise ValueError(f"X is empty (shape {features.shape}): pass at least one row and column.")
    _check_finite(features, names)
    return features


def _check_finite(features: NDArray[np.floating[Any]], names: Sequence[str]) -> None:
    bad, first = np.zeros(features.shape[1], int), (0, 0)
    for rows in iterate_row_chunks(features):
        finite = np.isfinite(features[rows])
        if not finite.all():
            if not bad.any():
                row, column = np.argwhere(~finite)[0]
                first = rows.start + row, column
            bad += len(finite) - np.count_nonzero(finite, axis=0)
    if not bad.any():
        return
    where = f"the first in row {first[0]}, column {first[1]}"
    if names:
        columns = [repr(names[column]) for column in np.flatnonzero(bad).tolist()]
        where = f"in {_columns(columns)}, the first in row {first[0]}"
    remedy = _IN_PIPELINE.format("TableFeatures()" if names else "SimpleImputer()")
    raise ValueError(
        f"X has {bad.sum()} NaN or infinity values, {where}: drop these rows, or {remedy}."
    )


def _fill_up(X: Any) -> NDArray[Any]:
    """Return a sparse matrix as a dense one, if that is not too large."""
    rows, columns = X.shape
    needed = max(rows, columns) * columns * X.dtype.itemsize  # of the rows or of their covariance
    if needed > _MAX_DENSE_BYTES:
        raise ValueError(
            f"X is sparse, and the dense matrices that a fit needs would take "
            f"{needed / 2**30:.0f} GiB: reduce its {columns} features first, for example with "
            "sklearn.decomposition.TruncatedSVD."
        )
    dense: NDArray[Any] = X.toarray()
    return dense


def iterate_row_chunks(features: Any) -> Iterator[slice]:
    """Yield slices of the rows; pages of a memory-mapped file are released after each slice."""
    mapping = None if issparse(features) else find_mapping(features)
    return released(row_chunks(*features.shape), mapping)


def check_spread(features: NDArray[np.floating[Any]], names: Sequence[str] = ()) -> None:
    """Check the range of the features: raise if it is unusable, warn if it is badly scaled."""
    low = high = features[0]
    for rows in iterate_row_chunks(features):
        low = np.minimum(low, features[rows].min(axis=0))
        high = np.maximum(high, features[rows].max(axis=0))
    constant = np.flatnonzero(high == low).tolist()
    n, d = features.shape
    if len(constant) == d:
        raise ValueError("every feature in X is constant: there is nothing to learn from.")
    largest = float(max(abs(high.max()), abs(low.min())))
    if not _SMALLEST_ENTRY < largest < _LARGEST_ENTRY:
        raise ValueError(
            f"the largest entry of X is {largest:.0e}, out of the range that can be squared: "
            "rescale the features."
        )
    warn_of_numbering(features, names)
    if len(constant):
        which = f"{len(constant)} of {d} features are"
        if names:
            which = _columns([repr(names[c]) for c in constant])
            which += " is" if len(constant) == 1 else " are"
        them = "it" if names and len(constant) == 1 else "them"
        carry = "carries" if them == "it" else "carry"
        _warn(f"{which} constant and {carry} no information: drop {them}.")
    deviation = _deviation(features)
    widest = int(deviation.argmax())
    if deviation[widest] > _MAX_SCALE_RATIO * np.median(deviation[deviation > 0]):
        what = f"column {names[widest]!r}" if names else f"feature {widest}"
        _warn(
            f"{what} varies over {_MAX_SCALE_RATIO:g} times more than the median feature and "
            "drowns the others: standardize the features."
        )
    warn_of_outliers(dict(zip(names, features.T, strict=False)))
    _warn_of_copies(features)
    if d > n:
        _warn(
            f"X has more features ({d}) than rows ({n}), so the heads rest on the ridge alone: "
            "add rows or reduce the features."
        )


def warn_of_outliers(columns: Mapping[str, NDArray[np.floating[Any]]]) -> None:
    """Warn of columns of which few entries are so far out that the others look alike.

    What is not finite counts for nothing.
    """
    found = [repr(name) for name, column in columns.items() if _hides_others(column)]
    if found:
        _warn(
            f"{_columns(found)} {'have' if len(found) > 1 else 'has'} entries over {_FAR:,.0f} "
            "times farther out than most rows, which look alike beside them: correct or clip them."
        )


def _warn_of_copies(features: NDArray[np.floating[Any]]) -> None:
    """Warn if rows repeat others that are hardly alike by chance; very many are not compared."""
    n = len(features)
    if n > _MOST_COMPARED:
        return
    different = {row.tobytes() for row in np.ascontiguousarray(features)}
    copies = n - len(different)
    if copies < max(_COPIES * n, 2):
        return
    values = max(len(np.unique(column)) for column in features.T)
    if 2 * values >= len(different):  # a column of numbers that hardly two rows share
        _warn(
            f"{copies:,} of {n:,} rows repeat another row: tests and certificates take rows for "
            "independent, so leave copies out."
        )


def _hides_others(column: NDArray[np.floating[Any]]) -> bool:
    column = column[np.isfinite(column)]
    some = np.sort(column[:: -(-len(column) // _GLANCE) or 1].astype(np.float64))
    if not len(some):
        return False
    tail = math.ceil(_TAIL * len(some))
    inner = float(some[-tail - 1 :][0] - some[: tail + 1][-1])
    return 0 < _FAR * inner < float(np.ptp(column))


def warn_of_numbering(features: NDArray[np.floating[Any]], names: Sequence[str]) -> None:
    """Warn of columns with a name that number the rows, as ids do."""
    found = [
        repr(name)
        for name, column in zip(names, features.T, strict=False)
        if len(column) > 1 and (column[1:] - column[:-1] == 1).all()
    ]
    if found:
        many = len(found) > 1
        _warn(
            f"{_columns(found)} {'number' if many else 'numbers'} the rows and "
            f"{'are taken as features: drop them' if many else 'is taken as a feature: drop it'}."
        )


def _warn(sentence: str) -> None:
    # Beyond check_domains and the fit that calls it.
    warnings.warn(sentence, stacklevel=5)


def _columns(names: Sequence[str]) -> str:
    return f"column{'s' * (len(names) > 1)} {join_names(names)}"


def join_names(names: Sequence[str], at_most: int = _MAX_NAMES) -> str:
    """Return the first names of a list, and how many more there are."""
    shown = ", ".join(names[:at_most])
    more = len(names) - at_most
    return shown if more <= 0 else f"{shown} and {more} more"


def _deviation(features: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return the standard deviation (d,) of each feature, in float64."""
    n, d = features.shape
    mean, squares = np.zeros(d), np.zeros(d)
    for rows in iterate_row_chunks(features):
        mean += features[rows].sum(axis=0, dtype=np.float64) / n
    for rows in iterate_row_chunks(features):
        squares += np.square(features[rows] - mean).sum(axis=0)
    squares /= n
    return np.sqrt(squares, out=squares)
