"""Base class of all linear softmax heads, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor

from regraft.core.domains import (
    Domains,
    check_column,
    check_domains,
    is_target,
    keep_integers,
    warn_if_one_domain,
)
from regraft.core.features import check_features, check_no_text, column_names, iterate_row_chunks
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.estimators.column_roles import ColumnRoles
from regraft.estimators.encoder_record import EncoderRecord
from regraft.estimators.parameter_types import check_numbers
from regraft.estimators.row_weights import ClassWeight, check_sample_weight, weigh_classes
from regraft.support.threads import threads_for


class SoftmaxHead(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of classifiers that predict by logits of the features.

    Attributes: ``classes_`` (C,), ``domains_`` (K,) of the sources, ``n_features_in_``; and, if it
    was fitted by the command line, the ``column_roles_`` of its table and, for a bank, the record
    of its ``encoder_``.
    """

    classes_: NDArray[Any]
    domains_: NDArray[Any]
    encoder_: EncoderRecord
    column_roles_: ColumnRoles

    def fit(self, *args: Any, **kwargs: Any) -> Self:
        """Raise ``ValueError``, unless a class says how it is fitted: another model makes it."""
        raise ValueError("an adapted model is not fitted: call adapt of the model it came from.")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return logits (n, C), or for two classes their difference (n,)."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return class probabilities (n, C), columns in the order of ``classes_``."""
        probabilities: NDArray[np.float64] = softmax(self._logits(X), axis=1)
        return probabilities

    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return logarithms of class probabilities (n, C), in the order of ``classes_``."""
        logarithms: NDArray[np.float64] = log_softmax(self._logits(X), axis=1)
        return logarithms

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most likely labels (n,)."""
        index = self._logits(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[index]
        return labels

    def _logits(self, X: ArrayLike) -> NDArray[np.float64]:
        # A sparse matrix is filled up by a few rows at a time.
        features = self._check_sparse(X) if issparse(X) else self._check_rows(X)
        logits = np.empty((features.shape[0], len(self.classes_)))
        for rows in iterate_row_chunks(features):
            part = features[rows]
            logits[rows] = self._logits_of(check_features(part) if issparse(part) else part)
        return logits

    def _logits_of(self, features: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the logits (n, C) of a part of the rows, which are checked already."""
        raise NotImplementedError

    def _check_rows(self, X: ArrayLike) -> NDArray[np.floating[Any]]:
        """Validate rows to predict, and return them."""
        check_is_fitted(self)
        names = column_names(X)
        check_no_text(X, names)
        return check_features(self._check_sparse(X), names)

    def _check_sparse(self, X: ArrayLike) -> NDArray[Any] | csr_array:
        """Validate the shape of rows to predict, and return them, sparse if they are."""
        check_is_fitted(self)
        checked: NDArray[Any] | csr_array = validate_data(
            self, X, reset=False, accept_sparse="csr", ensure_all_finite=False
        )
        return checked


class LinearHead(SoftmaxHead):
    """Base of linear classifiers fitted on several domains, with the logits ``W · [x, 1]``.

    Attributes after ``fit``: ``coef_`` (C, d) and ``intercept_`` (C,) on the raw features, or for
    two classes, as in scikit-learn, (1, d) and (1,) of the second against the first; and those of
    :class:`SoftmaxHead`.
    """

    # Requested at class level, so that pipelines and searches route it once routing is enabled.
    __metadata_request__fit = {"sample_domain": True, "sample_weight": True}
    __metadata_request__score = {"sample_weight": True}

    class_weight: ClassWeight
    device: str = "cpu"  # where torch computes
    _of_one_domain = ""  # what to warn of if there is one domain only
    _head: NDArray[np.float64]  # (C, d + 1) on [x, 1]

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of the features: (C, d), or (1, d) for two classes."""
        return _contrast(self._head[:, :-1])

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Logits at 0: (C,), or (1,) for two classes."""
        return _contrast(self._head[:, -1])

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_domain: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit on rows ``X`` (n, d), labels ``y`` (n,), the domain and the weight of each row (n,).

        Within a domain, a row counts in proportion to its weight; domains weigh the same.
        Negative integers are domains of targets: their rows are left out. A sparse ``X`` is filled
        up, or refused if that takes too much memory.
        """
        check_numbers(self)
        self._check_parameters()
        domains = self._check(X, y, sample_domain, sample_weight)
        if self._of_one_domain:
            warn_if_one_domain(domains, self._of_one_domain)
        with threads_for(domains.X.numel()):
            return self.fit_sources(domains, fit_source_heads(domains))

    def _check_parameters(self) -> None:
        """Raise ``ValueError`` for parameters that cannot be used."""

    def _logits_of(self, features: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        logits: NDArray[np.float64] = features @ self._head[:, :-1].T + self._head[:, -1]
        return logits

    def _check(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_domain: ArrayLike | None,
        sample_weight: ArrayLike | None,
    ) -> Domains:
        """Validate the data of ``fit`` and pack them as domains.

        Rows of targets and rows of weight 0 are left out.
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None.")
        columns = column_names(X)
        check_no_text(X, columns)
        rows: Any = validate_data(self, X, accept_sparse="csr", ensure_all_finite=False)
        labels = check_column(column_or_1d(keep_integers(y), warn=True), "y")
        domain = (
            np.zeros(rows.shape[0], int) if sample_domain is None else np.asarray(sample_domain)
        )
        if domain.ndim == 0:
            raise ValueError(f"sample_domain is {sample_domain!r}: pass one value for each row.")
        weight = check_sample_weight(sample_weight, rows.shape[0])
        if len(labels) == len(domain) == len(weight):  # else check_domains says what is wrong
            kept, sources = weight > 0, ~is_target(domain.reshape(len(domain), -1)[:, 0])
            kept &= sources | ~sources.any()
            if not kept.all():
                rows, labels, domain, weight = rows[kept], labels[kept], domain[kept], weight[kept]
            weight = weigh_classes(weight, self.class_weight, labels)
        check_classification_targets(labels)
        return check_domains(
            rows, labels, domain, row_weight=weight, columns=columns, device=self.device
        )

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
        self._head = head.cpu().numpy()


def _contrast(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values (C, ...) of the classes; of two, their difference (1, ...)."""
    return values[1:] - values[:1] if len(values) == 2 else values.copy()
