"""Labelled data of several source domains, validated once."""

from __future__ import annotations

import mmap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from regraft.core.whitening import row_chunks
from regraft.support.memory_map import find_mapping, release, released

_FLOAT_TYPES = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))
_SMALLEST_ENTRY, _LARGEST_ENTRY = 1e-100, 1e100  # squares of these stay finite
_MAX_SCALE_RATIO = 1e3


@dataclass(frozen=True)
class Domains:
    """Rows of K source domains, in the user's order; ``X`` shares the user's memory.

    ``weight`` sums to one and gives every domain the same mass, however many rows it has.
    """

    X: Tensor  # (n, d)
    y: Tensor  # (n,) index into classes
    domain: Tensor  # (n,) index into names
    weight: Tensor  # (n,)
    classes: NDArray[Any]  # (C,) labels as the user wrote them
    names: NDArray[Any]  # (K,) domain labels as the user wrote them
    mapping: mmap.mmap | None = None  # the memory-mapped file behind X, if it may be released


def check_domains(
    X: ArrayLike,
    y: ArrayLike,
    sample_domain: ArrayLike | None = None,
    *,
    device: str = "cpu",
) -> Domains:
    """Validate arrays and pack them as :class:`Domains`.

    ``y`` and ``sample_domain`` (n,) may hold labels of any sortable kind; without
    ``sample_domain`` all rows belong to one domain. Invalid data raise ``ValueError``.
    """
    check_device(device)
    features = check_features(X)
    if sample_domain is None:
        sample_domain = np.zeros(len(features), int)
    classes, y_index = index_column(y, "y", len(features))
    names, domain_index = index_column(sample_domain, "sample_domain", len(features))
    _check_counts(classes, y_index, names, domain_index)
    _check_spread(features)
    with warnings.catch_warnings():
        # Read-only arrays (memory maps, data frames) are welcome: nothing here writes to X.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        rows = torch.from_numpy(features).to(device)
    mapping = find_mapping(features)
    release(mapping)
    return Domains(
        X=rows,
        y=torch.from_numpy(y_index).to(device),
        domain=torch.from_numpy(domain_index).to(device),
        weight=equal_domain_weights(torch.from_numpy(domain_index), len(names)).to(device),
        classes=classes,
        names=names,
        mapping=mapping if rows.device.type == "cpu" else None,
    )


def is_target(sample_domain: ArrayLike) -> NDArray[np.bool_]:
    """Return which rows (n,) are of a target: those whose domain is a negative integer."""
    domain = np.asarray(sample_domain)
    return domain < 0 if domain.dtype.kind == "i" else np.zeros(domain.shape, dtype=bool)


def equal_domain_weights(domain: Tensor, n_domains: int) -> Tensor:
    """Return weights (n,) that sum to one and give every domain of ``domain`` (n,) equal mass."""
    counts = torch.bincount(domain, minlength=n_domains)
    return 1.0 / (n_domains * counts[domain]).double()


def domain_slices(domain: Tensor, n_domains: int) -> tuple[slice, ...]:
    """Return the slice of rows of each domain; ``domain`` (n,) must be sorted."""
    bounds = torch.searchsorted(domain, torch.arange(n_domains + 1, device=domain.device))
    return tuple(slice(a, b) for a, b in pairwise(bounds.tolist()))


def check_features(X: ArrayLike) -> NDArray[np.floating[Any]]:
    """Return ``X`` as a finite matrix of floats, uncopied if it is one, or raise ``ValueError``."""
    try:
        features = np.asarray(X)
        if features.dtype not in _FLOAT_TYPES or min(features.strides, default=0) < 0:
            features = features.astype(np.float64)  # torch takes neither other types nor reversals
    except (TypeError, ValueError) as error:
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
    bad, first = 0, (0, 0)
    for rows in iterate_row_chunks(features):
        finite = np.isfinite(features[rows])
        if not finite.all():
            if not bad:
                row, column = np.argwhere(~finite)[0]
                first = rows.start + row, column
            bad += finite.size - np.count_nonzero(finite)
    if bad:
        raise ValueError(
            f"X has {bad} NaN or infinity values, the first in row {first[0]}, column "
            f"{first[1]}: drop or impute them."
        )
    return features


def iterate_row_chunks(features: NDArray[Any]) -> Iterator[slice]:
    """Yield slices of the rows; pages of a memory-mapped file are released after each slice."""
    return released(row_chunks(*features.shape), find_mapping(features))


