"""Maximum mean discrepancy: the same distribution of features in all domains."""

from __future__ import annotations

import torch
from torch import Tensor

from regraft.bench.algorithms.alignment import ALIGNMENT_SPACE, Alignment
from regraft.bench.algorithms.base import algorithm

_GAMMAS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


@algorithm("MMD", ALIGNMENT_SPACE)
class MMD(Alignment):
    """Alignment by the distance of mean embeddings under a sum of Gaussian kernels."""

    def penalty(self, features: Tensor) -> Tensor:
        """Return the squared distance, averaged over pairs of domains; zero for one domain."""
        n = len(features)
        kernels = mean_kernels(features)
        within = kernels.diagonal().sum()  # the gradient of trace waits for the device
        between = kernels.sum() - within
        # A domain is in n - 1 pairs; ``between`` has both orders, as -2 K_xy asks for.
        return ((n - 1) * within - between) / max(n * (n - 1) / 2, 1)


def mean_kernels(features: Tensor) -> Tensor:
    """Return kernel means (K, K) over rows of two of the domains in ``features`` (K, b, d)."""
    n, b, _ = features.shape
    rows = features.flatten(0, 1)
    squares = rows.pow(2).sum(dim=1)
    distances = squares[:, None] + squares[None, :] - 2 * rows @ rows.T
    distances = distances.clamp_min(0).view(n, b, n, b)  # rounding can make them negative
    means = [(-gamma * distances).exp().mean(dim=(1, 3)) for gamma in _GAMMAS]
    return torch.stack(means).sum(dim=0)
