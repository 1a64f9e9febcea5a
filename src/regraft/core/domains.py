"""Labelled data of several source domains, validated once."""

from __future__ import annotations

import mmap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from regraft.core.features import check_features, check_spread, column_names, join_names
from regraft.support.memory_map import find_mapping, release

_FEW = 30  # rows of a domain
_MANY = 20  # classes or domains, beyond which values that occur once tell that they are none
_MAX_NOTES = 5  # of one kind; of more, the first is told and the others are counted
WEIGHTED_NOTE = (
    "The rows have weights: risks and accuracies are weighted means, and their bounds count "
    "effective rows."
)


@dataclass(frozen=True)
class Domains:
    """Rows of K source domains, in the user's order; ``X`` shares the user's memory.

    ``weight`` sums to one and gives every domain the same mass, however many rows it has. Within a
    domain it is in proportion to ``row_weight``, the user's own weights.
    """

    X: Tensor  # (n, d)
    y: Tensor  # (n,) index into classes
    domain: Tensor  # (n,) index into names
    weight: Tensor  # (n,)
    classes: NDArray[Any]  # (C,) labels as the user wrote them
    names: NDArray[Any]  # (K,) domain labels as the user wrote them
    row_weight: Tensor  # (n,) for how many rows each row counts; ones, or of mean one
    mapping: mmap.mmap | None = None  # the memory-mapped file behind X, if it may be released

    @property
    def texts(self) -> list[str]:
        """Domain labels as text."""
        return [str(name) for name in self.names]

    @property
    def counts(self) -> Tensor:
        """Number of rows (K, C) of each domain and class."""
        return count_cells(self.domain, self.y, len(self.names), len(self.classes))

    def notes(self) -> tuple[str, ...]:
        """Say what a certificate of these rows must say: classes that sources lack, and weights."""
        missing = _missing(self.names, self.classes, self.counts.cpu().numpy())
        return (*missing, WEIGHTED_NOTE) if bool((self.row_weight != 1).any()) else missing


def check_domains(
    X: ArrayLike,
    y: ArrayLike,
    sample_domain: ArrayLike | None = None,
    *,
    row_weight: NDArray[np.float64] | None = None,
    columns: Sequence[str] = (),
    device: str = "cpu",
) -> Domains:
    """Validate arrays and pack them as :class:`Domains`.

    ``y`` and ``sample_domain`` (n,) may hold labels of any sortable kind; without
    ``sample_domain`` all rows belong to one domain. ``row_weight`` (n,) is positive. ``columns``
    are the names of the features, by default those of a data frame. Invalid data raise
    ``ValueError``; data that can be fitted and make little sense give warnings.
    """
    check_device(device)
    columns = columns or column_names(X)
    features = check_features(X, columns)
    if sample_domain is None:
        sample_domain = np.zeros(len(features), int)
    classes, y_index = index_column(y, "y", len(features))
    names, domain_index = index_column(sample_domain, "sample_domain", len(features))
    domain, label = torch.from_numpy(domain_index), torch.from_numpy(y_index)
    counts = count_cells(domain, label, len(names), len(classes)).numpy()
    _check_counts(classes, names, counts)
    _warn_of_domains(classes, names, counts)
    check_spread(features, columns)
    relative = torch.ones(len(label), dtype=torch.float64)
    if row_weight is not None and row_weight.min() < row_weight.max():
        relative = torch.from_numpy(row_weight / row_weight.mean())
    with warnings.catch_warnings():
        # Read-only arrays (memory maps, data frames) are welcome: nothing here writes to X.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        rows = torch.from_numpy(features).to(device)
    mapping = find_mapping(features)
    release(mapping)
    return Domains(
        X=rows,
        y=label.to(device),
        domain=domain.to(device),
        weight=equal_domain_weights(domain, len(names), relative).to(device),
        classes=classes,
        names=names,
        row_weight=relative.to(device),
        mapping=mapping if rows.device.type == "cpu" else None,
    )


def is_target(sample_domain: ArrayLike) -> NDArray[np.bool_]:
    """Return which rows (n,) are of a target: those whose domain is a negative integer."""
    domain = np.asarray(sample_domain)
    return domain < 0 if domain.dtype.kind == "i" else np.zeros(domain.shape, dtype=bool)


def equal_domain_weights(
    domain: Tensor, n_domains: int, row_weight: Tensor | None = None
) -> Tensor:
    """Return weights (n,) that sum to one and give every domain of ``domain`` (n,) equal mass.

    Within a domain they are in proportion to ``row_weight`` (n,), or equal.
    """
    relative = torch.ones_like(domain, dtype=torch.float64) if row_weight is None else row_weight
    sums = torch.bincount(domain, weights=relative, minlength=n_domains)
    return relative / (n_domains * sums[domain])


def count_cells(domain: Tensor, y: Tensor, n_domains: int, n_classes: int) -> Tensor:
    """Return the number of rows (K, C) of each domain and class."""
    counts = torch.bincount(domain * n_classes + y, minlength=n_domains * n_classes)
    return counts.reshape(n_domains, n_classes)


def domain_slices(domain: Tensor, n_domains: int) -> tuple[slice, ...]:
    """Return the slice of rows of each domain; ``domain`` (n,) must be sorted."""
    bounds = torch.searchsorted(domain, torch.arange(n_domains + 1, device=domain.device))
    return tuple(slice(a, b) for a, b in pairwise(bounds.tolist()))


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
    column = check_column(values, name)
    if len(column) != n_rows:
        raise ValueError(f"X has {n_rows} rows but {name} has {len(column)}: pass one per row.")
    try:
        distinct, index = np.unique(column, return_inverse=True)
    except TypeError:
        raise ValueError(
            f"{name} mixes values that cannot be sorted: make them all strings or all numbers."
        ) from None
    return distinct, index


