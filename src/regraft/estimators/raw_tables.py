"""Tables as people have them, where numbers are needed: one rule for all functions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from regraft.estimators.column_kinds import to_numbers
from regraft.estimators.table_features import TableFeatures, as_columns


def choose_features(X: Any, stacklevel: int = 3) -> TableFeatures | None:
    """Return what makes numbers of a table, not yet fitted; None for what holds numbers already.

    A table is a mapping of names to columns, or a data frame with texts or gaps; a warning says
    what is done to it. All other things are taken as they are.
    """
    if not _is_raw(X):
        return None
    warnings.warn(
        "the table has texts, gaps or columns by name: TableFeatures makes numbers of it, as "
        "regraft fit does.",
        stacklevel=stacklevel,
    )
    return TableFeatures()


def fit_features(X: Any, sample_domain: ArrayLike) -> tuple[TableFeatures | None, Any]:
    """Return numbers (n, d) for the rows ``X``, and what made them of a table, fitted on sources.

    What holds numbers already is returned as it came.
    """
    features = choose_features(X, stacklevel=4)
    if features is None:
        return None, X
    return features, features.fit(X, sample_domain=np.asarray(sample_domain)).transform(X)


def _is_raw(X: Any) -> bool:
    if isinstance(X, Mapping):
        return True
    if not hasattr(X, "columns"):
        return False
    for values in as_columns(X).values():
        try:
            numbers, texts = to_numbers(values)
        except TypeError:  # a list in a cell, which TableFeatures names
            return True
        if len(texts) or np.isnan(numbers).any():
            return True
    return False
