"""Abduction and deduction maps by maximum likelihood where the groups U are not observed.

The likelihood of the labels has several peaks, so it is maximized from several starts. If the
highest peaks are alike, the sources identify the maps.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import OptimizeResult, linear_sum_assignment, minimize
from torch import Tensor

from regraft.core.decompositions import svd
from regraft.core.domains import Domains, check_domains, domain_slices
from regraft.core.heads import SMALLEST_RIDGE
from regraft.core.newton import minimax_newton
from regraft.core.whitening import Whitening, chunks_of, fit_whitening
from regraft.premises.factorization import Factorization, fix_gauge
from regraft.premises.latent_likelihood import LatentLikelihood, Maps, Shift, log_maps

OnRestart = Callable[[int, float], None]

MAX_GROUPS = 32
_SHRINKAGE = 1e-1  # of the whitening
_START_SPREAD = 2.0  # of the first start: groups differ more than the domains that mix them
_START_NOISE = 0.1  # added to the first start, since equal groups would stay equal
_LBFGS_OPTIONS = {"maxcor": 30, "ftol": 1e-12, "gtol": 1e-8}  # scipy's options of L-BFGS-B
_ITERATION_LIMIT = 1  # scipy's status; others are convergence, or steps lost in rounding
_CHANCE_STANDARD_ERRORS = 2.0  # a smaller gain in likelihood may be chance
_LEAST_AGREEMENT = 0.95  # restarts whose P(u, y | x) overlap less disagree
_LEAST_GROUP_SHARE = 0.01  # mean probability below which a group has too few rows
_SAME_DEDUCTION = 0.05  # total variation below which two deductions count as equal


@dataclass(frozen=True)
class LatentFit:
    """Maps of an unobserved U, with evidence from several restarts.

    Groups are numbered by falling mean probability. Likelihoods are in nats per row, with equal
    weight for each domain; the penalized ones have the ridge subtracted.
    """

    factorization: Factorization  # maps on the features
    log_likelihood: float
    trace: tuple[float, ...]  # penalized log-likelihood along the best restart; never falls
    restart_values: tuple[float, ...]  # penalized log-likelihood at which each restart ended
    agreement: float  # least overlap of P(u, y | x) with restarts that fit as well; 1 without any
    doubts: tuple[str, ...]  # reasons why the maps may not be the sources' own
    warnings: tuple[str, ...]  # the same, each with what to do about it
    converged: bool  # whether the best restart converged


@dataclass(frozen=True)
class LatentOptions:
    """Settings of a fit, with the meaning they have in :func:`fit_latent`."""

    shift: Shift = "prior"
    ridge: float = 1e-4
    restarts: int = 8
    seed: int = 0
    max_iterations: int = 500


@dataclass(frozen=True)
class _Restart:
    """Result of one restart."""

    maps: Maps  # in their gauge, groups by falling mean probability
    shares: Tensor  # (r,) mean probability of each group
    fits: Tensor  # (n,) log-likelihood of each row
    trace: tuple[float, ...]
    converged: bool


def fit_latent(
    X: ArrayLike,
    y: ArrayLike,
    sample_domain: ArrayLike,
    groups: int,
    *,
    shift: Shift = LatentOptions.shift,
    ridge: float = LatentOptions.ridge,
    restarts: int = LatentOptions.restarts,
    seed: int = LatentOptions.seed,
    max_iterations: int = LatentOptions.max_iterations,
    device: str = "cpu",
    on_restart: OnRestart | None = None,
) -> LatentFit:
    """Fit P^s(y | x) = sum_u P^s(u | x) P(y | x, u) with unobserved groups u.

    Reasons to doubt the maps are given as warnings, and in the result. A large ridge decides where
    the rows do not; restarts then agree without evidence.

    Parameters
    ----------
    X, y, sample_domain : array-like (n, d), (n,), (n,)
        Features, labels and the domain of each row.
    groups : int
        Number of values of u.
    shift : {"prior", "full"}
        Under "prior" the abductions of the domains share their slopes and differ in their
        intercepts. Under "full" they share nothing.
    ridge : float
        Weight of the squared maps on whitened rows, with abductions averaged over domains.
    restarts : int
        Number of starts: the first along the differences of the source heads, the others random.
    seed : int
        Seed of the random starts.
    max_iterations : int
        Most iterations of each restart.
    device : str
        Where torch computes, such as "cpu" or "cuda".
    on_restart : callable, optional
        Called after each restart with the number of finished restarts and the penalized
        log-likelihood of the last.

    Returns
    -------
    LatentFit
    """
    options = LatentOptions(shift, ridge, restarts, seed, max_iterations)
    domains = check_domains(X, y, sample_domain, device=device)
    return fit_latent_domains(domains, groups, options, on_restart)


def fit_latent_domains(
    domains: Domains,
    groups: int,
    options: LatentOptions | None = None,
    on_restart: OnRestart | None = None,
) -> LatentFit:
    """Fit as :func:`fit_latent` does, on rows that are :class:`Domains` already."""
    options = options or LatentOptions()
    check_options(groups, options)
    whitening, model = _whiten(domains, groups, options)
    fit = fit_likelihood(model, options, on_restart)
    for sentence in fit.warnings:
        warnings.warn(sentence, stacklevel=2)
    return replace(fit, factorization=fit.factorization.in_features(whitening))


def fit_likelihood(
    model: LatentLikelihood, options: LatentOptions, on_restart: OnRestart | None = None
) -> LatentFit:
    """Fit the maps on whitened rows as :func:`fit_latent` does; doubts are in the result only."""
    ended: list[_Restart] = []
    for start in _starts(model, options):
        ended.append(_run_restart(model, start, options.max_iterations))
        if on_restart is not None:
            on_restart(len(ended), ended[-1].trace[-1])
    best = max(ended, key=lambda restart: restart.trace[-1])
    peers = [other for other in ended if other is not best and _fits_as_well(model, best, other)]
    agreement = min((_overlap(model, best.maps, peer.maps) for peer in peers), default=1.0)
    doubts = dict(_explain_doubts(model, best, len(peers), options.restarts, agreement))
    return LatentFit(
        factorization=Factorization(*map(fix_gauge, best.maps)),
        log_likelihood=float(model.weight @ best.fits),
        trace=best.trace,
        restart_values=tuple(restart.trace[-1] for restart in ended),
        agreement=agreement,
        doubts=tuple(doubts),
        warnings=tuple(f"{doubt}: {remedy}." for doubt, remedy in doubts.items()),
        converged=best.converged,
    )


def check_options(groups: int, options: LatentOptions) -> None:
    """Raise ``ValueError`` with one sentence if a setting is wrong."""
    if not 1 <= groups <= MAX_GROUPS:
        raise ValueError(f"groups is {groups}: pass a number from 1 to {MAX_GROUPS}.")
    if options.shift not in get_args(Shift):
        raise ValueError(f"shift is {options.shift!r}: pass one of {', '.join(get_args(Shift))}.")
    if not SMALLEST_RIDGE <= options.ridge < float("inf"):
        raise ValueError(f"ridge is {options.ridge}: pass a number of {SMALLEST_RIDGE:g} or more.")
    for name in ("restarts", "max_iterations"):
        if getattr(options, name) < 1:
            raise ValueError(f"{name} is {getattr(options, name)}: pass 1 or more.")


def _whiten(
    domains: Domains, groups: int, options: LatentOptions
) -> tuple[Whitening, LatentLikelihood]:
    whitening = fit_whitening(domains.X, domains.weight, domains.mapping).with_shrinkage(_SHRINKAGE)
    order = torch.argsort(domains.domain, stable=True)
    domain, y, weight = domains.domain[order], domains.y[order], domains.weight[order]
    slices = domain_slices(domain, len(domains.names))
    Z = whitening(domains.X, order, domains.mapping)
    sizes = groups, len(domains.classes)
    settings = options.shift, options.ridge
    model = LatentLikelihood(Z, y, weight, slices, domains.counts > 0, *sizes, *settings)
    return whitening, model


def _starts(model: LatentLikelihood, options: LatentOptions) -> Iterator[NDArray[np.float64]]:
    """Yield packed maps to start from: along the differences of the source heads, then random.

    All domains start from the same abduction, so that their names make no difference. Nor do the
    order of the features, and the signs that a decomposition happens to give.
    """
    rng = np.random.default_rng(options.seed)
    K, k, r = len(model.slices), model.Z.shape[1], model.groups
    moments = sum(
        model.weight[rows] @ model.Z[rows].to(model.weight).pow(3) for rows in chunks_of(model.Z)
    )
    signs = _tail_sign(torch.as_tensor(moments))
    pooled, direction = _source_heads(model)
    later = torch.arange(model.classes).to(direction)  # its entries of all classes sum to zero
    direction = direction * _tail_sign(signs @ direction.pow(3) @ later)
    spread = torch.linspace(
        -_START_SPREAD, _START_SPREAD, r, dtype=pooled.dtype, device=pooled.device
    )
    for i in range(options.restarts):
        drawn = torch.as_tensor(rng.standard_normal((k, r, 1 + model.classes)) / math.sqrt(k))
        noise = signs[:, None, None] * drawn.to(pooled) * (_START_NOISE if i == 0 else 1.0)
        A, D = noise[..., 0], pooled.unsqueeze(1) + noise[..., 1:]
        if i == 0:
            D = D + spread[:, None] * direction.unsqueeze(1)
        yield model.pack(fix_gauge(A).expand(K, -1, -1), fix_gauge(D))


def _tail_sign(third_moment: Tensor) -> Tensor:
    """Return 1 or -1, by which the longer tail of an axis comes to be its positive one."""
    return torch.where(third_moment < 0, -1.0, 1.0).to(third_moment)


def _source_heads(model: LatentLikelihood) -> tuple[Tensor, Tensor]:
    """Return the pooled head (k, C), and the direction in which the source heads differ most."""
    pooled = model.weight.new_zeros((model.classes, model.Z.shape[1]))
    heads = list[Tensor]()
    for rows in (slice(len(model.y)), *model.slices):
        if rows.start == rows.stop:  # a fold may hold all rows of a tiny domain
            heads.append(heads[0])
            continue
        weight = model.weight[rows] / model.weight[rows].sum()
        own, label = torch.arange(model.classes), model.y[rows]
        if heads and not bool(model.present[len(heads) - 1].all()):
            own = model.present[len(heads) - 1].nonzero().squeeze(1)
            label = torch.searchsorted(own, label)
        fitted = minimax_newton(
            model.Z[rows], label, weight.unsqueeze(0), ridge=model.ridge, start=pooled[own]
        ).head
        if len(own) < model.classes:  # of the other classes, the domain says nothing
            shift = heads[0][own].mean(dim=0)
            fitted = heads[0].index_copy(0, own, fitted + shift)
        heads.append(fitted)
    pooled, differences = heads[0], torch.stack(heads[1:]).flatten(1)
    differences = differences - differences.mean(dim=0)
    _, sizes, directions = svd(differences, full_matrices=False)
    direction = sizes[0] / math.sqrt(len(differences)) * directions[0]
    return pooled.T, direction.reshape(pooled.shape).T


def _run_restart(
    model: LatentLikelihood, start: NDArray[np.float64], max_iterations: int
) -> _Restart:
    """Maximize the likelihood from ``start`` by quasi-Newton steps, until rounding stops them."""
    place, trace = start, [-model.negative_log_likelihood(start)[0]]

    def keep(intermediate_result: OptimizeResult) -> None:
        nonlocal place
        if -intermediate_result.fun < trace[-1]:
            raise StopIteration
        place = intermediate_result.x.copy()
        trace.append(-float(intermediate_result.fun))

    ended = minimize(
        model.negative_log_likelihood,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=keep,
        options={**_LBFGS_OPTIONS, "maxiter": max_iterations},
    )
    A, D = model.unpack(place)
    shares, fits = _summarize(model, (A, D))
    ranks = torch.argsort(shares, descending=True)
    maps = fix_gauge(A[..., ranks]), fix_gauge(D[:, ranks])
    return _Restart(maps, shares[ranks], fits, tuple(trace), ended.status != _ITERATION_LIMIT)


def _summarize(model: LatentLikelihood, maps: Maps) -> tuple[Tensor, Tensor]:
    """Return the mean probability (r,) of each group, and the log-likelihood (n,) of each row."""
    shares, fits = model.weight.new_zeros(model.groups), torch.empty_like(model.weight)
    for (s, _), (rows, joint) in zip(model.chunks(), model.joint(maps), strict=True):
        fits[rows] = joint.logsumexp(dim=0).gather(0, model.y[rows].unsqueeze(0)).squeeze(0)
        if not bool(model.present[s].all()):
            fits[rows] -= model.log_known(s, joint)
        shares += joint.exp_().sum(dim=1) @ model.weight[rows]
    return shares, fits


def _fits_as_well(model: LatentLikelihood, best: _Restart, other: _Restart) -> bool:
    """Return whether the rows cannot tell ``other`` from ``best``, by Vuong's test."""
    gains = best.fits - other.fits
    error = (model.weight * (gains - model.weight @ gains)).norm()
    one_nat = model.weight.square().sum()  # over all rows: peaks that are one differ by rounding
    return best.trace[-1] - other.trace[-1] <= float(_CHANCE_STANDARD_ERRORS * error + one_nat)