def keep_integers(values: Any) -> Any:
    """Return whole numbers and truth values of pandas' own types as numpy's, others as they are.

    On the way to an array they would become floats, which are not exact beyond 2**53.
    """
    if getattr(values, "ndim", 1) == 2 and values.shape[1] == 1 and hasattr(values, "iloc"):
        values = values.iloc[:, 0]
    kept = getattr(getattr(values, "dtype", None), "numpy_dtype", None)
    if kept is None or kept.kind not in "iub" or values.isna().any():
        return values
    return values.to_numpy(kept)


def check_column(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return a column (n,), or raise ``ValueError`` if it is none or has gaps."""
    column = np.asarray(keep_integers(values))
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise ValueError(f"{name} has shape {column.shape}: pass one value per row of X.")
    kind = column.dtype.kind
    missing = np.zeros(len(column), bool)
    if kind == "f":
        missing = ~np.isfinite(column)
    elif kind in "mM":
        missing = np.isnat(column)
    elif kind == "O":
        missing = np.fromiter(map(is_missing_value, column), bool, len(column))
    if missing.any():
        n = int(missing.sum())
        raise ValueError(
            f"{name} is missing, NaN or infinite in {n:,} row{'s' * (n > 1)}, the first of them "
            f"row {int(missing.argmax())}: drop {'those rows' if n > 1 else 'that row'}."
        )
    return column


def is_missing_value(value: Any) -> bool:
    """Return whether a cell is a gap."""
    # pandas' NA and NaT compare to nothing, themselves included.
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _check_counts(
    classes: NDArray[Any], names: NDArray[Any], counts: NDArray[np.integer[Any]]
) -> None:
    """Raise ``ValueError`` if ``counts`` (K, C) of rows leave nothing to fit."""
    check_kinds(counts.sum(axis=0), counts.sum(axis=1))
    if len(classes) < 2:
        raise ValueError(f"y has one class only ({classes[0]!s}): a classifier needs two or more.")
    for name, rows in zip(names, counts.sum(axis=1), strict=True):
        if rows == 1:
            raise ValueError(
                f"domain {name!s} has one sample: drop the domain or merge it with another."
            )
    for label, rows in zip(classes, counts.sum(axis=0), strict=True):
        if rows == 1:
            raise ValueError(f"class {label!s} has one sample: drop the class or add samples.")
    if len(names) > 1 and ((counts > 0).sum(axis=0) < 2).all():
        raise ValueError(
            "no class has rows in two domains, so labels cannot be told from domains: add rows "
            "until some class is in two domains, or pass the rows as one domain."
        )


def check_kinds(
    classes: NDArray[np.integer[Any]],
    domains: NDArray[np.integer[Any]],
    names: tuple[str, str] = ("y", "sample_domain"),
) -> None:
    """Raise ``ValueError`` if labels are measurements, or domains are ids.

    ``classes`` (C,) and ``domains`` (K,) are the numbers of rows of each, and ``names`` what to
    call the two columns.
    """
    said = "{} has {:,} different values in {:,} rows, as {} have: {}."
    if len(classes) > _MANY and (classes == 1).any():
        remedy = "take a column of classes, or cut the numbers into a few classes"
        raise ValueError(said.format(names[0], len(classes), classes.sum(), "measurements", remedy))
    if len(domains) > _MANY and 2 * (domains == 1).sum() > len(domains):
        remedy = "take a column that says where rows come from, such as a hospital or a year"
        raise ValueError(said.format(names[1], len(domains), domains.sum(), "ids", remedy))


def _warn_of_domains(
    classes: NDArray[Any], names: NDArray[Any], counts: NDArray[np.integer[Any]]
) -> None:
    """Warn of domains of few rows, and of those that lack a class."""
    few = [
        f"domain {name!s} has {rows} rows: what is said about so few is mostly noise."
        for name, rows in zip(names, counts.sum(axis=1), strict=True)
        if rows < _FEW and len(names) > 1
    ]
    for sentence in (*_shorten(few, "domains have few rows"), *_missing(names, classes, counts)):
        warnings.warn(sentence, stacklevel=4)


def _missing(
    names: NDArray[Any], classes: NDArray[Any], counts: NDArray[np.integer[Any]]
) -> tuple[str, ...]:
    """Say which sources lack which classes, one sentence for each source and each lone class."""
    lacking, lone = [], []
    for name, row in zip(names, counts, strict=True):
        labels = [str(classes[c]) for c in np.flatnonzero(row == 0)]
        if labels:
            many = len(labels) > 1
            lacking.append(
                f"source {name!s} has no rows of class{'es' * many} {join_names(labels)}: it says "
                f"nothing about {'them' if many else 'it'}."
            )
    for label, column in zip(classes, counts.T, strict=True):
        holders = np.flatnonzero(column)
        if len(holders) == 1 and len(names) > 1:
            lone.append(
                f"class {label!s} has rows in source {names[holders[0]]!s} only: what tells it "
                "apart may be the source itself."
            )
    return (
        *_shorten(lacking, "sources lack classes"),
        *_shorten(lone, "classes are in one source only"),
    )


def _shorten(sentences: list[str], what: str) -> list[str]:
    if len(sentences) <= _MAX_NOTES:
        return sentences
    return [f"{sentences[0].removesuffix('.')}, and {len(sentences) - 1:,} more {what}."]
