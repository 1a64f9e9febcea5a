"""Confounded problems with known truth, drawn from rows of real data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from regraft.core.domains import index_column


@dataclass(frozen=True)
class PlantedDomains:
    """Rows of K sources and of an unseen domain, none of them drawn twice.

    ``factor`` is the truth behind the confounder, to measure with and never to fit on.
    """

    X: NDArray[Any]  # (n, d)
    y: NDArray[Any]  # (n,)
    sample_domain: NDArray[np.str_]  # (n,) "source 0", "source 1", ...
    factor: NDArray[Any]  # (n,)
    X_target: NDArray[Any]  # (m, d) the unseen domain
    y_target: NDArray[Any]  # (m,)
    factor_target: NDArray[Any]  # (m,)
    rows: NDArray[np.intp]  # (n,) where the rows of the sources are in the given data
    rows_target: NDArray[np.intp]  # (m,)


def plant_confounder(
    X: ArrayLike,
    y: ArrayLike,
    factor: ArrayLike,
    strengths: Sequence[float],
    target: float,
    *,
    random_state: int | RandomState | None = None,
) -> PlantedDomains:
    """Draw disjoint sources and a target from real rows, with a confounder of stated strength.

    All domains are disjoint and equally large, as large as the data allow. Half of the rows of a
    domain have each label, and the factor agrees with the label in a stated share of the rows of
    either label. They agree where both have the smaller or both the larger of their two values.

    Parameters
    ----------
    X : array-like (n, d)
        Features of the rows to draw from.
    y, factor : array-like (n,)
        Label and factor of each row, each with two values.
    strengths : sequence of float
        Share of the rows in which the factor agrees with the label, source by source.
    target : float
        The same share in the unseen domain.
    random_state : int, RandomState or None
        As in scikit-learn: an int makes the draw reproducible.

    Returns
    -------
    PlantedDomains
        The rows, their factor, and where they are in the given data.

    Raises
    ------
    ValueError
        If the label or the factor is not binary, a share is out of range, or rows are too few.
    """
    features = np.asarray(X)
    label_index, factor_index = (
        _binary_index(column, name, len(features))
        for column, name in ((y, "y"), (factor, "factor"))
    )
    shares = _check_shares(strengths, target)
    cells = {
        (a, b): np.flatnonzero((label_index == a) & (factor_index == b))
        for a, b in product((0, 1), repeat=2)
    }
    agreeing, opposing = _count_rows(cells, shares)
    random = check_random_state(random_state)
    drawn: list[list[NDArray[np.intp]]] = [[] for _ in shares]
    for (a, b), cell in cells.items():
        ends = np.cumsum(agreeing if a == b else opposing)
        for domain, part in zip(drawn, np.split(random.permutation(cell), ends)[:-1], strict=True):
            domain.append(part)
    *sources, rows_target = (np.sort(np.concatenate(parts)) for parts in drawn)
    rows = np.concatenate(sources)
    labels, factors = np.asarray(y).reshape(-1), np.asarray(factor).reshape(-1)
    return PlantedDomains(
        X=features[rows],
        y=labels[rows],
        sample_domain=np.repeat(
            [f"source {s}" for s in range(len(sources))], [len(source) for source in sources]
        ),
        factor=factors[rows],
        X_target=features[rows_target],
        y_target=labels[rows_target],
        factor_target=factors[rows_target],
        rows=rows,
        rows_target=rows_target,
    )


def _binary_index(values: ArrayLike, name: str, n_rows: int) -> NDArray[np.intp]:
    """Return 0 or 1 for each row."""
    distinct, index = index_column(values, name, n_rows)
    if len(distinct) != 2:
        raise ValueError(f"{name} has {len(distinct)} different values: pass a column with two.")
    return index


def _check_shares(strengths: Sequence[float], target: float) -> NDArray[np.float64]:
    """Return the shares of agreement, the target's last."""
    if len(strengths) == 0:
        raise ValueError("strengths is empty: pass one share per source.")
    for name, shares in (("strengths", strengths), ("target", (target,))):
        for share in shares:
            if not 0 <= share <= 1:
                raise ValueError(f"{name} holds {share}: pass shares from 0 to 1.")
    return np.array([*strengths, target], dtype=np.float64)


def _count_rows(
    cells: dict[tuple[int, int], NDArray[np.intp]], shares: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return how many rows of each label agree and do not agree in each domain."""
    most = min(len(cells[a, 0]) + len(cells[a, 1]) for a in (0, 1)) // len(shares)
    size = np.arange(1, most + 1)  # rows of one label in one domain
    agreeing = np.floor(np.outer(size, shares) + 0.5).astype(np.intp)
    opposing = size[:, None] - agreeing
    fits = (agreeing.sum(axis=1) <= min(len(cells[0, 0]), len(cells[1, 1]))) & (
        opposing.sum(axis=1) <= min(len(cells[0, 1]), len(cells[1, 0]))
    )
    mixed = (shares > 0) & (shares < 1)
    present = ((agreeing > 0) & (opposing > 0) | ~mixed).all(axis=1)
    usable = np.flatnonzero(fits & present)
    if len(usable) == 0:
        (a, b), rows = min(cells.items(), key=lambda cell: len(cell[1]))
        raise ValueError(
            f"only {len(rows)} rows have the {('smaller', 'larger')[a]} label and the "
            f"{('smaller', 'larger')[b]} factor, too few for these shares in {len(shares)} "
            "disjoint domains: pass more rows or milder shares."
        )
    return agreeing[usable[-1]], opposing[usable[-1]]
