"""One domain left out: the sources that remain, and what heads fitted on them have in it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import clone

from regraft.core.domains import Domains, check_domains
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.core.whitening import row_chunks
from regraft.estimators.compared_heads import ComparedHead, solve_on_sources
from regraft.estimators.comparison_metrics import Predictions, measure_metrics
from regraft.estimators.comparison_records import CellValues
from regraft.estimators.given_estimators import fit_given, predict_given, spread_columns
from regraft.estimators.table_features import TableFeatures
from regraft.support.threads import threads_for


@dataclass(frozen=True)
class DomainLeftOut:
    """All rows, one domain of them left out, and the sources that remain."""

    target: int
    name: str  # of the target
    X: NDArray[Any]  # (n, d)
    y: NDArray[np.int64]  # (n,) index into classes
    domain: NDArray[np.int64]  # (n,)
    classes: NDArray[Any]
    rest: Domains
    start: float  # when it was begun


def leave_out(
    domains: Domains, target: int, device: str, X: Any = None, features: TableFeatures | None = None
) -> DomainLeftOut:
    """Leave a domain out; ``features``, fitted on the others, turn the table ``X`` to numbers."""
    start = time.perf_counter()
    matrix, y, domain = domains.X.numpy(), domains.y.numpy(), domains.domain.numpy()
    kept = domain != target
    name = str(domains.names[target])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # given for all rows before
            if features is not None:
                # Negative numbers are targets, which have no part in the fit.
                fitted = clone(features).fit(X, sample_domain=np.where(kept, 0, -1))
                matrix = fitted.transform(X)
            rest = check_domains(
                matrix[kept], domains.classes[y[kept]], domain[kept], device=device
            )
    except ValueError as error:
        raise ValueError(f"without domain {name}, {error}") from None
    return DomainLeftOut(target, name, matrix, y, domain, domains.classes, rest, start)


def measure_heads(split: DomainLeftOut, heads: Sequence[ComparedHead]) -> Iterator[CellValues]:
    """Yield what each head, fitted without the target, has there and on its training rows."""
    start, sources = split.start, None
    unseen = split.domain == split.target
    for head in heads:
        if head.is_given:
            predictions = _ask_given(head, split)
        else:
            with threads_for(split.rest.X.numel()):
                sources = sources or fit_source_heads(split.rest)
                predictions = _ask_head(head, split, sources)
        correct = predictions.label == split.y
        accuracy = np.bincount(split.domain, weights=correct) / np.bincount(split.domain)
        metrics = measure_metrics(
            split.y[unseen], predictions.take(unseen), len(split.classes), split.target
        )
        now = time.perf_counter()
        yield CellValues(
            accuracy=float(accuracy[split.target]),
            source_accuracy=float(np.delete(accuracy, split.target).mean()),
            seconds=round(now - start, 3),
            rows=int(unseen.sum()),
            metrics=metrics,
        )
        start = time.perf_counter()


def _ask_given(head: ComparedHead, split: DomainLeftOut) -> Predictions:
    """Fit a given classifier on the sources, and ask it about all rows."""
    kept = split.domain != split.target
    labels = split.classes[split.y[kept]]
    try:
        fitted = fit_given(head.name, head.model, split.X[kept], labels, split.domain[kept])
        return predict_given(head.name, fitted, split.X, split.classes)
    except ValueError as error:
        raise ValueError(f"without domain {split.name}, {error}") from error


def _ask_head(head: ComparedHead, split: DomainLeftOut, sources: SourceHeads) -> Predictions:
    """Solve for a head on the shared source heads, and ask it about all rows."""
    coefficients = solve_on_sources(head.model, sources).cpu().numpy()
    logits = np.empty((len(split.y), len(coefficients)))
    for rows in row_chunks(len(split.y)):
        logits[rows] = split.X[rows] @ coefficients[:, :-1].T + coefficients[:, -1]
    known = np.searchsorted(split.classes, split.rest.classes)
    logits = spread_columns(logits, known, len(split.classes), "decision_function")
    probabilities = spread_columns(
        softmax(logits[:, known], axis=1), known, len(split.classes), "predict_proba"
    )
    scores = probabilities
    if len(split.classes) == len(known) == 2:
        # Probabilities of a sure head round to one, where log-odds still rank.
        odds = logits[:, 1] - logits[:, 0]
        scores = np.column_stack([-odds, odds])
    return Predictions(logits.argmax(axis=1), probabilities, scores)
