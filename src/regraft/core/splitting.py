"""Rows to fit on and rows to measure on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from regraft.core.domains import Domains, equal_domain_weights
from regraft.support.memory_map import release

_HOLD_OUT_EVERY = 3  # of the rows, one is held out


def hold_out(domains: Domains, seed: int | None = None) -> tuple[Domains, Domains]:
    """Two thirds and one third of the rows, each domain and class in proportion.

    Every third row of a domain and class is held out: of the rows as they stand, or as ``seed``
    shuffles them. Raises ``ValueError`` with one sentence where there are too few, or if the seed
    is below 0.
    """
    if seed is not None and seed < 0:
        raise ValueError(f"seed is {seed}: pass 0 or more.")
    _check_counts(domains)
    y, domain = domains.y.cpu().numpy(), domains.domain.cpu().numpy()
    n = len(y)
    order = np.arange(n) if seed is None else np.random.default_rng(seed).permutation(n)
    rank = np.empty(n, int)
    rank[np.lexsort((order, y, domain))] = np.arange(n)
    held_out = torch.from_numpy(rank % _HOLD_OUT_EVERY == 1).to(domains.y.device)
    return _take_rows(domains, ~held_out), _take_rows(domains, held_out)


def _check_counts(domains: Domains) -> None:
    """Any three rows in a row put some into either part, so each part has every class."""
    shape = len(domains.names), len(domains.classes)
    cell = domains.domain * shape[1] + domains.y
    counts = torch.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
    few = (counts < _HOLD_OUT_EVERY).nonzero()
    if len(few):
        s, c = few[0].tolist()
        raise ValueError(
            f"domain {domains.names[s]!s} has {int(counts[s, c])} row(s) of class "
            f"{domains.classes[c]!s}, too few to hold a third of them out: add rows until each "
            f"domain has {_HOLD_OUT_EVERY} of every class, or drop the class or the domain."
        )


def _take_rows(domains: Domains, mask: Tensor) -> Domains:
    domain = domains.domain[mask]
    weight = equal_domain_weights(domain, len(domains.names))
    X = domains.X[mask]
    release(domains.mapping)
    return replace(domains, X=X, y=domains.y[mask], domain=domain, weight=weight, mapping=None)
