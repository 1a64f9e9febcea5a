"""CORAL and MMD: penalize features whose distribution differs between domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regraft.bench.algorithms.base import algorithm
from regraft.bench.algorithms.erm import ERM, OBJECTIVE, domain_losses
from regraft.bench.protocol.spaces import Hparam, ten_to

ALIGNMENT_SPACE: Mapping[str, Hparam] = {"mmd_gamma": ten_to(1.0, -1, 1)}
_GAMMAS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)  # of MMD's kernels


class Alignment(ERM):
    """Mean loss plus a distance between domains, averaged over their pairs."""

    def penalty(self, features: Tensor) -> Tensor:
        """Return the mean distance between two of the K domains in ``features`` (K, b, d)."""
        raise NotImplementedError

    def update_adapting(
        self, step: int, x: Tensor, y: Tensor, unlabelled: Tensor
    ) -> dict[str, Tensor]:
        """Align the ``unlabelled`` domains too; with ``compat`` not, as in DomainBed."""
        return self.go_down(self.objective(step, x, y, None if self.task.compat else unlabelled))

    def objective(
        self, step: int, x: Tensor, y: Tensor, unlabelled: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the mean loss, the penalty, and what a step goes down: their weighted sum."""
        rows = x if unlabelled is None else torch.cat([x, unlabelled])
        features = self.through(self.featurizer, rows)
        loss = domain_losses(self.classifier(features[: y.numel()]), y).mean()
        penalty = self.penalty(features.reshape(*rows.shape[:2], -1))
        total = loss + self.hparams["mmd_gamma"] * penalty
        return {OBJECTIVE: total, "loss": loss, "penalty": penalty}


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
    return 2 * (values - values.mean(dim=0)).square().mean() * n / max(n - 1, 1)


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
    return kernel_sums(features.flatten(0, 1)).view(n, b, n, b).mean(dim=(1, 3))


def kernel_sums(rows: Tensor, gammas: Sequence[float] = _GAMMAS) -> Tensor:
    """Return the sum (n, n) of Gaussian kernels between ``rows`` (n, d)."""
    squares = rows.pow(2).sum(dim=1)
    distances = squares[:, None] + squares[None, :] - 2 * rows @ rows.T
    distances = distances.clamp_min(0)  # rounding can make them negative
    total: Tensor = _Kernels.apply(distances, gammas)  # type: ignore[no-untyped-call]
    return total


class _Kernels(torch.autograd.Function):
    """Sum of exp(-gamma d) for ``distances`` d, with its slope, which costs little beside it."""

    @staticmethod
    def forward(ctx: Any, distances: Tensor, gammas: Sequence[float]) -> Tensor:
        total, slope = torch.zeros_like(distances), torch.zeros_like(distances)
        for gamma in gammas:
            kernel = (distances * -gamma).exp_()
            total += kernel
            slope.sub_(kernel, alpha=gamma)
        ctx.save_for_backward(slope)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return gradient * slope, None
