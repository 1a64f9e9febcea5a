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
from functools import cached_property

import torch
from torch import Tensor

from regraft.core.domain_scores import (
    FOLDS,
    ClassRows,
    DomainRegression,
    PermutationTest,
    Scores,
    arrange_rows,
    permutation_test,
    score_domains,
    sharpen_scores,
)
from regraft.core.domains import Domains
from regraft.core.group_mixture import MAX_GROUPS, GroupMixture, bin_scores, fit_mixture
from regraft.core.heads import SourceHeads
from regraft.core.whitening import fit_whitening, row_chunks
from regraft.support.memory_map import released

LEVEL = 0.05  # of the test of "no hidden factor"
MAX_COMPONENTS = 128
_ROUNDS = 2  # of sharpening
_SHARE_FLOOR = 1e-3  # keeps the likelihood of a source finite where a group lacks it
_STANDARD_ERRORS = 2.0  # by which a third group must be better than two
# A source whose rows are in a group at a smaller share than this does not have the group.
SMALLEST_SHARE = 0.02


@dataclass(frozen=True)
class GroupModels:
    """Models of the groups, one for each fold of the rows, fitted without it.

    A row x of class c has the score ``weights[f, c] · x + offsets[f, c]``, along which the groups
    are normal with these means and variances.
    """

    weights: Tensor  # (F, C, d)
    offsets: Tensor  # (F, C)
    mean: Tensor  # (F, C, G)
    variance: Tensor  # (F, C)
    log_prior: Tensor  # (F, C, G) of the groups in a class, with the same mass for each source

    @cached_property
    def maps_by_fold(self) -> Tensor:
        """Logits (F, C, G, d + 1) of P(u | x, y) on ``[x, 1]`` of each model.

        They are linear, because the groups have the same variance along a score.
        """
        slope = self.mean / self.variance.unsqueeze(2)
        level = self.log_prior + slope * (self.offsets.unsqueeze(2) - 0.5 * self.mean)
        coef = slope.unsqueeze(3) * self.weights.unsqueeze(2)
        return torch.cat([coef, level.unsqueeze(3)], dim=3)

    @cached_property
    def maps(self) -> Tensor:
        """Logits (C, G, d + 1) of P(u | x, y) on ``[x, 1]``, the mean over the models."""
        return self.maps_by_fold.mean(dim=0)

    def log_posterior(self, X: Tensor, y: Tensor) -> Tensor:
        """Return log P(u | x, y) (n, G) of new rows."""
        logits = self.mean.new_empty((len(X), self.mean.shape[2]))
        for rows in row_chunks(*X.shape):
            every = torch.einsum("nd,cgd->ncg", X[rows].to(self.maps), self.maps[..., :-1])
            chosen = y[rows, None, None].expand(-1, 1, logits.shape[1])
            logits[rows] = every.gather(1, chosen).squeeze(1) + self.maps[y[rows], :, -1]
        return torch.log_softmax(logits, dim=1)


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
    models: GroupModels | None

    @property
    def n_groups(self) -> int:
        """Number G of groups; 1 if no hidden factor was found."""
        return self.posterior.shape[1]

    @property
    def holders(self) -> Tensor:
        """Whether each source (K, G) holds each group, in more than a few rows."""
        return self.source_shares >= SMALLEST_SHARE

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
    n_classes: int
    n_sources: int


def rows_of_domains(domains: Domains) -> PrincipalRows:
    """Return the rows of ``domains`` in their order."""
    whitening = fit_whitening(domains.X, domains.weight, domains.mapping)
    basis = whitening.basis[:, -MAX_COMPONENTS:]
    T = basis.new_empty((len(domains.X), basis.shape[1]))
    for rows in released(row_chunks(*domains.X.shape), domains.mapping):
        T[rows] = (domains.X[rows].to(basis) - whitening.mean) @ basis
    sizes = len(domains.classes), len(domains.names)
    return PrincipalRows(
        T, basis, whitening.mean, domains.y, domains.domain, domains.weight, *sizes
    )


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
        *sizes,
    )


