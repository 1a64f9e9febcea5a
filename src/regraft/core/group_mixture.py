"""Mixtures of normal densities along a score, shared by the sources, which differ in the shares.

Problems (a class, in an outer fold) are fitted as one batch. The score is cut into narrow bins, so
the cost of a step does not grow with the number of rows. The components of a problem share their
variance: a row's belief then rises or falls with its score, and cannot single out both tails.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from regraft.core.domain_scores import or_one

_BINS = 128
_FEW_BINS = 32  # of very many problems, each of which has few rows
_MANY_PROBLEMS = 500
_TRIAL_STEPS, _MAX_STEPS = 5, 100
_TOLERANCE = 1e-5  # nats a row that a step must gain for the next one
_VARIANCE_FLOOR = 2.5e-3  # of the variance of the scores
_SMALLEST_SHARE = 1e-100  # rows over shares stay finite
# Where starts divide the rows, as shares of them; the most likely start goes on.
_STARTS = {
    2: ((0.2,), (0.5,), (0.8,)),
    3: ((0.2, 0.5), (1 / 3, 2 / 3), (0.5, 0.8)),
}
MAX_GROUPS = max(_STARTS)


@dataclass(frozen=True)
class GroupMixture:
    """Mixtures of G components for P problems; components are in the order of their means."""

    mean: Tensor  # (P, G)
    variance: Tensor  # (P,)
    shares: Tensor  # (P, K, G) of the components in each source
    likelihood: Tensor  # (P,) mean log density of the scores, given the source

    def log_density(self, t: Tensor, problem: Tensor) -> Tensor:
        """Return the log densities (n, G) of scores ``t`` (n,) in their problems (n,)."""
        squares = (t.unsqueeze(1) - self.mean[problem]).square()
        return -0.5 * (squares / self.variance[problem].unsqueeze(1))

    @property
    def separation(self) -> Tensor:
        """Distance (P,) of neighbouring components, the least one, in standard deviations."""
        steps = self.mean.diff(dim=1).amin(dim=1)
        return steps / self.variance.sqrt()


@dataclass(frozen=True)
class BinnedScores:
    """Scores of P problems as counts in bins."""

    center: Tensor  # (P, B) mean score of each bin
    count: Tensor  # (P, B, K)

    @cached_property
    def rows(self) -> Tensor:
        """Number (P, B) of rows in each bin."""
        return self.count.sum(dim=2)

    @cached_property
    def in_source(self) -> Tensor:
        """Number (P, K) of rows of each source."""
        return self.count.sum(dim=1)

    @cached_property
    def size(self) -> Tensor:
        """Number (P,) of rows, 1 where there are none."""
        return or_one(self.rows.sum(dim=1))

    @cached_property
    def middle(self) -> Tensor:
        """Mean score (P,) of all rows."""
        return (self.rows * self.center).sum(dim=1) / self.size

    @cached_property
    def powers(self) -> Tensor:
        """One, the distance from the middle, and its square (P, B, 3)."""
        away = self.center - self.middle.unsqueeze(1)
        return torch.stack([torch.ones_like(away), away, away.square()], dim=2)

    @cached_property
    def smallest_variance(self) -> Tensor:
        """Variance (P,) below which no component may fall."""
        total = (self.rows * self.powers[:, :, 2]).sum(dim=1) / self.size
        return (_VARIANCE_FLOOR * total).clamp_min(torch.finfo(total.dtype).tiny)


@dataclass(frozen=True)
class ExpectedRows:
    """How many rows are expected in each component."""

    in_bin: Tensor  # (P, B, G)
    in_source: Tensor  # (P, K, G)


def bin_scores(
    t: Tensor, problem: Tensor, s: Tensor, n_problems: int, K: int, weight: Tensor | None = None
) -> BinnedScores:
    """Count scores ``t`` (m,) of rows from sources ``s`` (m,) in bins of their problem (m,).

    Each counts ``weight`` (m,) times, by default once.
    """
    weight = torch.ones_like(t) if weight is None else weight
    bins = _BINS if n_problems <= _MANY_PROBLEMS else _FEW_BINS
    low = t.new_full((n_problems,), float("inf")).scatter_reduce(0, problem, t, "amin")
    high = t.new_full((n_problems,), -float("inf")).scatter_reduce(0, problem, t, "amax")
    width = (high - low).clamp_min(torch.finfo(t.dtype).tiny)
    place = ((t - low[problem]) / width[problem] * bins).long().clamp(0, bins - 1)
    cell = problem * bins + place
    count = torch.bincount(cell * K + s, weights=weight, minlength=n_problems * bins * K)
    count = count.reshape(n_problems, bins, K)
    total = t.new_zeros(n_problems * bins).index_add(0, cell, t * weight)
    total = total.reshape(n_problems, bins)
    middle = low.unsqueeze(1) + (torch.arange(bins, device=t.device) + 0.5) / bins * width[:, None]
    rows = count.sum(dim=2)
    return BinnedScores(torch.where(rows > 0, total / or_one(rows), middle), count)


def fit_mixture(scores: BinnedScores, n_groups: int) -> GroupMixture:
    """Fit mixtures of ``n_groups`` components to every problem by expectation-maximization."""
    rows = scores.rows
    below = (rows.cumsum(dim=1) - rows / 2) / scores.size.unsqueeze(1)
    cuts = below.new_tensor(_STARTS[n_groups])[:, :, None, None]  # (starts, cuts, 1, 1)
    group = (below > cuts).sum(dim=1).flatten(0, 1)  # all starts of all problems are one batch
    certain = torch.nn.functional.one_hot(group, n_groups).to(rows)
    belief = 0.8 * certain + 0.2 / n_groups
    repeated = BinnedScores(
        scores.center.repeat(len(cuts), 1), scores.count.repeat(len(cuts), 1, 1)
    )
    expected = ExpectedRows(
        repeated.rows.unsqueeze(2) * belief, torch.bmm(repeated.count.mT, belief)
    )
    start = maximize(repeated, expected)
    trials = _climb(repeated, start, _TRIAL_STEPS)
    best = trials.likelihood.reshape(len(cuts), -1).argmax(dim=0)
    mixture = _climb(scores, _pick(trials, best), _MAX_STEPS)
    order = mixture.mean.argsort(dim=1)
    return replace(
        mixture,
        mean=mixture.mean.gather(1, order),
        shares=mixture.shares.gather(2, order.unsqueeze(1).expand_as(mixture.shares)),
    )


def _climb(scores: BinnedScores, mixture: GroupMixture, steps: int) -> GroupMixture:
    """Take steps of expectation-maximization until none gains much."""
    expected, likelihood = expect(scores, mixture)
    for _ in range(steps):
        mixture = maximize(scores, expected)
        before = likelihood
        expected, likelihood = expect(scores, mixture)
        if float((likelihood - before).max()) <= _TOLERANCE:
            break
    return replace(mixture, likelihood=likelihood)


def _pick(trials: GroupMixture, best: Tensor) -> GroupMixture:
    """Return for each problem the trial that ``best`` (P,) names, of all trials in one batch."""
    place = best * len(best) + torch.arange(len(best), device=best.device)
    parts = trials.mean, trials.variance, trials.shares, trials.likelihood
    return GroupMixture(*(values[place] for values in parts))


def expect(scores: BinnedScores, mixture: GroupMixture) -> tuple[ExpectedRows, Tensor]:
    """Return how many rows each component is expected to have, and the log-likelihood (P,).

    Densities are those of bins and components alone: sources only mix them.
    """
    squares = (scores.center.unsqueeze(2) - mixture.mean.unsqueeze(1)).square()
    log_density = squares / (-2 * mixture.variance[:, None, None])
    largest = log_density.amax(dim=2, keepdim=True)
    density = (log_density - largest).exp_()  # (P, B, G)
    shares = mixture.shares.clamp_min(_SMALLEST_SHARE)
    mixed = torch.bmm(density, shares.mT)  # (P, B, K)
    evidence = mixed.log() + largest
    spread = 0.5 * mixture.variance.log()
    likelihood = (scores.count * evidence).sum(dim=(1, 2)) / scores.size - spread
    ratio = scores.count / mixed
    expected = ExpectedRows(
        density * torch.bmm(ratio, shares), shares * torch.bmm(ratio.mT, density)
    )
    return expected, likelihood


def maximize(scores: BinnedScores, expected: ExpectedRows) -> GroupMixture:
    """Return the most likely mixture with these expected rows; its likelihood stays open."""
    rows, first, second = torch.bmm(expected.in_bin.mT, scores.powers).unbind(dim=2)  # (P, G) each
    away = first / rows.clamp_min(torch.finfo(rows.dtype).tiny)
    mean = scores.middle.unsqueeze(1) + away
    variance = (second - first * away).sum(dim=1) / scores.size
    variance = torch.maximum(variance, scores.smallest_variance)
    in_source = scores.in_source.unsqueeze(2)
    # A source without rows may have any shares.
    shares = torch.where(in_source > 0, expected.in_source / or_one(in_source), 1 / rows.shape[1])
    return GroupMixture(mean, variance, shares, torch.full_like(variance, torch.nan))
