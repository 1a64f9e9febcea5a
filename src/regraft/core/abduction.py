"""Abduction: find the hidden factor U that the sources disagree about, from domain labels alone.

Where domains act on the prior of U, sources are different mixtures of the same groups,
``P_s(x, y) = Σ_u π_s(u) P(x, y | u)``. Within a class, a score of the source
(:mod:`~regraft.core.domain_scores`) points along the direction on which the groups differ, and a
mixture along the score (:mod:`~regraft.core.group_mixture`) tells them apart far better than the
sources, which are weak labels of U. Every choice is made by the log-likelihood of the source on
outer folds that no step has seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regraft.core.domain_scores import (
    FOLDS,
    ClassRows,
    DomainRegression,
    PermutationTest,
    Scores,
    arrange_rows,
    or_one,
    permutation_test,
    score_domains,
    sharpen_scores,
    silence,
    telling_classes,
)
from regraft.core.domains import Domains
from regraft.core.group_mixture import MAX_GROUPS, GroupMixture, bin_scores, fit_mixture
from regraft.core.group_models import GroupModels
from regraft.core.heads import SourceHeads
from regraft.core.whitening import chunks_of, fit_whitening
from regraft.support.memory_map import released

LEVEL = 0.05  # of the test of "no hidden factor"
MAX_COMPONENTS = 128
_ROUNDS = 2  # of sharpening
_SHARE_FLOOR = 1e-3  # keeps the likelihood of a source finite where a group lacks it
_STANDARD_ERRORS = 2.0  # by which a third group must be better than two
_LEAST_SHARE = 0.05  # of the gain that it must add: with very many rows, anything is significant
# A source whose rows are in a group at a smaller share than this does not have the group.
SMALLEST_SHARE = 0.02


@dataclass(frozen=True)
class Groups:
    """What abduction found; with one group, that is no hidden factor, there are no models."""

    posterior: Tensor  # (n, G) P(u | x, y) of each row, by models that have not seen the row
    fold: Tensor  # (n,) of each row: which of the models has not seen it
    shares: Tensor  # (K, C, G) of the groups in each source and class
    source_shares: Tensor  # (K, G) in each source
    gain: float  # nats a row that the groups tell about the source, on outer folds
    gain_error: float  # its standard error
    possible_gain: float  # what they would tell if each row's group were known
    separation: float  # of neighbouring groups, in standard deviations; the least over classes
    p_value: float  # of "no hidden factor": features say nothing about the source of a class's rows
    noise_gain: float  # nats a row that chance reaches once in twenty times
    contrast: tuple[float, ...]  # (K,) which sources have more of the last group, and how strongly
    tells: Tensor  # (C,) whether a class tells the groups apart; where not, its rows are in each
    informed: Tensor  # (K,) whether a source has rows of such a class
    models: GroupModels | None

    @property
    def n_groups(self) -> int:
        """Number G of groups; 1 if no hidden factor was found."""
        return self.posterior.shape[1]

    def told(self, y: Tensor) -> Tensor | None:
        """Return which rows of classes ``y`` (n,) tell the groups apart; None if all classes do."""
        return None if bool(self.tells.all()) else self.tells[y]

    @property
    def holders(self) -> Tensor:
        """Whether each source (K, G) is known to hold each group, in more than a few rows."""
        return (self.source_shares >= SMALLEST_SHARE) & self.informed.unsqueeze(1)

    @property
    def overlap(self) -> bool:
        """Whether two sources or more hold each group; else groups may be sources."""
        return bool((self.holders.sum(dim=0) >= 2).all())


@dataclass(frozen=True)
class _Candidate:
    """Groups along one score."""

    scores: Scores
    mixture: GroupMixture  # of F · C problems
    gain: Tensor  # (n,)
    n_groups: int


@dataclass(frozen=True)
class PrincipalRows:
    """Rows in their leading principal coordinates, in the features' own scale."""

    T: Tensor  # (n, p)
    basis: Tensor  # (d, p) principal directions
    mean: Tensor  # (d,)
    y: Tensor  # (n,)
    s: Tensor  # (n,) the source of each row
    weight: Tensor  # (n,) sums to one, equal mass per source
    row_weight: Tensor  # (n,) for how many rows each row counts
    n_classes: int
    n_sources: int


