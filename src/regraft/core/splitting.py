"""Split rows into a part to fit on and a part to measure on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from regraft.core.domains import Domains, equal_domain_weights
from regraft.support.memory_map import release

_HOLD_OUT_EVERY = 3  # one row in three is held out


def hold_out(domains: Domains) -> tuple[Domains, Domains]:
    """Return two thirds and one third of the rows, each domain and class in proportion.

    Every third row of a domain and class is held out. Too few rows raise ``ValueError``.
    """
    check_counts(domains)
    y, domain = domains.y.cpu().numpy(), domains.domain.cpu().numpy()
    rank = np.empty(len(y), int)
    rank[np.lexsort((y, domain))] = np.arange(len(y))
    held_out = torch.from_numpy(rank % _HOLD_OUT_EVERY == 1).to(domains.y.device)
    return take_rows(domains, ~held_out), take_rows(domains, held_out)


def thin_sources(domains: Domains, most: int) -> Tensor:
    """Return a mask (n,) of about ``most`` rows: large sources are cut to one size, others whole.

    Every so many-th row of a large source is kept, class by class, so that their shares stay.
    """
    order = torch.argsort(domains.y, stable=True)
    order = order[torch.argsort(domains.domain[order], stable=True)]
    y, domain = domains.y[order], domains.domain[order]
    sizes = torch.bincount(domain)
    strides = -(-sizes // largest_size(sizes.tolist(), most))
    cell = domain * len(domains.classes) + y
    place = torch.arange(len(cell), device=cell.device) - torch.searchsorted(cell, cell)
    kept = torch.empty_like(place, dtype=torch.bool)
    kept[order] = place % strides[domain] == 0
    return kept


def largest_size(sizes: list[int], most: int) -> int:
    """Return the size to which large sources are cut so that ``most`` rows are left in all."""
    left = most
    for i, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - i) > left:
            return max(1, left // (len(sizes) - i))
        left -= size
    return max(sizes)


def check_counts(domains: Domains) -> None:
    """Raise ``ValueError`` unless each third has rows of every class that a domain has."""
    counts = domains.counts
    few = ((counts > 0) & (counts < _HOLD_OUT_EVERY)).nonzero()
    if len(few):
        s, c = few[0].tolist()
        raise ValueError(
            f"domain {domains.names[s]!s} has {int(counts[s, c])} row(s) of class "
            f"{domains.classes[c]!s}, too few to hold a third of them out: add rows until each "
            f"domain has {_HOLD_OUT_EVERY} of every class that it has, or drop the class or the "
            "domain."
        )


def take_rows(domains: Domains, mask: Tensor) -> Domains:
    """Select rows by a mask (n,), with equal mass for every domain again."""
    domain, row_weight = domains.domain[mask], domains.row_weight[mask]
    X = domains.X[mask]
    release(domains.mapping)
    return replace(
        domains,
        X=X,
        y=domains.y[mask],
        domain=domain,
        weight=equal_domain_weights(domain, len(domains.names), row_weight),
        row_weight=row_weight,
        mapping=None,
    )
