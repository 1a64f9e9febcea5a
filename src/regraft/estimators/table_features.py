"""Tables as they are, with texts and gaps, as matrices of numbers."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from regraft.core.domains import is_target
from regraft.core.features import join_names, warn_of_outliers
from regraft.estimators.column_kinds import (
    EQUALS,
    FREE_TEXT,
    IS_MISSING,
    ColumnProblems,
    Columns,
    RawColumn,
    describe_unknown,
    find_alike,
    take_rows,
    to_texts,
)
from regraft.estimators.parameter_types import check_names

MISSING = "(missing)"  # the category of cells that are missing
_PLURALS = {"is": "are", "has": "have", "numbers": "number", "looks": "look"}  # verbs of reasons
_NUMBERS, _CATEGORIES = "numbers", "categories"  # of the ColumnTransformer
_SHOWN = 8  # columns in a sentence
_EMPTY = "is constant", "is empty"  # what no column of features may be


class UnknownCategoryWarning(UserWarning):
    """Rows hold categories that did not occur in fit: so many of them for each column."""

    def __init__(self, counts: Mapping[str, int], known: str = "fit") -> None:
        # Whoever copies a warning makes it anew from its arguments: other processes, for example.
        super().__init__(dict(counts), known)
        self.counts, self._known = counts, known

    def __str__(self) -> str:
        return describe_unknown(self.counts, self._known)


class TableFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn a table with texts and gaps into numbers, by scikit-learn's own transformers.

    Numbers are imputed by the median, with an indicator where fit saw a gap, and scaled to mean 0
    and variance 1. Categories, which are columns of text, become one column of 0 and 1 for each
    value; a gap is a value of its own, and a value that fit has not seen gives zeros and a warning.
    TRUE and FALSE are numbers. Missing are None, NaN, and the texts that are empty, NA, N/A, NaN,
    null, None and ?. Columns that are constant or empty, ids and free text are left out with a
    warning. pandas is not needed.

    Parameters
    ----------
    features : sequence of str, or None
        Columns to use, of which none is left out unless it is constant; None for all.
    drop : sequence of str
        Columns to leave out.
    categorical : sequence of str
        Columns that hold categories although they look like numbers.
    max_categories : int
        Values of a column that have a feature of their own: the most frequent ones.

    Attributes
    ----------
    columns_ : tuple of str
        Columns that are read, numbers first.
    numeric_, categorical_ : tuple of str
        Those of either kind.
    left_out_ : dict
        Columns that are not read, each with the reason.
    transformer_ : ColumnTransformer
        Fitted on the columns by position; its steps are "numbers" and "categories".
    """

    # Requested at class level, so that pipelines route it once routing is enabled.
    __metadata_request__fit = {"sample_domain": True}

    columns_: tuple[str, ...]
    numeric_: tuple[str, ...]
    categorical_: tuple[str, ...]
    left_out_: dict[str, str]
    transformer_: ColumnTransformer

    def __init__(
        self,
        *,
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        categorical: Sequence[str] = (),
        max_categories: int = 50,
    ) -> None:
        self.features = features
        self.drop = drop
        self.categorical = categorical
        self.max_categories = max_categories

    def fit(self, X: Any, y: object = None, sample_domain: ArrayLike | None = None) -> Self:
        """Learn the columns of a table, its medians, scales and categories.

        Parameters
        ----------
        X : data frame, mapping of names to columns, or array-like (n, d)
            The table.
        y : ignored
            Labels, as pipelines pass them.
        sample_domain : array-like (n,) or None
            If given, rows of negative integers, which are targets, are left out.

        Returns
        -------
        TableFeatures

        Raises
        ------
        ValueError
            If columns cannot be used; the message names them all.
        """
        for name in ("features", "drop", "categorical"):
            if getattr(self, name) is not None:
                check_names(getattr(self, name), name)
        table = as_columns(X)
        names = tuple(table)
        columns = self.study(take_rows(table, _sources(sample_domain)))
        problems = [text for column in columns if (text := column.problem()) is not None]
        if problems:
            raise ColumnProblems(problems)
        reasons = {column.name: self._find_reason(column) for column in columns}
        left_out = {name: reason for name, reason in reasons.items() if reason is not None}
        kept = [column for column in columns if column.name not in left_out]
        if not kept:
            said = join_names([f"{name!r} {reason}" for name, reason in left_out.items()], _SHOWN)
            remedy = "add some, or name those to use as features"
            if FREE_TEXT in left_out.values():
                remedy = "add some, or make features of the texts with regraft embed text"
            said = f" ({said})" if said else ""
            raise ValueError(f"no column of the table is left as a feature{said}: {remedy}.")
        self.numeric_ = tuple(each.name for each in kept if each.kind == "number")
        categories = {
            each.name: self._choose_categories(each) for each in kept if each.kind == "category"
        }
        self.categorical_ = tuple(categories)
        self.columns_ = self.numeric_ + self.categorical_
        self.left_out_ = left_out
        self.cut_ = tuple(
            each.name for each in kept if each.name in categories and self._is_cut(each)
        )
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, object)
        numbers = {each.name: each.numbers() for each in kept if each.kind == "number"}
        texts = {each.name: to_texts(each.values) for each in kept if each.kind == "category"}
        warn_of_outliers(numbers)
        self.transformer_ = _make_transformer(len(numbers), list(categories.values()))
        self.transformer_.fit(_matrix(numbers, texts))
        if left_out:
            warnings.warn(describe_left_out(left_out), stacklevel=2)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the features (n, d) of a table.

        Parameters
        ----------
        X : data frame, mapping of names to columns, or array-like
            With all of ``columns_``, whatever else there is; an array has all columns of fit.

        Returns
        -------
        numpy.ndarray

        Raises
        ------
        ValueError
            If columns are missing or hold other things than in fit; the message names them all.
        """
        check_is_fitted(self)
        table = self._find_columns(X)
        columns = [RawColumn(name, table[name]) for name in self.numeric_]
        categories = [RawColumn(name, table[name]) for name in self.categorical_]
        found = [
            *(column.number_problem() for column in columns),
            *(column.text_problem() for column in categories),
        ]
        problems = [text for text in found if text is not None]
        if problems:
            raise ColumnProblems(problems)
        numbers = {column.name: column.numbers() for column in columns}
        texts = {name: to_texts(table[name]) for name in self.categorical_}
        self._warn_of_unknown(texts)
        features = self.transformer_.transform(_matrix(numbers, texts))
        return np.ascontiguousarray(features, np.float64)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Return the names of the features: a column, "is missing", or column=value."""
        check_is_fitted(self)
        names = list(self.numeric_)
        if self.numeric_:
            indicator = self.transformer_.named_transformers_[_NUMBERS][0].indicator_
            names += [f"{self.numeric_[i]}{IS_MISSING}" for i in indicator.features_]
        for column, values in self.known_categories().items():
            names += [
                f"{column}{IS_MISSING}" if value == MISSING else f"{column}{EQUALS}{value}"
                for value in values
            ]
        return np.array(names, object)

    def known_categories(self) -> dict[str, tuple[str, ...]]:
        """Return the values of each categorical column that have a feature of their own."""
        if not self.categorical_:
            return {}
        encoder = self.transformer_.named_transformers_[_CATEGORIES][1]
        pairs = zip(self.categorical_, encoder.categories_, strict=True)
        return {name: tuple(values.tolist()) for name, values in pairs}

    def unscale(self, features: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        """Return features (n, d) with numbers in the units of the table."""
        if not self.numeric_:
            return features
        scaler = self.transformer_.named_transformers_[_NUMBERS][1]
        d = scaler.n_features_in_
        return np.hstack([scaler.inverse_transform(features[:, :d]), features[:, d:]])

    def study(self, table: Columns) -> list[RawColumn]:
        """Return the columns that were chosen; raise ``ValueError`` for names that are not there.

        Their problems and kinds are found when they are asked for.
        """
        for option in ("features", "drop", "categorical"):
            names = getattr(self, option) or ()
            absent = [name for name in names if name not in table]
            if absent:
                alike = find_alike(str(absent[0]), table)
                guess = f"did you mean {alike!r}? It has" if alike else "it has"
                raise ValueError(
                    f"{option} names {', '.join(map(repr, absent))}, which the table does not have "
                    f"({guess} {join_names(list(map(repr, table)))}): correct the name."
                )
        chosen = table if self.features is None else self.features
        dropped = set(self.drop)
        return [
            RawColumn(name, table[name], name in self.categorical)
            for name in chosen
            if name not in dropped
        ]

    def _find_reason(self, column: RawColumn) -> str | None:
        reason = column.find_reason(self.max_categories)
        is_asked_for = self.features is not None and reason not in _EMPTY
        return None if is_asked_for else reason

    def _is_cut(self, column: RawColumn) -> bool:
        return len(column.counts) > self.max_categories

    def _choose_categories(self, column: RawColumn) -> list[str]:
        chosen = sorted(value for value, _ in column.counts.most_common(self.max_categories))
        has_gaps = column.counts.total() < len(column.values)
        return [*chosen, MISSING] if has_gaps else chosen

    def _find_columns(self, X: Any) -> Columns:
        table = as_columns(X)
        if not isinstance(X, Mapping) and not hasattr(X, "columns"):
            if len(table) != self.n_features_in_:
                raise ValueError(
                    f"X has {len(table)} feature(s), but the model was fitted on a table with "
                    f"{self.n_features_in_} columns: pass all of them, or columns with names."
                )
            table = dict(zip(self.feature_names_in_.tolist(), table.values(), strict=True))
        absent = [name for name in self.columns_ if name not in table]
        if absent:
            lacking = join_names([*map(repr, absent)], _SHOWN)
            raise ValueError(
                f"the data lacks {lacking}, which the model was fitted on: add what is missing, or "
                "rename it."
            )
        return table

    def _warn_of_unknown(self, texts: Columns) -> None:
        counts = {}
        for name, known in self.known_categories().items():
            if name not in self.cut_:
                found = Counter(MISSING if t is None else t for t in texts[name].tolist())
                counts[name] = sum(n for text, n in found.items() if text not in known)
        if any(counts.values()):
            warnings.warn(UnknownCategoryWarning(counts), stacklevel=3)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        return tags


def describe_left_out(left_out: Mapping[str, str]) -> str:
    """Say in one sentence which columns are no features, and why."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        shown = repr(name) if name else "the column without a name"  # such as an index of pandas
        by_reason.setdefault(reason, []).append(shown)
    said = "; ".join(
        f"{join_names(names, _SHOWN)} {reason if len(names) == 1 else _to_plural(reason)}"
        for reason, names in by_reason.items()
    )
    keep = (
        "" if by_reason.keys() <= set(_EMPTY) else " (name a column among the features to keep it)"
    )
    return f"columns left out: {said}{keep}."


def _to_plural(reason: str) -> str:
    verb, _, rest = reason.partition(" ")
    return f"{_PLURALS[verb]} {rest}"


def as_columns(X: Any) -> Columns:
    """Return the columns (n,) of a data frame, a mapping or an array (n, d), by name."""
    if isinstance(X, Mapping):
        table = {str(name): _as_column(values) for name, values in X.items()}
    elif hasattr(X, "columns"):
        if len(set(map(str, X.columns))) < len(X.columns):
            raise ValueError("the table has two columns of one name: rename or drop one.")
        table = {str(name): _as_column(X[name]) for name in X.columns}
    else:
        array = np.asarray(X)
        if array.ndim != 2:
            raise ValueError(
                f"X has shape {array.shape}: pass a data frame, a mapping of names to columns, or "
                "an array of shape (rows, columns)."
            )
        table = {f"x{i}": column for i, column in enumerate(array.T)}
    lengths = {name: len(values) for name, values in table.items()}
    if len(set(lengths.values())) != 1 or 0 in lengths.values():
        raise ValueError(
            f"the columns have {sorted(set(lengths.values())) or 'no'} rows: pass one or more, and "
            "the same number in each."
        )
    return table


def _as_column(values: Any) -> NDArray[Any]:
    if not isinstance(values, list | tuple):
        column = np.asarray(values)
        if column.ndim == 1:
            return column
        raise ValueError(f"a column has shape {column.shape}: pass one value a row.")
    column = np.empty(len(values), object)
    for row, value in enumerate(values):  # one by one, so that lists stay lists
        column[row] = value
    return column


def _sources(sample_domain: ArrayLike | None) -> NDArray[np.bool_] | None:
    if sample_domain is None:
        return None
    kept = ~is_target(sample_domain)
    return kept if kept.any() else None


def _matrix(numbers: Columns, texts: Columns) -> NDArray[Any]:
    """Return the columns (n, p) side by side, as floats if there are no texts."""
    return np.column_stack([*numbers.values(), *texts.values()])


def _make_transformer(n_numbers: int, categories: list[list[str]]) -> ColumnTransformer:
    scale = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    encode = make_pipeline(
        SimpleImputer(strategy="constant", fill_value=MISSING, missing_values=None),
        OneHotEncoder(categories=categories, handle_unknown="ignore", sparse_output=False),
    )
    steps = [
        (_NUMBERS, scale, list(range(n_numbers))),
        (_CATEGORIES, encode, list(range(n_numbers, n_numbers + len(categories)))),
    ]
    return ColumnTransformer([step for step in steps if step[2]], sparse_threshold=0)