def _overlap(model: LatentLikelihood, first: Maps, second: Maps) -> float:
    """Return 1 minus the mean total variation between two P(u, y | x), groups matched."""
    costs = model.weight.new_zeros((model.groups, model.groups))
    for (rows, one), (_, other) in zip(model.joint(first), model.joint(second), strict=True):
        one, other = (joint.exp_().mul_(model.weight[rows]).flatten(1) for joint in (one, other))
        costs += torch.cdist(one, other, p=1) / 2
    matrix = costs.cpu().numpy()
    return 1 - min(float(matrix[linear_sum_assignment(matrix)].sum()), 1.0)


def _deduction_distances(model: LatentLikelihood, climb: _Restart) -> Tensor:
    """Return the mean total variation (r, r) between P(y | x, u) of two groups, on their rows."""
    sums = model.weight.new_zeros((model.groups, model.groups))
    A, D = climb.maps
    for s, rows in model.chunks():
        log_a, log_d = log_maps(model.Z[rows].to(A.dtype), A[s], D)
        masses, answers = log_a.exp_() * model.weight[rows], log_d.exp_()
        for u in range(model.groups):
            apart = (answers - answers[u]).abs().sum(dim=1) / 2  # (r, rows)
            sums[u] += ((masses + masses[u]) * apart).sum(dim=1)
    return sums / (climb.shares + climb.shares.unsqueeze(1))