def find_groups(data: PrincipalRows) -> Groups:
    """Find the groups that the sources mix in different shares."""
    C, K = data.n_classes, data.n_sources
    rows, means = arrange_rows(data.T, data.y, data.s, C, K)
    if K == 1:
        return _one_group(rows, PermutationTest(p_value=1.0, noise_gain=0.0))
    regression = DomainRegression(rows)
    test = permutation_test(regression)
    if test.p_value > LEVEL:
        return _one_group(rows, test)
    scores, contrast = score_domains(regression)
    best = _choose(regression, scores)
    gain = float(best.gain.mean())
    if gain <= 0:
        return _one_group(rows, test)
    models = _models(best, data, means)
    own_fold = rows.fold * C + rows.y
    log_joint = best.mixture.log_density(best.scores.outer, own_fold)
    log_joint = log_joint + models.log_prior.flatten(0, 1)[own_fold]
    shares = best.mixture.shares.reshape(FOLDS, C, K, -1).mean(dim=0).transpose(0, 1)
    found = Groups(
        posterior=torch.softmax(log_joint, dim=1),
        fold=rows.fold,
        shares=shares,
        source_shares=_source_shares(rows, shares),
        gain=gain,
        gain_error=_standard_error(best.gain),
        possible_gain=_possible_gain(rows, shares),
        separation=float(best.mixture.separation.reshape(FOLDS, C).mean(dim=0).min()),
        p_value=test.p_value,
        noise_gain=test.noise_gain,
        contrast=tuple(contrast.tolist()),
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
        models=None,
    )


def _choose(regression: DomainRegression, scores: Scores) -> _Candidate:
    """Return the rounds of sharpening and the number of groups of the largest gain.

    More groups must be better than fewer by two paired standard errors.
    """
    rows = regression.rows
    best = _group(rows, scores, 2)
    current = best
    for _ in range(_ROUNDS):
        belief = _expected_group(rows, current)
        current = _group(rows, sharpen_scores(regression, belief), 2)
        if float(current.gain.mean()) <= float(best.gain.mean()):
            break
        best = current
    for n_groups in range(3, MAX_GROUPS + 1):
        more = _group(rows, best.scores, n_groups)
        difference = more.gain - best.gain
        if float(difference.mean()) <= _STANDARD_ERRORS * _standard_error(difference):
            break
        best = more
    return best


def _group(rows: ClassRows, scores: Scores, n_groups: int) -> _Candidate:
    """Fit mixtures along nested scores, and measure them on the outer folds."""
    C, K = rows.n_classes, rows.n_sources
    folds = torch.arange(FOLDS, device=rows.fold.device).unsqueeze(1)
    outside = rows.fold.unsqueeze(0) != folds
    problem = (folds * C + rows.y)[outside]
    s = rows.s.expand(FOLDS, -1)[outside]
    binned = bin_scores(scores.nested[outside], problem, s, FOLDS * C, K)
    mixture = fit_mixture(binned, n_groups)
    own_fold = rows.fold * C + rows.y
    count = binned.count.sum(dim=1).unsqueeze(2)  # (P, K, 1) rows of each source
    joint = count * (mixture.shares + _SHARE_FLOOR)
    prior = joint.sum(dim=1)  # (P, G)
    log_density = mixture.log_density(scores.outer, own_fold)
    belief = torch.log_softmax(log_density + prior.log()[own_fold], dim=1)
    log_source = (joint / prior.unsqueeze(1)).log()[own_fold, rows.s]  # (n, G)
    shares = (count / count.sum(dim=1, keepdim=True)).squeeze(2).log()[own_fold, rows.s]
    return _Candidate(
        scores, mixture, torch.logsumexp(belief + log_source, dim=1) - shares, n_groups
    )


def _expected_group(rows: ClassRows, candidate: _Candidate) -> Tensor:
    """Return the expected number (F, n) of each row's group, by models without each fold."""
    C = rows.n_classes
    mixture = candidate.mixture
    prior = mixture.shares.mean(dim=1)
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


def _counts(rows: ClassRows) -> Tensor:
    """Return the number of rows (K, C) of each source and class."""
    K, C = rows.n_sources, rows.n_classes
    return torch.bincount(rows.s * C + rows.y, minlength=K * C).reshape(K, C).to(rows.T.dtype)


def _source_shares(rows: ClassRows, shares: Tensor) -> Tensor:
    counts = _counts(rows)
    return (counts.unsqueeze(2) * shares).sum(dim=1) / counts.sum(dim=1, keepdim=True)


def _possible_gain(rows: ClassRows, shares: Tensor) -> float:
    """Return the information (nats a row) that known groups would give about the source."""
    counts = _counts(rows).unsqueeze(2)
    pooled = (counts * shares).sum(dim=0) / counts.sum(dim=0)  # (C, G)
    terms = torch.special.xlogy(shares, shares / pooled.clamp_min(torch.finfo(shares.dtype).tiny))
    return float((counts * terms).sum() / counts.sum())


def _standard_error(values: Tensor) -> float:
    return float(values.std() / len(values) ** 0.5)
