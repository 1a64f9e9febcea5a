"""Linear heads to compare with: ERM, GroupDRO, V-REx and IRMv1.

All use the whitening and the cross-validated ridge of CROClassifier, so a difference between two
of them is a difference of objectives.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from regraft.core.evidence import mean_by_source
from regraft.core.heads import SourceHeads, check_ridge
from regraft.core.newton import logits, losses, minimax_newton, weighted_gradients
from regraft.estimators.linear import LinearHead
from regraft.estimators.row_weights import ClassWeight

_MAX_ITERATIONS = 2000
_ITERATION_LIMIT = 1  # scipy's status; others are convergence, or steps lost in rounding


class ERMClassifier(LinearHead):
    """Empirical risk minimization: softmax regression on the pooled sources, with equal mass each.

    The ridge and the shrinkage of the whitening are cross-validated. Attributes after ``fit`` are
    those of :class:`~regraft.estimators.linear.LinearHead`.

    Parameters
    ----------
    class_weight : mapping, "balanced" or None
        Weights of the classes, as in :class:`~regraft.estimators.cro.CROClassifier`.
    """

    def __init__(self, class_weight: ClassWeight = None) -> None:
        self.class_weight = class_weight

    def solve(self, sources: SourceHeads) -> Tensor:
        """Return the head (C, k) on whitened rows that ``fit`` gets from these source heads."""
        return sources.pooled


class _RiskBalancer(LinearHead):
    """Base of heads whose objective compares the risks of the sources."""

    ridge: float | None

    _of_one_domain = "there are no risks to compare and the ERM head is returned"

    def solve(self, sources: SourceHeads) -> Tensor:
        """Return the head (C, k) on whitened rows that ``fit`` gets from these source heads."""
        if len(sources.slices) == 1:
            return sources.pooled
        return self._solve(sources, sources.learner_ridge(self.ridge))

    def _check_parameters(self) -> None:
        check_ridge(self.ridge)

    def _solve(self, sources: SourceHeads, ridge: Tensor) -> Tensor:
        """Return the head (C, k) on whitened rows, for two sources or more."""
        raise NotImplementedError


class GroupDROClassifier(_RiskBalancer):
    """Group distributionally robust optimization: the smallest worst risk over the sources.

    The problem is convex, and solved to a duality gap, not by stochastic steps.

    Parameters
    ----------
    ridge, class_weight
        As in :class:`~regraft.estimators.cro.CROClassifier`.
    """

    def __init__(self, ridge: float | None = None, class_weight: ClassWeight = None) -> None:
        self.ridge = ridge
        self.class_weight = class_weight

    def _solve(self, sources: SourceHeads, ridge: Tensor) -> Tensor:
        return minimax_over_groups(sources, sources.domain, ridge)


class _PenalizedHead(_RiskBalancer):
    """Base of heads that minimize the mean source risk plus ``penalty`` times a disagreement.

    The objective is not convex; the result is the local minimum that descent reaches from
    the ERM head.
    """

    def __init__(
        self, penalty: float, ridge: float | None = None, class_weight: ClassWeight = None
    ) -> None:
        self.penalty = penalty
        self.ridge = ridge
        self.class_weight = class_weight

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not 0 <= self.penalty < np.inf:
            raise ValueError(f"penalty is {self.penalty}: pass a finite number, 0 or more.")

    def _solve(self, sources: SourceHeads, ridge: Tensor) -> Tensor:
        def value_and_gradient(head: Tensor) -> tuple[Tensor, Tensor]:
            # Not through Z, of which autograd would keep a converted copy for the backward pass.
            scores = logits(sources.Z, head).requires_grad_()
            log_p = torch.log_softmax(scores, dim=1)
            risks = _source_means(losses(log_p, sources.y), sources)
            value = risks.mean() + self.penalty * self._disagreement(log_p, sources)
            (slope,) = torch.autograd.grad(value, scores)
            (gradient,) = weighted_gradients(sources.Z, slope, torch.ones_like(slope[None, :, 0]))
            ridge_term = (ridge * head.square()).sum()
            return value.detach() + ridge_term, gradient + 2 * ridge * head

        return _minimize(value_and_gradient, sources.pooled)

    def _disagreement(self, log_p: Tensor, sources: SourceHeads) -> Tensor:
        """Return the quantity to penalize, given log class probabilities (n, C) of source rows."""
        raise NotImplementedError


class VRExClassifier(_PenalizedHead):
    """Risk extrapolation: mean source risk plus ``penalty`` times the variance of source risks.

    For a linear head this is convex only up to some penalty; beyond it the answer is the local
    minimum that descent reaches from the ERM head.

    Parameters
    ----------
    penalty : float
        Weight of the population variance of the sources' risks; 0 is ERM.
    ridge, class_weight
        As in :class:`~regraft.estimators.cro.CROClassifier`.
    """

    def __init__(
        self, penalty: float = 10.0, ridge: float | None = None, class_weight: ClassWeight = None
    ) -> None:
        super().__init__(penalty, ridge, class_weight)

    def _disagreement(self, log_p: Tensor, sources: SourceHeads) -> Tensor:
        return _source_means(losses(log_p, sources.y), sources).var(correction=0)


class IRMClassifier(_PenalizedHead):
    """Invariant risk minimization (IRMv1): no source gains by rescaling the logits.

    The penalty is the mean over sources of the squared derivative of the source's risk in a common
    factor of the logits, at 1. It is not convex, and the constant predictor satisfies it too: the
    answer is the local minimum that descent reaches from the ERM head.

    Parameters
    ----------
    penalty : float
        Weight of the mean squared derivative; 0 is ERM.
    ridge, class_weight
        As in :class:`~regraft.estimators.cro.CROClassifier`.
    """

    def __init__(
        self, penalty: float = 100.0, ridge: float | None = None, class_weight: ClassWeight = None
    ) -> None:
        super().__init__(penalty, ridge, class_weight)

    def _disagreement(self, log_p: Tensor, sources: SourceHeads) -> Tensor:
        return _source_means(scale_slopes(log_p, sources.y), sources).square().mean()


def minimax_over_groups(
    sources: SourceHeads, group: Tensor, ridge: Tensor, tolerance: float = 1e-6
) -> Tensor:
    """Return the head (C, k) whose worst risk over groups of rows, numbered (n,), is smallest.

    ``tolerance`` is the duality gap to reach.
    """
    weights = group_weights(sources.weight, group)
    rows = sources.Z, sources.y, weights
    return minimax_newton(*rows, ridge=ridge, start=sources.pooled, tolerance=tolerance).head


def group_weights(weight: Tensor, group: Tensor) -> Tensor:
    """Return weights (G, n) of the rows in each group, in proportion to ``weight`` (n,).

    Each group's sum to one; groups without any weight are left out.
    """
    numbers: Tensor = torch.unique(group)
    weights = weight * (group == numbers.unsqueeze(1))
    weights = weights[weights.any(dim=1)]
    return weights / weights.sum(dim=1, keepdim=True)


def scale_slopes(log_p: Tensor, y: Tensor) -> Tensor:
    """Return the derivative (n,) of each row's loss in a common factor of its logits, at 1."""
    # Log-probabilities serve as logits: they differ by a constant over classes, which cancels.
    return (log_p.exp() * log_p).sum(dim=1) + losses(log_p, y)


def _source_means(values: Tensor, sources: SourceHeads) -> Tensor:
    """Return the weighted mean (K,) of ``values`` (n,) over each source's rows."""
    return mean_by_source(values, sources.slices, sources.row_weight)


def _minimize(
    value_and_gradient: Callable[[Tensor], tuple[Tensor, Tensor]], start: Tensor
) -> Tensor:
    """Return the local minimum of a smooth function of a head (C, k) that L-BFGS reaches."""

    def flat(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        head = torch.from_numpy(parameters).reshape(start.shape)
        value, gradient = value_and_gradient(head)
        return value.item(), gradient.flatten().numpy()

    answer = minimize(
        flat,
        start.flatten().numpy(),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": _MAX_ITERATIONS,
            "maxfun": 2 * _MAX_ITERATIONS,
            "maxcor": 20,
            "gtol": 1e-7,
            "ftol": 1e-13,
        },
    )
    if answer.status == _ITERATION_LIMIT:
        warnings.warn(
            f"the penalized risk did not settle in {_MAX_ITERATIONS} iterations: lower penalty or "
            "raise ridge.",
            ConvergenceWarning,
            stacklevel=4,
        )
    return torch.from_numpy(answer.x).reshape(start.shape)
