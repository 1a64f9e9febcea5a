"""Probabilities for an audit, by heads that have not seen its rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from regraft.estimators.adapted import AdaptedClassifier
from regraft.estimators.linear import SoftmaxHead
from regraft.estimators.placing import find_known, warn_of_known

_N_COMPARED_FEATURES = 16  # whose means are compared to recognize the training rows
# Of the size of a feature: numbers that were rounded to 32 bits on one of the two ways move the
# mean by less than 2**-24, and other rows move it by about one over the root of their number.
_SAME = 1e-7


def has_seen(head: SoftmaxHead, X: NDArray[Any], sample_domain: NDArray[Any]) -> bool:
    """Return whether a head was fitted on just these rows, as far as it remembers them."""
    few = X[:, :_N_COMPARED_FEATURES].astype(np.float64)
    mean = np.mean([few[sample_domain == s].mean(axis=0) for s in np.unique(sample_domain)], axis=0)
    return remembers(head, mean, few)


def remembers(head: SoftmaxHead, mean: NDArray[Any], some: NDArray[Any]) -> bool:
    """Return whether a head was fitted on rows of this mean, over features and then sources.

    ``some`` of the rows (m, d) tell how large the features are. The mean is the same in whatever
    order and parts the rows are read, but for rounding.
    """
    fitted = getattr(head, "feature_mean_", None)
    if fitted is None:
        return False
    compared = slice(_N_COMPARED_FEATURES)
    size = np.sqrt(np.square(some[:, compared], dtype=np.float64).mean(axis=0))
    size = np.maximum(size, abs(fitted[compared]))  # what is rare may not be among some rows
    return bool((abs(fitted[compared] - mean[compared]) <= _SAME * size).all())


def warn_if_seen(predictor: object, X: Any, sample_domain: Any) -> None:
    """Warn if a predictor is a head that was fitted on these rows, or on some of them.

    Of adapted heads, :func:`judge_unseen` warns.
    """
    if not isinstance(predictor, SoftmaxHead) or isinstance(predictor, AdaptedClassifier):
        return
    rows = np.asarray(X)
    reference = getattr(predictor, "reference_", None)  # which heads of the latent family have
    if has_seen(predictor, rows, np.asarray(sample_domain)):
        warnings.warn(
            "the model was fitted on these very rows, where it looks better than it is: its "
            "certificate measures it on rows held out; audit other rows.",
            stacklevel=4,
        )
    elif reference is not None:
        warn_of_known(reference, find_known(reference, rows), len(rows), "those to audit")


def judge_unseen(
    head: SoftmaxHead, X: NDArray[Any], y: NDArray[Any], sample_domain: NDArray[Any]
) -> SoftmaxHead | NDArray[np.float64]:
    """Return the head; or, if it was fitted on these rows, probabilities of heads like it.

    On rows that it was fitted on, a head looks better than it is. So each row is judged by a head
    with the same settings that was fitted without it, and a warning says so. If some of them were
    among its rows, audits warn.
    """
    if not has_seen(head, X, sample_domain):
        return head
    if isinstance(head, AdaptedClassifier):
        warnings.warn(
            "the model that was adapted was fitted on these very rows, where it looks better than "
            "it is: audit other rows.",
            stacklevel=2,
        )
        return head
    warnings.warn(
        "the model was fitted on these very rows: heads with its settings, fitted without each "
        "third of the rows, are measured in its place.",
        stacklevel=2,
    )
    cells = np.unique([sample_domain.astype(str), y.astype(str)], axis=1, return_inverse=True)[1]
    found = np.empty((len(y), len(head.classes_)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shown when the head itself was fitted
        for fitted_on, others in StratifiedKFold(3).split(X, cells):
            part = clone(head).fit(X[fitted_on], y[fitted_on], sample_domain[fitted_on])
            found[others] = part.predict_proba(X[others])
    return found