def check_device(device: str) -> None:
    """Raise ``ValueError`` unless torch can compute on ``device``."""
    try:
        torch.zeros(1, dtype=torch.float64, device=device).item()
    except (AssertionError, NotImplementedError, RuntimeError, TypeError):
        raise ValueError(f"device {device!r} is not available here: pass cpu.") from None


def warn_if_one_domain(domains: Domains, consequence: str) -> None:
    """Warn, if there is one domain only, that nothing is known about how domains differ."""
    if len(domains.names) == 1:
        warnings.warn(
            f"all rows belong to one domain, so {consequence}: add rows of another domain.",
            stacklevel=3,
        )


def index_column(
    values: ArrayLike, name: str, n_rows: int
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the sorted distinct values of a column (n,), and each row's index (n,) into them."""
    column = _column(values, name)
    if len(column) != n_rows:
        raise ValueError(f"X has {n_rows} rows but {name} has {len(column)}: pass one per row.")
    try:
        distinct, index = np.unique(column, return_inverse=True)
    except TypeError:
        raise ValueError(
            f"{name} mixes values that cannot be sorted: make them all strings or all numbers."
        ) from None
    return distinct, index


def _column(values: ArrayLike, name: str) -> NDArray[Any]:
    column = np.asarray(values)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise ValueError(f"{name} has shape {column.shape}: pass one value per row of X.")
    kind = column.dtype.kind
    if kind == "f" and not np.isfinite(column).all():
        raise ValueError(f"{name} holds NaN or infinity: drop those rows.")
    no_time = kind in "mM" and np.isnat(column).any()
    if no_time or (kind == "O" and any(map(_is_missing, column))):
        raise ValueError(f"{name} holds missing values: drop those rows.")
    return column


def _is_missing(value: Any) -> bool:
    # pandas' NA and NaT compare to nothing, themselves included.
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _check_counts(
    classes: NDArray[Any],
    y_index: NDArray[np.intp],
    names: NDArray[Any],
    domain_index: NDArray[np.intp],
) -> None:
    if len(classes) < 2:
        raise ValueError(f"y has one class only ({classes[0]!s}): a classifier needs two or more.")
    cell = domain_index * len(classes) + y_index
    counts = np.bincount(cell, minlength=len(names) * len(classes)).reshape(len(names), -1)
    for s, name in enumerate(names):
        if counts[s].sum() == 1:
            raise ValueError(
                f"domain {name!s} has one sample: drop the domain or merge it with another."
            )
    for c, label in enumerate(classes):
        if counts[:, c].sum() == 1:
            raise ValueError(f"class {label!s} has one sample: drop the class or add samples.")
        missing = [str(names[s]) for s in np.flatnonzero(counts[:, c] == 0)]
        if missing:
            raise ValueError(
                f"class {label!s} is missing from domain {_join_names(missing)}: drop the class, "
                "drop the domain, or merge domains until each holds every class."
            )


def _check_spread(features: NDArray[np.floating[Any]]) -> None:
    """Check the range of the features: raise if it is unusable, warn if it is badly scaled."""
    low = high = features[0]
    for rows in iterate_row_chunks(features):
        low = np.minimum(low, features[rows].min(axis=0))
        high = np.maximum(high, features[rows].max(axis=0))
    constant = int((high == low).sum())
    n, d = features.shape
    if constant == d:
        raise ValueError("every feature in X is constant: there is nothing to learn from.")
    largest = float(max(abs(high.max()), abs(low.min())))
    if not _SMALLEST_ENTRY < largest < _LARGEST_ENTRY:
        raise ValueError(
            f"the largest entry of X is {largest:.0e}, out of the range that can be squared: "
            "rescale the features."
        )
    if constant:
        warnings.warn(
            f"{constant} of {d} features are constant and carry no information: drop them.",
            stacklevel=4,
        )
    deviation = _deviation(features)
    largest_feature = int(deviation.argmax())
    if deviation[largest_feature] > _MAX_SCALE_RATIO * np.median(deviation[deviation > 0]):
        warnings.warn(
            f"feature {largest_feature} varies over {_MAX_SCALE_RATIO:g} times more than the "
            "median feature and drowns the others: standardize the features.",
            stacklevel=4,
        )
    if d > n:
        warnings.warn(
            f"X has more features ({d}) than rows ({n}), so the heads rest on the ridge alone: "
            "add rows or reduce the features.",
            stacklevel=4,
        )


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


def _join_names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
