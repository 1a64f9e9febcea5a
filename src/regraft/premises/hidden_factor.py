"""The hidden factor that the sources mix in different shares, as a diagnosis reports it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regraft.core.abduction import find_groups, rows_of_domains
from regraft.core.domain_scores import PERMUTATIONS
from regraft.core.domains import Domains
from regraft.core.heads import deal_rows
from regraft.core.splitting import take_rows
from regraft.premises.verdicts import format_p_value
from regraft.support.plain_data import PlainData

_MAX_ROWS = 50_000  # of which a search takes seconds


@dataclass(frozen=True)
class HiddenFactor(PlainData):
    """Groups of rows that the sources hold in different shares; one group is no hidden factor."""

    n_groups: int
    shares: dict[str, tuple[float, ...]]  # (G,) of the groups in each source
    p_value: float  # of "no hidden factor", by permuting the sources within each class
    gain: float  # nats a row that the groups tell about the source, on rows that no step has seen
    gain_error: float  # its standard error
    noise_gain: float  # nats a row that chance reaches once in twenty times
    separation: float  # of neighbouring groups, in standard deviations
    lone_holders: dict[int, str]  # groups that a single source has, and this source
    n_rows: int  # searched; of very many rows, some are enough

    @property
    def found(self) -> bool:
        """Whether there is more than one group."""
        return self.n_groups > 1

    @property
    def is_shared(self) -> bool:
        """Whether two sources or more hold each group; else groups may be sources."""
        return self.found and not self.lone_holders

    @property
    def lone_holder(self) -> tuple[int, str]:
        """The first group that a single source has, and this source."""
        return next(iter(self.lone_holders.items()))

    @property
    def chance(self) -> str:
        """The p-value in words."""
        return format_p_value(self.p_value, PERMUTATIONS)


def find_hidden_factor(domains: Domains) -> HiddenFactor:
    """Look for groups that the sources mix in different shares, in at most 50,000 rows."""
    domains = _thin(domains)
    found = find_groups(rows_of_domains(domains))
    names = [str(name) for name in domains.names]
    lone = {}
    for u, holds in enumerate(found.holders.T):
        if int(holds.sum()) < 2 and len(names) > 1:
            lone[u] = names[int(found.source_shares[:, u].argmax())]
    shares = zip(names, found.source_shares.tolist(), strict=True)
    return HiddenFactor(
        n_groups=found.n_groups,
        shares={name: tuple(row) for name, row in shares},
        p_value=found.p_value if len(names) > 1 else float("nan"),
        gain=found.gain,
        gain_error=found.gain_error,
        noise_gain=found.noise_gain,
        separation=found.separation,
        lone_holders=lone,
        n_rows=len(domains.y),
    )


def _thin(domains: Domains) -> Domains:
    """Keep every so many-th row of each domain and class, if there are very many rows."""
    stride = -(-len(domains.y) // _MAX_ROWS)
    if stride == 1:
        return domains
    order = torch.argsort(domains.y, stable=True)
    order = order[torch.argsort(domains.domain[order], stable=True)]
    kept: Tensor = torch.zeros_like(domains.y, dtype=torch.bool)
    kept[order] = deal_rows(domains.y[order], domains.domain[order], stride) == 0
    return take_rows(domains, kept)
