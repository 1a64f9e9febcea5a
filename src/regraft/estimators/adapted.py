"""AdaptedClassifier: the head that :func:`regraft.adapt` makes for one domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regraft.core.adaptation import apply_correction
from regraft.core.transplant import Witness
from regraft.estimators.linear import SoftmaxHead
from regraft.estimators.linear_maps import apply_maps
from regraft.estimators.target_certificate import TargetCertificate


class AdaptedClassifier(SoftmaxHead):
    """Head for one domain, made by :func:`regraft.adapt` from a fitted model.

    Log-probabilities of the classes are those of linear heads of the groups, summed over the
    groups; a correction may act on them and on the features.

    Attributes
    ----------
    classes_, domains_, n_features_in_
        As in :class:`~regraft.estimators.linear.SoftmaxHead`.
    group_heads_ : ndarray (G, C, d + 1)
        log P(y, u | x) in the domain on ``[x, 1]``, up to a constant.
    correction_ : ndarray (C, C + d + 1)
        On log P(y | x) by the heads, the features in the units of the sources, and 1; without a
        correction, the identity and zeros.
    feature_mean_, feature_scale_ : ndarray (d,), float
        Units of the features in the correction.
    certificate_ : TargetCertificate
    witness_ : Witness
        Hull: transplants from the sources to the place of the domain; not kept when saved.
    """

    group_heads_: NDArray[np.float64]
    correction_: NDArray[np.float64]
    feature_mean_: NDArray[np.float64]
    feature_scale_: float
    certificate_: TargetCertificate
    witness_: Witness

    def _logits_of(self, features: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        X = torch.from_numpy(features).double()
        base = torch.log_softmax(torch.logsumexp(apply_maps(self.group_heads_, X), dim=1), dim=1)
        scaled = (X - torch.from_numpy(self.feature_mean_)) / self.feature_scale_
        return apply_correction(torch.from_numpy(self.correction_), base, scaled).numpy()
