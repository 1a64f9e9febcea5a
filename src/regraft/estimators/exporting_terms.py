"""Fitted scikit-learn transformers as terms: simple functions of one raw column each.

A term is a number (with a value for missing ones), or 1 where a cell is one of some values; then a
center is subtracted and it is divided by a scale. Every feature that the known transformers make is
a linear function of terms, so all exports describe preprocessing in the same few words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from regraft.estimators.column_kinds import to_texts


@dataclass(frozen=True)
class ColumnTerm:
    """A function of one raw column: ``(raw - center) / scale``."""

    column: int
    kind: str = "number"  # or "match": 1 where the cell is one of the values, else 0
    if_missing: Any = None  # number that stands in for a missing one
    values: tuple[str, ...] = ()
    missing: bool = False  # whether a missing cell matches
    center: float = 0.0
    scale: float = 1.0

    @property
    def is_raw(self) -> bool:
        """Whether it is still the cell itself, which can become a category."""
        return self.kind == "number" and (self.center, self.scale) == (0.0, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that its kind has, as plain data."""
        unused = {"number": ("values", "missing"), "match": ("if_missing",)}[self.kind]
        return {name: value for name, value in asdict(self).items() if name not in unused}


@dataclass(frozen=True)
class Features:
    """Features as a linear function of terms; without a matrix they are the terms."""

    terms: tuple[ColumnTerm, ...]
    matrix: NDArray[np.float64] | None = None  # (d, m)
    offset: NDArray[np.float64] | None = None  # (d,), with a matrix

    def __len__(self) -> int:
        return len(self.terms) if self.matrix is None else len(self.matrix)

    def linear(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the matrix (d, m) and the offset (d,)."""
        if self.matrix is None or self.offset is None:
            return np.eye(len(self.terms)), np.zeros(len(self.terms))
        return self.matrix, self.offset

    def take(self, places: Sequence[int]) -> Features:
        """Return the features at these places."""
        if self.matrix is None or self.offset is None:
            return Features(tuple(self.terms[place] for place in places))
        return Features(self.terms, self.matrix[places], self.offset[places])

    def rescale(self, center: NDArray[np.float64], scale: NDArray[np.float64]) -> Features:
        """Subtract a center (d,) and divide by a scale (d,)."""
        if self.matrix is None or self.offset is None:
            # Kept apart from the weights of a head: large numbers would cancel there.
            pairs = zip(self.terms, center.tolist(), scale.tolist(), strict=True)
            terms = (
                replace(t, center=t.center + c * t.scale, scale=t.scale * s) for t, c, s in pairs
            )
            return Features(tuple(terms))
        return Features(self.terms, self.matrix / scale[:, None], (self.offset - center) / scale)

    def project(self, projection: NDArray[np.float64]) -> Features:
        """Return the linear functions (k, d) of the features."""
        matrix, offset = self.linear()
        return Features(self.terms, projection @ matrix, projection @ offset)


def join(parts: Sequence[Features]) -> Features:
    """Put features side by side."""
    terms = tuple(term for part in parts for term in part.terms)
    if all(part.matrix is None for part in parts):
        return Features(terms)
    matrices, offsets = zip(*(part.linear() for part in parts), strict=True)
    return Features(terms, block_diag(*matrices), np.concatenate(offsets))


def read_raw(count: int) -> Features:
    """Return the raw columns themselves."""
    return Features(tuple(ColumnTerm(column) for column in range(count)))


def follow(transformer: Any, features: Features) -> Features:
    """Return what a fitted transformer makes of the features.

    Raises ``ValueError`` with one sentence if it is none of those that can be exported.
    """
    if transformer is None or transformer == "passthrough":
        return features
    name = type(transformer).__name__
    if name not in _KNOWN:
        raise ValueError(f"{name} cannot be exported: use one of {', '.join(_KNOWN)}.")
    return _KNOWN[name](transformer, features)


def _follow_table(table: Any, features: Features) -> Features:
    names = table.feature_names_in_.tolist()
    chosen = features.take([names.index(name) for name in table.columns_])
    return follow(table.transformer_, chosen)


def _follow_pipeline(pipeline: Any, features: Features) -> Features:
    for _, step in pipeline.steps:
        features = follow(step, features)
    return features


def _follow_columns(transformer: Any, features: Features) -> Features:
    parts = []
    for _, step, columns in transformer.transformers_:
        places = _find_places(columns, transformer)
        if step != "drop" and places:
            parts.append(follow(step, features.take(places)))
    return join(parts)


def _find_places(columns: Any, transformer: Any) -> list[int]:
    """Return the places of columns that are given by place, name, mask or slice."""
    if isinstance(columns, slice) and not isinstance(columns.start or columns.stop, str):
        return list(range(transformer.n_features_in_))[columns]
    chosen = np.atleast_1d(np.asarray(columns))
    if chosen.dtype.kind == "b":
        return [int(place) for place in np.flatnonzero(chosen)]
    if chosen.dtype.kind in "iu" or not len(chosen):
        return [int(place) for place in chosen]
    names = list(transformer.feature_names_in_)
    return [names.index(name) for name in chosen]


def _follow_union(union: Any, features: Features) -> Features:
    return join([follow(step, features) for _, step in union.transformer_list if step != "drop"])


def _follow_imputer(imputer: Any, features: Features) -> Features:
    _check_missing(imputer)
    fills = [None if _is_missing(fill) else fill for fill in imputer.statistics_.tolist()]
    terms = _raw_terms(imputer, features)
    filled = [
        replace(term, if_missing=fill)
        for term, fill in zip(terms, fills, strict=True)
        if fill is not None  # a column without a single value is left out
    ]
    parts = [Features(tuple(filled))]
    if imputer.add_indicator:
        parts.append(_follow_indicator(imputer.indicator_, features))
    return join(parts)


def _follow_indicator(indicator: Any, features: Features) -> Features:
    _check_missing(indicator)
    terms = _raw_terms(indicator, features)
    if any(term.if_missing is not None for term in terms):
        raise ValueError("MissingIndicator after an imputer cannot be exported: put it first.")
    if indicator.error_on_new and len(indicator.features_) < len(terms):
        raise ValueError(
            "MissingIndicator refuses gaps in columns without any in fit, which an exported model "
            "cannot: pass error_on_new=False."
        )
    chosen = (terms[place] for place in indicator.features_.tolist())
    return Features(tuple(ColumnTerm(term.column, "match", missing=True) for term in chosen))


def _check_missing(transformer: Any) -> None:
    if not _is_missing(transformer.missing_values):
        raise ValueError(
            f"{type(transformer).__name__} takes {transformer.missing_values!r} for missing, which "
            "cannot be exported: replace it by NaN before."
        )


def _raw_terms(transformer: Any, features: Features) -> tuple[ColumnTerm, ...]:
    """Return the terms of cells that nothing has changed yet, which categories need."""
    if features.matrix is None and all(term.is_raw for term in features.terms):
        return features.terms
    raise ValueError(
        f"{type(transformer).__name__} after scaling or encoding cannot be exported: put it first."
    )


def _follow_one_hot(encoder: Any, features: Features) -> Features:
    terms = _raw_terms(encoder, features)
    if getattr(encoder, "_infrequent_enabled", False):
        raise ValueError(
            "OneHotEncoder with infrequent categories cannot be exported: leave out min_frequency "
            "and max_categories."
        )
    dropped = encoder.drop_idx_ if encoder.drop_idx_ is not None else [None] * len(terms)
    parts = [
        term
        for raw, categories, drop in zip(terms, encoder.categories_, dropped, strict=True)
        for i, term in enumerate(_matches(raw, categories.tolist()))
        if i != drop
    ]
    return Features(tuple(parts))


def _matches(raw: ColumnTerm, categories: Sequence[Any]) -> list[ColumnTerm]:
    """Return one term for each category of a cell, in their order."""
    found = []
    for category in categories:
        is_gap = _is_missing(category)
        # Cells are written in one way before they are compared.
        if not is_gap and to_texts(np.array([category], object))[0] != category:
            raise ValueError(
                f"the category {category!r} cannot be exported: use TableFeatures, which writes "
                "all categories as texts."
            )
        is_filled = raw.if_missing is not None and raw.if_missing == category
        missing = is_filled or (is_gap and raw.if_missing is None)
        values = () if is_gap else (str(category),)
        found.append(ColumnTerm(raw.column, "match", values=values, missing=missing))
    return found


def _is_missing(value: Any) -> bool:
    return value is None or bool(value != value)


def _follow_ordinal(encoder: Any, features: Features) -> Features:
    terms, unknown = _raw_terms(encoder, features), encoder.unknown_value
    if getattr(encoder, "_infrequent_enabled", False):
        raise ValueError("OrdinalEncoder with infrequent categories cannot be exported.")
    if unknown is None or _is_missing(unknown):
        raise ValueError(
            "OrdinalEncoder without a number for unknown categories cannot be exported: set "
            "handle_unknown='use_encoded_value' and unknown_value=-1."
        )
    parts = []
    for raw, categories in zip(terms, encoder.categories_, strict=True):
        matches = _matches(raw, categories.tolist())
        codes = np.arange(len(matches), dtype=float)[None]
        if any(match.missing and not match.values for match in matches):
            codes[0, -1] = encoder.encoded_missing_value
        if np.isnan(codes).any():
            raise ValueError(
                "OrdinalEncoder that keeps missing values cannot be exported: impute them before."
            )
        offset = np.array([float(unknown)])
        parts.append(Features(tuple(matches), codes - unknown, offset))
    return join(parts)


def _follow_scaler(scaler: Any, features: Features) -> Features:
    d = len(features)
    center, scale = np.zeros(d), np.ones(d)
    name = type(scaler).__name__
    if name == "MinMaxScaler":
        if scaler.clip:
            raise ValueError("MinMaxScaler with clip cannot be exported: leave clip out.")
        center, scale = -scaler.min_ / scaler.scale_, 1 / scaler.scale_
    else:
        found = getattr(scaler, "mean_" if name == "StandardScaler" else "center_", None)
        centers = getattr(scaler, "with_mean", True) if name == "StandardScaler" else True
        center = center if found is None or not centers else found
        scale = scale if scaler.scale_ is None else scaler.scale_
    return features.rescale(np.asarray(center, float), np.asarray(scale, float))


def _follow_svd(svd: Any, features: Features) -> Features:
    return features.project(svd.components_)


def _follow_selector(selector: Any, features: Features) -> Features:
    return features.take(selector.get_support(indices=True).tolist())


def _follow_pca(pca: Any, features: Features) -> Features:
    components = pca.components_
    if pca.whiten:
        components = components / np.sqrt(pca.explained_variance_)[:, None]
    centred = features.rescale(pca.mean_, np.ones(len(features)))
    return centred.project(components)


def _follow_function(transformer: Any, features: Features) -> Features:
    if transformer.func is not None:
        raise ValueError("FunctionTransformer with a function cannot be exported: leave it out.")
    return features


_KNOWN: dict[str, Callable[[Any, Features], Features]] = {
    "TableFeatures": _follow_table,
    "Pipeline": _follow_pipeline,
    "ColumnTransformer": _follow_columns,
    "FeatureUnion": _follow_union,
    "SimpleImputer": _follow_imputer,
    "MissingIndicator": _follow_indicator,
    "OneHotEncoder": _follow_one_hot,
    "OrdinalEncoder": _follow_ordinal,
    "StandardScaler": _follow_scaler,
    "MinMaxScaler": _follow_scaler,
    "MaxAbsScaler": _follow_scaler,
    "RobustScaler": _follow_scaler,
    "PCA": _follow_pca,
    "TruncatedSVD": _follow_svd,
    "VarianceThreshold": _follow_selector,
    "FunctionTransformer": _follow_function,
}
