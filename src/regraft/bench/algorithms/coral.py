"""Correlation alignment: the same means and covariances of features in all domains."""

from __future__ import annotations

from torch import Tensor

from regraft.bench.algorithms.alignment import ALIGNMENT_SPACE, Alignment
from regraft.bench.algorithms.base import algorithm


@algorithm("CORAL", ALIGNMENT_SPACE)
class CORAL(Alignment):
    """Alignment by the mean squared difference of means and of covariances."""

    def penalty(self, features: Tensor) -> Tensor:
        """Return both differences, averaged over pairs of domains; zero for one domain."""
        means = features.mean(dim=1, keepdim=True)
        centred = features - means
        covariances = centred.mT @ centred / (features.shape[1] - 1)
        return pair_difference(means) + pair_difference(covariances)


def pair_difference(values: Tensor) -> Tensor:
    """Return the mean of (a - b)² over pairs of the K entries of ``values`` (K, ...)."""
    n = len(values)
    # Over all ordered pairs, those of an entry with itself included, it is twice the variance.
    return 2 * values.var(dim=0, correction=0).mean() * n / max(n - 1, 1)
