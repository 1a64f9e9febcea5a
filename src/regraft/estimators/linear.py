"""Base class of all linear softmax heads, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor

from regraft.core.domains import (
    Domains,
    check_domains,
    check_features,
    is_target,
    iterate_row_chunks,
)
from regraft.core.heads import SourceHeads
from regraft.estimators.encoder_record import EncoderRecord


class SoftmaxHead(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of classifiers that predict by logits of the features.

    Attributes: ``classes_`` (C,), ``domains_`` (K,) of the sources, ``n_features_in_``; and, if it
    was fitted on a bank by the command line, the record of its ``encoder_``.
    """

    classes_: NDArray[Any]
    domains_: NDArray[Any]
    encoder_: EncoderRecord

    def fit(self, X: ArrayLike, y: ArrayLike, sample_domain: ArrayLike | None = None) -> Self:
        """Fit on rows ``X`` (n, d), labels ``y`` (n,) and the domain of each row (n,).

        Negative integers are domains of targets: their rows are left out.
        """
        raise NotImplementedError

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return logits (n, C), or for two classes their difference (n,)."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return class probabilities (n, C), columns in the order of ``classes_``."""
        probabilities: NDArray[np.float64] = softmax(self._logits(X), axis=1)
        return probabilities

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most likely labels (n,)."""
        index = self._logits(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[index]
        return labels

    def _logits(self, X: ArrayLike) -> NDArray[np.float64]:
        features = self._check_rows(X)
        logits = np.empty((len(features), len(self.classes_)))
        for rows in iterate_row_chunks(features):
            logits[rows] = self._logits_of(features[rows])
        return logits

    def _logits_of(self, features: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the logits (n, C) of a part of the rows, which are checked already."""
        raise NotImplementedError

    def _check_rows(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        """Validate rows to predict, and return them."""
        check_is_fitted(self)
        return check_features(validate_data(self, X, reset=False, ensure_all_finite=False))


class LinearHead(SoftmaxHead):
    """Base of classifiers ``argmax_c coef_[c] · x + intercept_[c]`` fitted on several domains.

    Attributes after ``fit``: ``coef_`` (C, d) and ``intercept_`` (C,) on the raw features, and
    those of :class:`SoftmaxHead`.
    """

    # Requested at class level, so that pipelines and searches route it once routing is enabled.
    __metadata_request__fit = {"sample_domain": True}

    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]

    def _logits_of(self, features: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        logits: NDArray[np.float64] = features @ self.coef_.T + self.intercept_
        return logits

    def _check(
        self, X: ArrayLike, y: ArrayLike, sample_domain: ArrayLike | None, device: str = "cpu"
    ) -> Domains:
        """Validate the data of ``fit`` and pack them as domains, without the rows of targets."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        X = np.asarray(validate_data(self, X, ensure_all_finite=False))
        y = column_or_1d(y, warn=True)
        if sample_domain is not None:
            kept = ~is_target(sample_domain)
            if len(kept) == len(X) and kept.any() and not kept.all():
                X, y = X[kept], np.asarray(y)[kept]
                sample_domain = np.asarray(sample_domain)[kept]
        check_classification_targets(y)
        return check_domains(X, y, sample_domain, device=device)

    def solve(self, sources: SourceHeads) -> Tensor:
        """Return the head (C, k) on whitened rows that these source heads lead to."""
        raise NotImplementedError

    def fit_sources(self, domains: Domains, sources: SourceHeads) -> Self:
        """Fit as ``fit`` does on ``domains``, whose source heads are known already."""
        self.n_features_in_ = domains.X.shape[1]
        self._set_head(domains, sources.whitening.to_features(self.solve(sources)))
        return self

    def _set_head(self, domains: Domains, head: Tensor) -> None:
        """Set a head (C, d + 1) on ``[x, 1]``; called last, so a failed fit changes nothing."""
        self.classes_, self.domains_ = domains.classes, domains.names
        array = head.cpu().numpy()
        self.coef_, self.intercept_ = array[:, :-1].copy(), array[:, -1].copy()
