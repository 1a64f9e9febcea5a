"""A model as one JSON document: columns, terms, head, classes, and what is known of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft._version import __version__
from regraft.estimators.adapted import AdaptedClassifier
from regraft.estimators.card import model_card
from regraft.estimators.exporting_terms import Features, follow, read_raw
from regraft.estimators.linear import SoftmaxHead
from regraft.estimators.pipelines import Model, split_model
from regraft.estimators.scoring import FORMAT, VERSION

_TOLERANCE = 1e-12


def describe_model(model: Model) -> dict[str, Any]:
    """Return the document of a fitted head, or of a ``Pipeline`` that ends in one.

    Raises ``ValueError`` with one sentence if the model is no such thing, or cannot be exported.
    """
    before, head = split_model(model)
    first = head if before is None else before
    found = getattr(first, "feature_names_in_", None)
    names = [f"x{j}" for j in range(first.n_features_in_)] if found is None else found.tolist()
    features = read_raw(len(names)) if before is None else follow(before, read_raw(len(names)))
    used = sorted({term.column for term in features.terms})
    place = {column: i for i, column in enumerate(used)}
    columns: list[dict[str, Any]] = [
        {"name": str(names[j]), "kind": _kind(names[j], j, features)} for j in used
    ]
    cut = getattr(before.steps[0][1], "cut_", ()) if before is not None else ()
    for column in columns:
        if column["name"] in cut:
            column["rare_values"] = True  # that are no categories of their own
    has_names = before is not None and found is not None
    is_matrix = not has_names and all(column["kind"] == "number" for column in columns)
    return {
        "format": FORMAT,
        "version": VERSION,
        # Whether rows come as one matrix, or as a table whose columns have names.
        "layout": "matrix" if is_matrix else "table",
        "columns": columns,
        "terms": [term.to_dict() | {"column": place[term.column]} for term in features.terms],
        "head": _describe_head(head, features),
        "classes": head.classes_.tolist(),
        "about": _describe_facts(model, head)
        | {"not_read": [str(name) for j, name in enumerate(names) if j not in place]},
    }


def _kind(name: str, column: int, features: Features) -> str:
    terms = [term for term in features.terms if term.column == column]
    is_number = any(term.kind == "number" for term in terms)
    if is_number and any(term.values for term in terms):
        raise ValueError(f"{name} is both a number and a category: export one of the two.")
    if is_number and any(isinstance(term.if_missing, str) for term in terms):
        raise ValueError(f"{name} is imputed by a text but no category: encode it.")
    return "number" if is_number else "category"


def _describe_head(head: SoftmaxHead, features: Features) -> dict[str, Any]:
    """Return linear heads of the groups on the terms, and the correction of an adapted model."""
    matrix, offset = features.matrix, features.offset

    def on_terms(weights: NDArray[np.float64], intercepts: NDArray[np.float64]) -> dict[str, Any]:
        if matrix is not None and offset is not None:
            weights, intercepts = weights @ matrix, intercepts + weights @ offset
        return {"weights": weights.tolist(), "intercepts": intercepts.tolist()}

    if not isinstance(head, AdaptedClassifier):
        full = _full_head(head)
        return {"groups": [on_terms(full[:, :-1], full[:, -1])], "correction": None}
    C = len(head.classes_)
    groups = [on_terms(each[:, :-1], each[:, -1]) for each in head.group_heads_]
    mix, weights = head.correction_[:, :C], head.correction_[:, C:-1] / head.feature_scale_
    moves = on_terms(weights, head.correction_[:, -1] - weights @ head.feature_mean_)
    # A constant on all log-probabilities changes nothing, so equal sums leave a linear head linear.
    if len(groups) == 1 and np.ptp(mix.sum(axis=1)) < _TOLERANCE:
        parts = groups[0]
        merged = {
            key: (mix @ np.array(parts[key]) + np.array(moves[key])).tolist() for key in parts
        }
        return {"groups": [merged], "correction": None}
    if (
        np.array_equal(mix, np.eye(C))
        and not np.any(moves["weights"])
        and not any(moves["intercepts"])
    ):
        return {"groups": groups, "correction": None}
    return {"groups": groups, "correction": {"log_probabilities": mix.tolist(), **moves}}


def _full_head(head: Any) -> NDArray[np.float64]:
    """Return the head (C, d + 1) on ``[x, 1]``; with two classes, one row of it may be kept."""
    kept = np.column_stack([np.atleast_2d(head.coef_), head.intercept_])
    return kept if len(kept) > 1 else np.concatenate([np.zeros_like(kept), kept])


def _describe_facts(model: Model, head: SoftmaxHead) -> dict[str, Any]:
    certificate = getattr(head, "certificate_", None)
    facts: dict[str, Any] = {
        "made_by": f"regraft {__version__}",
        "model": type(head).__name__,
        "sources": [str(name) for name in head.domains_],
        "certificate": None if certificate is None else certificate.to_dict(),
        "summary": [] if certificate is None else list(certificate.paragraphs()),
        "card": model_card(model),
    }
    if hasattr(head, "encoder_"):
        facts["encoder"] = {"name": head.encoder_[0], "fingerprint": head.encoder_[1]}
    if hasattr(head, "column_roles_"):
        facts["columns"] = head.column_roles_._asdict()
    return facts
