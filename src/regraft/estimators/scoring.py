"""Score rows by a model that was exported as JSON; needs NumPy alone.

``regraft export --to sklearn`` copies this file as scorer.py, with the one that reads cells. The
fields of the JSON file are described in Regraft's documentation, under "Deploying a model".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.estimators.column_kinds import RawColumn, describe_unknown, join_problems, to_texts

FORMAT = "regraft-scorer"
VERSION = 1


@dataclass(frozen=True)
class RawRows:
    """Cells of some rows: numbers as a matrix, categories column by column."""

    numbers: NDArray[np.float64]  # (n, number columns), NaN where one is missing
    categories: Sequence[Sequence[Any]]  # None where one is missing


class Scorer:
    """Class probabilities of rows, as the exported model gives them.

    Attributes: ``columns`` (the names of the columns that a row has, in order), ``kinds`` ("number"
    or "category" for each), ``classes`` (C,), and ``about``, what is known of the model.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        if document.get("format") != FORMAT or document.get("version") != VERSION:
            raise ValueError(f"not a document of the format {FORMAT}, version {VERSION}.")
        self.columns = [str(column["name"]) for column in document["columns"]]
        self.kinds = [str(column["kind"]) for column in document["columns"]]
        self._has_rare = [bool(column.get("rare_values")) for column in document["columns"]]
        self.classes: NDArray[Any] = np.array(document["classes"])
        self.about: dict[str, Any] = document["about"]
        terms = document["terms"]
        self._center = np.array([float(term["center"]) for term in terms])
        self._scale = np.array([float(term["scale"]) for term in terms])
        self._read_terms(terms)
        head = document["head"]
        self._heads = [_Linear(group, len(terms)) for group in head["groups"]]
        correction = head["correction"]
        self._correction = None if correction is None else _Linear(correction, len(terms))
        self._mix = None if correction is None else np.array(correction["log_probabilities"])

    @classmethod
    def read(cls, path: str | Path) -> Scorer:
        """Read a model from a JSON file; raise ``ValueError`` with one sentence if it is none."""
        try:
            return cls(json.loads(Path(path).read_text(encoding="utf-8")))
        except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError):
            raise ValueError(
                f"{path} is not a model of the format {FORMAT}, version {VERSION}: make one by "
                "regraft export --to json."
            ) from None

    def _read_terms(self, terms: Sequence[Mapping[str, Any]]) -> None:
        kinds = self.kinds
        place = [kinds[:j].count(kind) for j, kind in enumerate(kinds)]
        numbers = [(t, term) for t, term in enumerate(terms) if term["kind"] == "number"]
        self._number_terms = np.array([t for t, _ in numbers], dtype=int)
        self._number_columns = np.array([place[term["column"]] for _, term in numbers], dtype=int)
        fills = [term["if_missing"] for _, term in numbers]
        self._fills = np.array([np.nan if fill is None else fill for fill in fills], dtype=float)
        self._gaps: list[tuple[int, int]] = []  # term, place of its number column
        self._lookups: list[dict[Any, list[int]]] = [{} for _ in range(kinds.count("category"))]
        for t, term in enumerate(terms):
            if term["kind"] == "number":
                continue
            at = place[term["column"]]
            if kinds[term["column"]] == "number":
                self._gaps.append((t, at))
                continue
            for value in (*term["values"], *([None] if term["missing"] else [])):
                self._lookups[at].setdefault(value, []).append(t)

    def encode(self, X: Any) -> NDArray[np.float64]:
        """Return the terms (n, m) of rows: a table with named columns, or rows in their order."""
        return self.encode_rows(self.read_rows(X))

    def encode_rows(self, rows: RawRows) -> NDArray[np.float64]:
        """Return the terms (n, m) of rows that are read already."""
        n = len(rows.numbers)
        terms = np.zeros((n, len(self._center)))
        if len(self._number_terms):
            cells = rows.numbers[:, self._number_columns]
            gaps = np.isnan(cells)
            if gaps.any():
                cells = np.where(gaps, self._fills, cells)
                self._check_gaps(cells)
            terms[:, self._number_terms] = cells
        for t, at in self._gaps:
            terms[:, t] = np.isnan(rows.numbers[:, at])
        for lookup, column in zip(self._lookups, rows.categories, strict=True):
            for i, value in enumerate(column):
                for t in lookup.get(value, ()):
                    terms[i, t] = 1.0
        terms -= self._center
        terms /= self._scale
        return terms

    def describe_unknown(self, rows: RawRows) -> str:
        """Say which columns of rows hold categories that did not occur in fit; "" if none do."""
        pairs = zip(self.columns, self._has_rare, strict=True)
        columns = [pair for pair, kind in zip(pairs, self.kinds, strict=True) if kind != "number"]
        counts = {
            name: sum(value not in lookup for value in values)
            for (name, has_rare), lookup, values in zip(
                columns, self._lookups, rows.categories, strict=True
            )
            if not has_rare
        }
        return describe_unknown(counts)

    def _check_gaps(self, cells: NDArray[np.float64]) -> None:
        left = np.isnan(cells)
        if left.any():
            row, term = (int(index[0]) for index in np.nonzero(left))
            names = [
                n for n, kind in zip(self.columns, self.kinds, strict=True) if kind == "number"
            ]
            name = names[self._number_columns[term]]
            raise ValueError(f"row {row + 1} has no value in {name!r}, which the model needs.")

    def read_rows(self, X: Any) -> RawRows:
        """Pick the columns of the model from a data frame, a mapping, or rows in their order.

        Raises ``ValueError`` that names all columns with problems.
        """
        if hasattr(X, "columns") or isinstance(X, Mapping):
            names = set(X.columns if hasattr(X, "columns") else X)
            absent = [name for name in self.columns if name not in names]
            if absent:
                raise ValueError(
                    f"the data lacks {', '.join(map(repr, absent))}, which the model was fitted "
                    "on: add what is missing, or rename it."
                )
            columns = [np.asarray(X[name]) for name in self.columns]
        else:
            rows = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
            if rows.ndim != 2 or rows.shape[1] != len(self.columns):
                raise ValueError(f"a row must have {len(self.columns)} values, one a column.")
            columns = list(rows.T)
        return self.read_columns(columns)

    def read_columns(self, columns: Sequence[NDArray[Any]]) -> RawRows:
        """Read all columns of the model (n,), in their order."""
        raw = [
            RawColumn(name, values, kind == "category")
            for name, kind, values in zip(self.columns, self.kinds, columns, strict=True)
        ]
        numbers = [column for column in raw if not column.is_category]
        checks = (c.problem() if c.is_category else c.number_problem() for c in raw)
        problems = [problem for problem in checks if problem is not None]
        if problems:
            raise ValueError(join_problems(problems, "the table"))
        matrix = np.empty((len(columns[0]), len(numbers)))
        for j, column in enumerate(numbers):
            matrix[:, j] = column.numbers()
        texts = [to_texts(column.values).tolist() for column in raw if column.is_category]
        return RawRows(matrix, texts)

    def list_columns(self, rows: RawRows) -> dict[str, Any]:
        """Return rows that are read already as columns by name."""
        numbers, texts = iter(rows.numbers.T), iter(rows.categories)
        pairs = zip(self.columns, self.kinds, strict=True)
        return {name: next(numbers) if kind == "number" else next(texts) for name, kind in pairs}

    def log_probabilities(self, terms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-probabilities (n, C) of the classes from terms (n, m)."""
        values = [head(terms) for head in self._heads]
        logits = values[0] if len(values) == 1 else np.logaddexp.reduce(values, axis=0)
        if self._correction is None or self._mix is None:
            return _normalize(logits)
        return _normalize(_normalize(logits) @ self._mix.T + self._correction(terms))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return class probabilities (n, C), columns in the order of ``classes``."""
        probabilities: NDArray[np.float64] = np.exp(self.log_probabilities(self.encode(X)))
        return probabilities

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely labels (n,)."""
        labels: NDArray[Any] = self.classes[self.log_probabilities(self.encode(X)).argmax(axis=1)]
        return labels

    def as_pipeline(self) -> Any:
        """Return the same model as a scikit-learn ``Pipeline`` that ends in LogisticRegression."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import FunctionTransformer

        if len(self._heads) > 1 or self._correction is not None:
            raise ValueError("this model is not linear, which LogisticRegression has to be.")
        head, linear = LogisticRegression(), self._heads[0]
        coef, intercept = linear.weights, linear.intercepts
        if len(coef) == 2:
            coef, intercept = np.diff(coef, axis=0), np.diff(intercept)
        head.classes_, head.coef_, head.intercept_ = self.classes, coef, intercept
        head.n_features_in_ = coef.shape[1]
        return Pipeline([("terms", FunctionTransformer(self.encode)), ("head", head)])


class _Linear:
    """A linear map of the terms to one number for each class."""

    def __init__(self, part: Mapping[str, Any], m: int) -> None:
        self.weights = np.array(part["weights"], dtype=float).reshape(-1, m)  # (C, m)
        self.intercepts = np.array(part["intercepts"], dtype=float)  # (C,)

    def __call__(self, terms: NDArray[np.float64]) -> NDArray[np.float64]:
        values: NDArray[np.float64] = terms @ self.weights.T + self.intercepts
        return values


def _normalize(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    logits = logits - logits.max(axis=1, keepdims=True)
    result: NDArray[np.float64] = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return result


def load() -> Any:
    """Load the model beside this file as a scikit-learn ``Pipeline``."""
    return Scorer.read(Path(__file__).with_name("model.json")).as_pipeline()
