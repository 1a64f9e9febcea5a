"""Shares of the groups in a new domain, from its rows with or without labels.

If the domain mixes the groups in shares π, a row x has ``Σ_u π(u) P(u | x) / π_0(u)`` times the
density that it has in the pooled sources, whose shares are π_0; with its label y, P(u | x) becomes
P(y, u | x). The log-likelihood of π is concave, and expectation-maximization has its maximum as a
fixed point. Shares that a likelihood-ratio test does not reject are the confidence region.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import chi2
from torch import Tensor

from regraft.core.evidence import CONFIDENCE
from regraft.core.reference import Reference

TINY = 1e-12
_INNER = 0.05
_HALVINGS = 30


def log_ratios(log_joint: Tensor, shares: Tensor, y: Tensor | None = None) -> Tensor:
    """Return the log densities (n, G) of rows in each group, relative to the pooled sources.

    ``log_joint`` (n, G, C) is log P(y, u | x) of the pooled sources, whose shares are ``shares``
    (G,). With labels ``y`` (n,) it is the density of rows and labels together.
    """
    if y is None:
        joint = torch.logsumexp(log_joint, dim=2)
    else:
        joint = log_joint.gather(2, y[:, None, None].expand(-1, log_joint.shape[1], 1)).squeeze(2)
    return joint - shares.log()


def target_log_probabilities(log_joint: Tensor, shares: Tensor, target: Tensor) -> Tensor:
    """Return log P(y | x) (n, C) in a domain that has the groups in the shares ``target`` (G,)."""
    tilt = target.clamp_min(TINY).log() - shares.log()
    return torch.log_softmax(torch.logsumexp(log_joint + tilt.unsqueeze(1), dim=1), dim=1)


class Likelihood(Protocol):
    """Mean log-likelihood of shares (G,) on the rows of a domain."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def value(self, shares: NDArray[np.float64]) -> float:
        """Return the mean log-likelihood."""
        ...

    def slope(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return its derivatives (G,)."""
        ...


class ShareLikelihood:
    """The likelihood on rows whose log densities ``log_ratio`` (n, G) are in memory."""

    def __init__(self, log_ratio: Tensor) -> None:
        ratio = log_ratio.double()
        self._top = float(ratio.amax(dim=1).mean())
        self._ratio = (ratio - ratio.amax(dim=1, keepdim=True)).exp().cpu().numpy()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self._ratio)

    def value(self, shares: NDArray[np.float64]) -> float:
        """Return the mean log-likelihood."""
        return float(np.log(self._ratio @ shares + TINY).mean()) + self._top

    def slope(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return its derivatives (G,)."""
        inverse = 1 / (len(self._ratio) * (self._ratio @ shares + TINY))
        return np.asarray(inverse @ self._ratio)


@dataclass(frozen=True)
class ShareRegion:
    """Shares of the groups that the rows of a domain leave possible, with some confidence.

    Likelihood ratios count by ``certainty`` only: the part of the variance that comes from the rows
    of the domain. The rest comes from the rows of the sources.
    """

    shares: Tensor  # (G,) the most likely ones
    likelihood: Likelihood
    certainty: float  # 0 to 1
    told: float  # how much of its group a row tells; 1: the group is known, 0: groups look alike
    confidence: float

    def farthest(self, direction: Tensor) -> Tensor:
        """Return the shares (G,) of the region that lie farthest in ``direction`` (G,)."""
        goal = _centre(direction.cpu().numpy())
        if not goal.any():  # all shares lie equally far, among them those of a single group
            return self.shares
        key = goal.tobytes()  # two groups have two directions only
        if key not in self._ends:
            self._ends[key] = self._search(goal)
        return self._ends[key]

    @cached_property
    def _ends(self) -> dict[bytes, Tensor]:
        return {}

    def _search(self, goal: NDArray[np.float64]) -> Tensor:
        best, likelihood = self.shares.cpu().numpy(), self.likelihood
        slack = float(chi2.ppf(self.confidence, len(best) - 1)) / (2 * self.certainty)
        width = slack / likelihood.n_rows  # of the mean log-likelihood; the unit of the search
        least = likelihood.value(best) - width
        found = np.eye(len(best))[goal.argmax()]
        if len(best) > 2:  # two groups: the farthest point lies on the way to one of them
            likely = {
                "type": "ineq",
                "fun": lambda p: (likelihood.value(p) - least) / width,
                "jac": lambda p: likelihood.slope(p) / width,
            }
            found = _minimize_on_simplex(lambda p: (-float(goal @ p), -goal), best, likely)
        # A search may end outside. The region is convex, so its edge is met on the way back.
        inside, outside = 0.0, 1.0
        if likelihood.value(found) < least:
            for _ in range(_HALVINGS):
                middle = (inside + outside) / 2
                far = likelihood.value(best + middle * (found - best)) < least
                inside, outside = (inside, middle) if far else (middle, outside)
            found = best + inside * (found - best)
        return torch.from_numpy(found).to(self.shares)

    @cached_property
    def bounds(self) -> Tensor:
        """Least and largest share (2, G) of each group."""
        axes = torch.eye(len(self.shares)).to(self.shares)
        ends = [[float(self.farthest(sign * axis) @ axis) for axis in axes] for sign in (-1, 1)]
        return torch.tensor(ends).to(self.shares)


def expected_accuracy(
    region: ShareRegion,
    chance: tuple[float, float],
    reference: Reference,
    reference_predicted: Tensor,
) -> tuple[float, float]:
    """Return the accuracy of predicted classes at a region's shares, and its standard error.

    ``chance`` is the mean over the rows of the probability that the groups give to the predicted
    class, see :func:`chances`, and its variance. It is corrected by how far they are wrong about
    the predictions (m,) for ``reference``. The error is that of both kinds of rows and of the
    shares.
    """
    laws = reference.laws
    weight = region.shares @ laws
    known = chances(reference.log_joint, reference_predicted, region.shares, reference.shares)
    off = reference.correct - known
    bias = float(weight @ off)
    # In a mixture, the correction leaves the accuracy of the groups as what moves with the shares.
    slope = laws @ reference.correct
    span = float((region.farthest(slope) - region.farthest(-slope)) @ slope) / 2
    variance = (
        chance[1] / region.likelihood.n_rows
        + float(weight.square() @ (off - bias).square())
        + span**2 / float(chi2.ppf(region.confidence, max(len(laws) - 1, 1)))
    )
    return min(max(chance[0] + bias, 0.0), 1.0), variance**0.5


def chances(log_joint: Tensor, predicted: Tensor, target: Tensor, shares: Tensor) -> Tensor:
    """Return the probabilities (n,) of ``predicted`` classes in a domain of shares ``target``."""
    log_p = target_log_probabilities(log_joint, shares, target)
    return log_p.gather(1, predicted.unsqueeze(1)).squeeze(1).exp()


def estimate_shares(
    likelihood: Likelihood, n_labelled: int, reference: Reference, confidence: float = CONFIDENCE
) -> ShareRegion:
    """Estimate the shares from their likelihood on rows, of which so many have labels.

    Rows of ``reference`` say how well the groups can be told apart.
    """
    best = _minimize_on_simplex(
        lambda p: (-likelihood.value(p), -likelihood.slope(p)), reference.shares.cpu().numpy()
    )
    shares = torch.from_numpy(best).to(reference.shares)
    # Away from the edges, where a likelihood of no group says nothing of the others.
    inner = (1 - _INNER) * shares + _INNER / len(shares)
    labelled = n_labelled / likelihood.n_rows
    noise, spread = 0.0, 0.0
    for part, y in ((1 - labelled, None), (labelled, reference.y)):
        ratio = log_ratios(reference.log_joint, reference.shares, y)
        belief = torch.softmax(ratio + inner.log(), dim=1)  # (m, G)
        laws = reference.laws
        off = belief - (laws @ belief).unsqueeze(1)  # (G, m, G), from the mean of each group
        noise += part * float(
            inner.square() @ (laws.square().unsqueeze(2) * off.square()).sum((1, 2))
        )
        spread += part * float((inner @ laws) @ (belief - inner).square().sum(dim=1))
    noise *= float(reference.sampled)  # the heads rest on more rows than these
    known = float((inner * (1 - inner)).sum())
    own = spread / likelihood.n_rows
    return ShareRegion(
        shares,
        likelihood,
        certainty=own / (own + noise) if noise > 0 else 1.0,
        told=min(spread / known, 1.0) if known > 0 else 0.0,
        confidence=confidence,
    )


def _centre(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``values`` up to a constant and a scale, which do not move an extreme on a simplex."""
    centred: NDArray[np.float64] = values - values.mean()
    centred /= max(float(np.abs(centred).max()), TINY)
    return centred.round(12)  # so that directions that are the same look the same


def _minimize_on_simplex(
    value_and_slope: Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]],
    start: NDArray[np.float64],
    *constraints: dict[str, Any],
) -> NDArray[np.float64]:
    """Return shares that minimize a convex function where the ``constraints`` hold."""
    if len(start) == 1:
        return np.ones(1)
    total = {"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like}
    found = minimize(
        value_and_slope,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(start),
        constraints=[total, *constraints],
        options={"maxiter": 200, "ftol": 1e-12},
    ).x.clip(0, 1)
    shares: NDArray[np.float64] = found / found.sum()
    return shares
