"""Closure on the target's side: is a domain a mix of the groups that the sources have?

A classifier is fitted to tell rows of the domain from rows of the sources, which weights have
turned into the mixture that is nearest to the domain. On rows that it has not seen, its score must
have the same mean on both sides if the domain is such a mixture.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.stats import chi2
from torch import Tensor

from regraft.core.decompositions import eigh

_FOLDS = 5
MAX_ROWS = 4000
_MAX_COMPONENTS = 64
_RIDGE = 0.1
_LIMIT = 4.0  # standard deviations; what lies further out counts as that
_SMALL = 1e-8
_NOISES = 5


@dataclass(frozen=True)
class ClosureTest:
    """How well rows of a domain can be told from the mixture of the sources that is nearest."""

    p_value: float  # of "they cannot"
    gap: float  # between the mean scores, in standard deviations of the score
    rows: Tensor  # (n,) numbers of the rows that were compared
    scores: Tensor  # (n,) of these rows; the higher, the less a row looks like the mixture


def compare_with_mixture(X: Tensor, mixture: Tensor, weight: Tensor) -> ClosureTest:
    """Compare rows ``X`` (n, d) of a domain with rows (m, d) whose weights (m,) sum to one.

    Of very many rows of the domain, a part that is spread over all of them is compared.
    """
    chosen = torch.arange(0, len(X), -(-len(X) // MAX_ROWS), device=X.device)
    domain, other = X[chosen].to(weight), mixture.to(weight)
    own = weight.new_full((len(chosen),), 1 / len(chosen))
    fold, other_fold = (torch.arange(len(each), device=X.device) % _FOLDS for each in (own, weight))
    scores = weight.new_empty(len(chosen))
    gap, variance = 0.0, 0.0
    for f in range(_FOLDS):
        inside, outside = fold == f, other_fold == f
        describe = _Coordinates(other[~outside], weight[~outside])
        classifier = _tell_apart(
            describe(domain[~inside]), describe(other[~outside]), weight[~outside]
        )
        scores[inside] = describe(domain[inside]) @ classifier
        mean, error = _mean_and_error(scores[inside], own[inside])
        beside, more = _mean_and_error(describe(other[outside]) @ classifier, weight[outside])
        gap += (mean - beside) / _FOLDS
        variance += (error + more) / _FOLDS**2
    # If there is nothing to learn, a classifier has learnt the noise of the other folds. Then what
    # two folds have in common enters once for each of them, which doubles the variance.
    error = (2 * variance) ** 0.5
    # Products of noise have a long tail on the right, as squares of a few of them have.
    tail = _NOISES + (2 * _NOISES) ** 0.5 * gap / error if error > 0 else 0.0
    return ClosureTest(
        p_value=float(chi2.sf(max(tail, 0.0), _NOISES)),
        gap=gap / max(float(scores.std(unbiased=False)), 1e-12),
        rows=chosen,
        scores=scores,
    )


class _Coordinates:
    """Rows as principal coordinates of a weighted sample, and their squares.

    The sample is that of the fit: rows that decide the coordinates look more regular in them than
    others do.
    """

    def __init__(self, rows: Tensor, weight: Tensor) -> None:
        weight = weight / weight.sum()
        self._mean = weight @ rows
        centred = rows - self._mean
        self._scale = (weight @ centred.square()).sqrt().clamp_min(_SMALL)
        centred = centred / self._scale * weight.sqrt().unsqueeze(1)
        values, basis = eigh(centred.T @ centred)
        values, basis = values[-_MAX_COMPONENTS:], basis[:, -_MAX_COMPONENTS:]
        kept = values > _SMALL * values[-1]
        self._basis = basis[:, kept] / values[kept].sqrt()

    def __call__(self, rows: Tensor) -> Tensor:
        T = ((rows - self._mean) / self._scale @ self._basis).clamp(-_LIMIT, _LIMIT)
        return torch.cat([T, T.square()], dim=1)


def _tell_apart(domain: Tensor, other: Tensor, weight: Tensor) -> Tensor:
    """Return Fisher's discriminant (k,), with a ridge: larger on the rows of the domain."""
    weight = weight / weight.sum()
    mean, beside = domain.mean(dim=0), weight @ other
    centred = torch.cat(
        [(domain - mean) / len(domain) ** 0.5, (other - beside) * weight.sqrt().unsqueeze(1)]
    )
    within = centred.T @ centred / 2 + _RIDGE * torch.eye(len(mean)).to(mean)
    direction: Tensor = torch.linalg.solve(within, mean - beside)
    return direction


def _mean_and_error(values: Tensor, weight: Tensor) -> tuple[float, float]:
    """Return the weighted mean, and the square of its standard error."""
    weight = weight / weight.sum()
    mean, square = weight @ values, weight.square()
    error = square @ (values - mean).square() / (1 - square.sum()).clamp_min(_SMALL)
    return float(mean), float(error)