def rows_of_domains(domains: Domains) -> PrincipalRows:
    """Return the rows of ``domains`` in their order."""
    whitening = fit_whitening(domains.X, domains.weight, domains.mapping)
    basis = whitening.basis[:, -MAX_COMPONENTS:]
    T = basis.new_empty((len(domains.X), basis.shape[1]))
    for rows in released(chunks_of(domains.X), domains.mapping):
        T[rows] = (domains.X[rows].to(basis) - whitening.mean) @ basis
    sizes = len(domains.classes), len(domains.names)
    columns = domains.y, domains.domain, domains.weight, domains.row_weight
    return PrincipalRows(T, basis, whitening.mean, *columns, *sizes)


def rows_of_sources(sources: SourceHeads) -> PrincipalRows:
    """Return the rows of ``sources``, in the order of its domains, without reading them again."""
    whitening = sources.whitening
    basis = whitening.basis[:, -MAX_COMPONENTS:]
    whitened = sources.Z[:, -1 - basis.shape[1] : -1].to(basis)
    sizes = len(sources.pooled), len(sources.slices)
    return PrincipalRows(
        whitened * whitening.scale[-basis.shape[1] :],
        basis,
        whitening.mean,
        sources.y,
        sources.domain,
        sources.weight,
        sources.row_weight,
        *sizes,
    )


def find_groups(data: PrincipalRows) -> Groups:
    """Find the groups that the sources mix in different shares.

    A class that is in fewer than two sources tells nothing about the groups. Its rows are then in
    each group with the group's share, so every mixture of the groups leaves them as they are.
    """
    C, K = data.n_classes, data.n_sources
    rows, means = arrange_rows(data.T, data.y, data.s, C, K, data.row_weight)
    if K == 1:
        return _one_group(rows, PermutationTest(p_value=1.0, noise_gain=0.0))
    regression = DomainRegression(rows)
    test = permutation_test(regression)
    if test.p_value > LEVEL:
        return _one_group(rows, test)
    scores, contrast = score_domains(regression)
    tells = telling_classes(rows, contrast)
    scores = silence(scores, tells, rows)
    best = _choose(regression, scores, tells)
    gain = _mean(best.gain, rows)
    if gain <= 0:
        return _one_group(rows, test)
    models = _models(best, data, means)
    own_fold = rows.fold * C + rows.y
    log_joint = best.mixture.log_density(best.scores.outer, own_fold)
    log_joint = log_joint + models.log_prior.flatten(0, 1)[own_fold]
    shares = best.mixture.shares.reshape(FOLDS, C, K, -1).mean(dim=0).transpose(0, 1)
    posterior = torch.softmax(log_joint, dim=1)
    counts = rows.counts * tells
    informed = counts.sum(dim=1) > 0
    if not bool((counts > 0).all()):
        posterior, shares, models = _fill_in(posterior, shares, models, data, counts, tells)
    source_shares = _source_shares(counts, shares)
    found = Groups(
        posterior=posterior,
        fold=rows.fold,
        shares=shares,
        source_shares=torch.where(informed.unsqueeze(1), source_shares, shares[:, 0]),
        gain=gain,
        gain_error=_standard_error(best.gain, rows),
        possible_gain=_possible_gain(counts, shares),
        separation=float(best.mixture.separation.reshape(FOLDS, C).mean(dim=0)[tells].min()),
        p_value=test.p_value,
        noise_gain=test.noise_gain,
        contrast=tuple(contrast.tolist()),
        tells=tells,
        informed=informed,
        models=models,
    )
    return found if contrast[0] >= 0 else _reverse(found, models)


def _reverse(found: Groups, models: GroupModels) -> Groups:
    """Number the groups from the other end, so that the first source has more of the last one."""
    return replace(
        found,
        posterior=found.posterior.flip(1),
        shares=found.shares.flip(2),
        source_shares=found.source_shares.flip(1),
        contrast=tuple(-entry for entry in found.contrast),
        models=replace(models, mean=models.mean.flip(2), log_prior=models.log_prior.flip(2)),
    )


