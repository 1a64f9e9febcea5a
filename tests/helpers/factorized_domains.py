"""Domains whose groups, abductions and deduction are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from regraft.core.domains import Domains, check_domains
from regraft.premises.factorization import Factorization, GroupedRows, fix_gauge, group_rows
from tests.helpers.problems import Problem

Array = NDArray[np.float64]
Shift = Literal["none", "prior", "inputs", "full"]


@dataclass(frozen=True)
class FactorizedDomains:
    """Rows of domains, with the maps that made them."""

    X: Array  # (n, d)
    y: NDArray[np.intp]  # (n,)
    domain: NDArray[np.intp]  # (n,)
    group: NDArray[np.intp]  # (n,) the observed U
    maps: Factorization  # on the features; D is that of all domains but a reversed one

    @property
    def domains(self) -> Domains:
        return check_domains(self.X, self.y, self.domain)

    @property
    def names(self) -> list[str]:
        return [str(s) for s in range(len(self.maps.abductions))]

    @property
    def groups(self) -> list[str]:
        return [str(u) for u in range(self.maps.abductions.shape[2])]

    def rows(self) -> GroupedRows:
        """Whitened and shuffled, as the checks take them."""
        return group_rows(self.domains, torch.from_numpy(self.group), len(self.groups))

    def take(self, kept: NDArray[np.intp]) -> FactorizedDomains:
        """Keep some of the rows."""
        rows = self.X[kept], self.y[kept], self.domain[kept], self.group[kept]
        return FactorizedDomains(*rows, self.maps)

    def separated(self) -> FactorizedDomains:
        """Move the inputs of the domains so far apart that none could come from another."""
        return replace(self, X=self.X + 100 * self.domain[:, None])


def draw_domains(
    seed: int = 0,
    *,
    n: int = 600,
    d: int = 4,
    groups: int = 2,
    classes: int = 2,
    sources: int = 2,
    shift: Shift = "prior",
    reversed_last: bool = False,
) -> FactorizedDomains:
    """``n`` rows of every domain: u by a prior, x Gaussian around a mean, y by softmax(D_u^T w).

    Nothing differs by domain ("none"), or the prior of u does, P(x | u) being shared. Beyond that
    all means may move alike, so that P(x | u) differs but A_s in its intercepts only ("inputs"),
    or each by itself, so that A_s differs in its slopes too ("full"). ``reversed_last`` turns the
    deduction of the last domain around.
    """
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((groups, d))
    moves = {
        "none": np.zeros((sources, 1, d)),
        "prior": np.zeros((sources, 1, d)),
        "inputs": 0.5 * rng.standard_normal((sources, 1, d)),
        "full": 0.7 * rng.standard_normal((sources, groups, d)),
    }
    means = centres + np.broadcast_to(moves[shift], (sources, groups, d))
    prior = rng.dirichlet(np.full(groups, 5.0), size=1 if shift == "none" else sources)
    prior = np.broadcast_to(0.2 / groups + 0.8 * prior, (sources, groups))  # no group is rare
    deduction = 1.5 * rng.standard_normal((d + 1, groups, classes))
    deduction[-1] = -np.einsum("rd,drc->rc", centres, deduction[:-1])  # undecided at the centres

    domain = np.repeat(np.arange(sources), n)
    group = np.concatenate([rng.choice(groups, n, p=p) for p in prior])
    X = means[domain, group] + rng.standard_normal((len(domain), d))
    scores = np.einsum("nd,dnc->nc", _with_constant(X), deduction[:, group])
    if reversed_last:
        scores[domain == sources - 1] *= -1
    # By Bayes' rule, for Gaussians of unit variance.
    intercepts = np.log(prior) - np.square(means).sum(axis=2) / 2
    abductions = np.concatenate([means.transpose(0, 2, 1), intercepts[:, None]], axis=1)
    maps = Factorization(
        fix_gauge(torch.from_numpy(abductions)), fix_gauge(torch.from_numpy(deduction))
    )
    gumbel = rng.gumbel(size=scores.shape)
    return FactorizedDomains(X, (scores + gumbel).argmax(axis=1), domain, group, maps)


def draw_disagreeing_groups(
    seed: int, shares: Sequence[float], *, n: int = 800, d: int = 5, slope: float = 1.0
) -> Problem:
    """``n`` rows a source: labels read x_0 in the first group and x_1 in the second.

    Inputs are the same in all sources. The log-odds of the first group are those of its share at
    x_2 = 0, plus ``slope`` x_2.
    """
    rng = np.random.default_rng(seed)
    domain = np.repeat(np.arange(len(shares)), n)
    X = rng.standard_normal((len(domain), d))
    odds = np.log(np.divide(shares, 1 - np.array(shares)))[domain] + slope * X[:, 2]
    first = rng.random(len(X)) < 1 / (1 + np.exp(-odds))
    logit = 3 * np.where(first, X[:, 0], X[:, 1])
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-logit))).astype(np.int64)
    return Problem(X, y, domain.astype(str))


def random_maps(seed: int, *, d: int, groups: int, classes: int, sources: int) -> Factorization:
    """Maps of standard normal entries, in their gauge."""
    rng = np.random.default_rng(seed)
    abductions = rng.standard_normal((sources, d + 1, groups))
    deduction = rng.standard_normal((d + 1, groups, classes))
    return Factorization(
        fix_gauge(torch.from_numpy(abductions)), fix_gauge(torch.from_numpy(deduction))
    )


def _with_constant(X: Array) -> Array:
    return np.column_stack([X, np.ones(len(X))])
