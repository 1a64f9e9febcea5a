"""CausIRL: features alike in two mixtures of the domains, which differ in nothing else."""

from __future__ import annotations

import torch
from torch import Tensor

from regraft.bench.algorithms.alignment import ALIGNMENT_SPACE, kernel_sums
from regraft.bench.algorithms.base import algorithm
from regraft.bench.algorithms.erm import ERM, OBJECTIVE, domain_losses


class CausIRL(ERM):
    """Mean loss plus a distance between two parts of the batch, cut at random in each domain."""

    def distance(self, rows: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Return the distance of two parts of ``rows`` (n, d), each a mask (n,) of 0 and 1."""
        raise NotImplementedError

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the mean loss, the distance, and their weighted sum."""
        features = self.through(self.featurizer, x)
        loss = domain_losses(self.classifier(features), y).mean()
        n_domains, n = y.shape
        cuts = torch.randint(n, (n_domains, 1), generator=self.generator, device=y.device)
        first = (torch.arange(n, device=y.device) < cuts).flatten().to(features)
        is_enough = (first.sum() > 1) & (first.sum() < n_domains * n - 1)
        # Where a part has no two rows, any other parts will do: the distance is not used.
        alternate = torch.arange(n_domains * n, device=y.device) % 2
        first = torch.where(is_enough, first, alternate.to(features))
        penalty = self.distance(features, first, 1 - first).nan_to_num() * is_enough
        total = loss + self.hparams["mmd_gamma"] * penalty
        return {OBJECTIVE: total, "loss": loss, "penalty": penalty}


@algorithm("CausIRL_CORAL", ALIGNMENT_SPACE)
class CausIRLCORAL(CausIRL):
    """Distance of means and of covariances."""

    def distance(self, rows: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Return the mean squared difference of means, plus that of covariances."""
        means, covariances = [], []
        for part in (first, second):
            mean = part @ rows / part.sum()
            centred = rows - mean
            means.append(mean)
            covariances.append((part[:, None] * centred).T @ centred / (part.sum() - 1))
        return (means[0] - means[1]).square().mean() + (
            covariances[0] - covariances[1]
        ).square().mean()


@algorithm("CausIRL_MMD", ALIGNMENT_SPACE)
class CausIRLMMD(CausIRL):
    """Distance of mean embeddings under a sum of Gaussian kernels."""

    def distance(self, rows: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Return the squared distance."""
        difference = first / first.sum() - second / second.sum()
        return difference @ kernel_sums(rows) @ difference