def _one_group(rows: ClassRows, test: PermutationTest) -> Groups:
    return Groups(
        posterior=rows.T.new_ones((len(rows.y), 1)),
        fold=rows.fold,
        shares=rows.T.new_ones((rows.n_sources, rows.n_classes, 1)),
        source_shares=rows.T.new_ones((rows.n_sources, 1)),
        gain=0.0,
        gain_error=0.0,
        possible_gain=0.0,
        separation=0.0,
        p_value=test.p_value,
        noise_gain=test.noise_gain,
        contrast=(0.0,) * rows.n_sources,
        tells=torch.ones(rows.n_classes, dtype=torch.bool, device=rows.y.device),
        informed=torch.ones(rows.n_sources, dtype=torch.bool, device=rows.y.device),
        models=None,
    )


def _fill_in(
    posterior: Tensor,
    shares: Tensor,
    models: GroupModels,
    data: PrincipalRows,
    counts: Tensor,
    tells: Tensor,
) -> tuple[Tensor, Tensor, GroupModels]:
    """Set what the rows do not tell: posteriors (n, G) and shares (K, C, G), and models of them.

    Rows of a class that tells nothing are in each group with its share in the pooled other classes.
    Where a source has no rows of a class, or the class tells nothing, the shares are those of the
    source in its other classes.
    """
    telling = tells[data.y]
    weight = data.weight[telling]
    pooled = weight @ posterior[telling] / weight.sum()  # (G,)
    known = (counts > 0).unsqueeze(2)
    own = (counts.unsqueeze(2) * shares).sum(dim=1) / or_one(counts.sum(dim=1, keepdim=True))
    own = torch.where((counts.sum(dim=1) > 0).unsqueeze(1), own, pooled)
    shares = torch.where(known, shares, own.unsqueeze(1))
    silent = ~tells
    log_prior, mean, variance = (
        each.clone() for each in (models.log_prior, models.mean, models.variance)
    )
    log_prior[:, silent], mean[:, silent], variance[:, silent] = pooled.log(), 0.0, 1.0
    weights, offsets = (each.clone() for each in (models.weights, models.offsets))
    weights[:, silent], offsets[:, silent] = 0.0, 0.0
    return (
        torch.where(telling.unsqueeze(1), posterior, pooled),
        shares,
        GroupModels(weights, offsets, mean, variance, log_prior),
    )


def _choose(regression: DomainRegression, scores: Scores, tells: Tensor) -> _Candidate:
    """Return the rounds of sharpening and the number of groups of the largest gain.

    More groups must be better than fewer by two paired standard errors, and not by a trifle.
    """
    rows = regression.rows
    best = _group(rows, scores, 2)
    current = best
    for _ in range(_ROUNDS):
        belief = _expected_group(rows, current)
        sharper = silence(sharpen_scores(regression, belief), tells, rows)
        current = _group(rows, sharper, 2)
        if _mean(current.gain, rows) <= _mean(best.gain, rows):
            break
        best = current
    for n_groups in range(3, MAX_GROUPS + 1):
        more = _group(rows, best.scores, n_groups)
        difference = more.gain - best.gain
        needed = max(
            _STANDARD_ERRORS * _standard_error(difference, rows),
            _LEAST_SHARE * _mean(best.gain, rows),
        )
        if _mean(difference, rows) <= needed:
            break
        best = more
    return best


def _group(rows: ClassRows, scores: Scores, n_groups: int) -> _Candidate:
    """Fit mixtures along nested scores, and measure them on the outer folds."""
    C, K = rows.n_classes, rows.n_sources
    folds = torch.arange(FOLDS, device=rows.fold.device).unsqueeze(1)
    outside = rows.fold.unsqueeze(0) != folds
    problem = (folds * C + rows.y)[outside]
    s, weight = (column.expand(FOLDS, -1)[outside] for column in (rows.s, rows.weight))
    binned = bin_scores(scores.nested[outside], problem, s, FOLDS * C, K, weight)
    mixture = fit_mixture(binned, n_groups)
    own_fold = rows.fold * C + rows.y
    count = binned.count.sum(dim=1).unsqueeze(2)  # (P, K, 1) rows of each source
    joint = count * (mixture.shares + _SHARE_FLOOR)
    prior = joint.sum(dim=1)  # (P, G)
    log_density = mixture.log_density(scores.outer, own_fold)
    belief = torch.log_softmax(log_density + prior.log()[own_fold], dim=1)
    log_source = (joint / prior.unsqueeze(1)).log()[own_fold, rows.s]  # (n, G)
    shares = (count / count.sum(dim=1, keepdim=True)).squeeze(2).log()[own_fold, rows.s]
    gain = torch.logsumexp(belief + log_source, dim=1) - shares
    # A class tells nothing of a source that has no rows of it in the other folds.
    gain = torch.where(count[own_fold, rows.s, 0] > 0, gain, 0.0)
    return _Candidate(scores, mixture, gain, n_groups)


