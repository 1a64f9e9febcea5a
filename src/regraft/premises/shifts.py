"""Diversity shift and correlation shift: how domains differ, in two numbers.

They follow the idea of OoD-Bench (Ye et al. 2022): inputs of one domain that another does not
have, and labels that differ on inputs which both have. A classifier of domains compares densities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from regraft.core.domains import Domains
from regraft.core.heads import fit_source_heads
from regraft.premises.factorization import GroupedRows, group_rows
from regraft.premises.randomization import pooled_probabilities
from regraft.support.plain_data import PlainData

_ABSENT_DENSITY = 0.01  # share of a density in the sum of both, below which it counts as zero


@dataclass(frozen=True)
class PairShift:
    """Difference of two domains, in two numbers between 0 and 1."""

    first: str
    second: str
    diversity: float  # share of rows, of either domain, where the other's density is almost zero
    correlation: float  # mean distance of the label distributions where both have inputs


@dataclass(frozen=True)
class Shifts(PlainData):
    """Diversity and correlation shift of every pair of domains and on average."""

    diversity: float
    correlation: float
    pairs: tuple[PairShift, ...]


def measure_shifts(domains: Domains, *, densities: Tensor | None = None) -> Shifts:
    """Measure how each pair of domains differs, by models that have not seen the rows.

    ``densities`` (n, K) are :func:`relative_densities` of the rows, if they are known already.
    """
    if densities is None:
        rows = group_rows(domains, torch.zeros_like(domains.y), 1)
        densities = relative_densities(rows, pooled_probabilities(rows))
    sources = fit_source_heads(domains)
    logits = sources.held_out.logits(sources.held_out.heads, sources.Z)  # (K, C, n)
    labels = torch.softmax(logits, dim=1).movedim(2, 0)
    names = domains.texts
    return shifts_between(densities[sources.order], labels, sources.domain, names)


def relative_densities(rows: GroupedRows, probabilities: Tensor) -> Tensor:
    """Return the densities (n, K) of the domains, up to a factor of each row.

    ``probabilities`` (n, K) are P(s | x) of ``rows``; the answer is in the order of the domains.
    """
    densities = torch.empty_like(probabilities)
    densities[rows.order] = probabilities / torch.bincount(rows.domain, minlength=rows.n_domains)
    return densities


def shifts_between(density: Tensor, labels: Tensor, domain: Tensor, names: Sequence[str]) -> Shifts:
    """Compute the shifts of rows with relative densities (n, K) and P^s(y | x) (n, K, C)."""
    pairs = []
    for s, t in combinations(range(len(names)), 2):
        rows = (domain == s) | (domain == t)
        share = density[rows][:, [s, t]]
        share = share / share.sum(dim=1, keepdim=True)
        first = domain[rows] == s
        distance = (labels[rows, s] - labels[rows, t]).abs().sum(dim=1) / 2
        overlap = torch.where(
            (share > _ABSENT_DENSITY).all(dim=1), 2 * share.prod(dim=1).sqrt(), 0.0
        )
        shared = distance * overlap
        absent = share[first, 1] < _ABSENT_DENSITY, share[~first, 0] < _ABSENT_DENSITY
        diversity = float(sum(part.double().mean() for part in absent) / 2)
        correlation = float((shared[first].mean() + shared[~first].mean()) / 2)
        pairs.append(PairShift(names[s], names[t], diversity, correlation))
    diversity = sum(pair.diversity for pair in pairs) / len(pairs)
    correlation = sum(pair.correlation for pair in pairs) / len(pairs)
    return Shifts(diversity, correlation, tuple(pairs))