def _explain_doubts(
    model: LatentLikelihood, best: _Restart, peers: int, restarts: int, agreement: float
) -> Iterator[tuple[str, str]]:
    """Yield reasons why the maps of ``best`` may not be those that made the data, with remedies."""
    if not best.converged:
        iterations = len(best.trace) - 1
        yield f"the fit did not converge in {iterations} iterations", "raise max_iterations"
    if model.groups == 1:
        return
    if len(model.slices) == 1:
        yield (
            "all rows belong to one domain, where only their form tells abduction from deduction",
            "pass sample_domain with two or more domains",
        )
    if peers == 0:
        yield (
            f"the best likelihood was reached by one of {restarts} restarts only, so a better one "
            "may have been missed",
            "raise restarts",
        )
    if agreement < _LEAST_AGREEMENT:
        yield (
            f"restarts that fit as well agree on {agreement:.0%} of P(u, y | x) only, so "
            f"the sources do not identify {model.groups} groups",
            "lower groups",
        )
    known = best.shares >= _LEAST_GROUP_SHARE
    if not bool(known.all()):
        empty = int((~known).sum())
        least = f"{_LEAST_GROUP_SHARE:.0%}"
        yield f"{empty} of {model.groups} groups have less than {least} of rows", "lower groups"
    same = (_deduction_distances(model, best) < _SAME_DEDUCTION) & known & known.unsqueeze(1)
    for u, v in same.triu(1).nonzero().tolist()[:1]:
        yield f"groups {u} and {v} have the same deduction and might be one", "lower groups"