def _expected_group(rows: ClassRows, candidate: _Candidate) -> Tensor:
    """Return the expected number (F, n) of each row's group, by models without each fold."""
    C = rows.n_classes
    mixture = candidate.mixture
    prior = _mean_shares(rows, mixture)
    number = torch.arange(candidate.n_groups, device=rows.y.device).to(prior)
    beliefs = []
    for f in range(FOLDS):
        problem = f * C + rows.y
        log_joint = mixture.log_density(candidate.scores.nested[f], problem)
        beliefs.append(torch.softmax(log_joint + prior.log()[problem], dim=1) @ number)
    return torch.stack(beliefs)


def _models(best: _Candidate, data: PrincipalRows, means: Tensor) -> GroupModels:
    """Return the chosen models on the features themselves; ``means`` (C, p) are the classes'."""
    C, K = data.n_classes, data.n_sources
    mass = data.weight.new_zeros(C * K).index_add(0, data.y * K + data.s, data.weight)
    mass = mass.reshape(C, K) / mass.reshape(C, K).sum(dim=1, keepdim=True)
    shares = best.mixture.shares.reshape(FOLDS, C, K, -1)
    prior = torch.einsum("ck,fckg->fcg", mass, shares)
    weights = best.scores.weights @ data.basis.T
    offsets = -(weights @ data.mean) - (best.scores.weights * means).sum(dim=2)
    return GroupModels(
        weights=weights,
        offsets=offsets,
        mean=best.mixture.mean.reshape(FOLDS, C, -1),
        variance=best.mixture.variance.reshape(FOLDS, C),
        log_prior=prior.clamp_min(torch.finfo(prior.dtype).tiny).log(),
    )


def _mean_shares(rows: ClassRows, mixture: GroupMixture) -> Tensor:
    """Return the shares (P, G) of the groups, mean over the sources that have the class."""
    held = rows.counts > 0
    if bool(held.all()):
        return mixture.shares.mean(dim=1)
    weight = (held / held.sum(dim=0)).T.repeat(FOLDS, 1)  # (P, K)
    return (weight.unsqueeze(2) * mixture.shares).sum(dim=1)


def _source_shares(counts: Tensor, shares: Tensor) -> Tensor:
    """Return the shares (K, G) of the groups in each source, given ``counts`` (K, C) of rows."""
    return (counts.unsqueeze(2) * shares).sum(dim=1) / or_one(counts.sum(dim=1, keepdim=True))


def _possible_gain(counts: Tensor, shares: Tensor) -> float:
    """Return the information (nats a row) that known groups would give about the source."""
    counts = counts.unsqueeze(2)
    pooled = (counts * shares).sum(dim=0) / or_one(counts.sum(dim=0))  # (C, G)
    terms = torch.special.xlogy(shares, shares / pooled.clamp_min(torch.finfo(shares.dtype).tiny))
    return float((counts * terms).sum() / counts.sum())


def _mean(values: Tensor, rows: ClassRows) -> float:
    """Return the weighted mean of ``values`` (n,)."""
    return float((values * rows.weight).mean() / rows.weight.mean())


def _standard_error(values: Tensor, rows: ClassRows) -> float:
    """Return the standard error of the weighted mean of ``values`` (n,)."""
    relative = rows.weight / rows.weight.mean()
    # Up to a constant the weighted deviations from the mean; without weights, the values.
    influence = values * relative - _mean(values, rows) * (relative - 1)
    return float(influence.std() / len(values) ** 0.5)
