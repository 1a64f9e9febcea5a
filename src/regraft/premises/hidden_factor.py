"""The hidden factor that the sources mix in different shares, as a diagnosis reports it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from regraft.core.abduction import find_groups, rows_of_domains
from regraft.core.domain_scores import PERMUTATIONS
from regraft.core.domains import Domains
from regraft.core.guard import STANDARD_ERRORS
from regraft.premises.verdicts import format_p_value
from regraft.support.plain_data import PlainData

CLEAR_SEPARATION = 2.0  # standard deviations; groups nearer than this overlap much


@dataclass(frozen=True)
class HiddenFactor(PlainData):
    """Groups of rows that the sources hold in different shares; one group is no hidden factor."""

    n_groups: int
    shares: dict[str, tuple[float, ...]]  # (G,) of the groups in each source
    p_value: float  # of "no hidden factor", by permuting the sources within each class
    gain: float  # nats a row that the groups tell about the source, on rows that no step has seen
    gain_error: float  # its standard error
    noise_gain: float  # nats a row that chance reaches once in twenty times
    least_difference: float  # of a group's share in the smallest source, that makes such a gain
    separation: float  # of neighbouring groups, in standard deviations
    lone_holders: dict[int, str]  # groups that a single source has, and this source

    @property
    def found(self) -> bool:
        """Whether there is more than one group."""
        return self.n_groups > 1

    @property
    def is_clear(self) -> bool:
        """Whether the groups tell more about the source than chance explains."""
        return self.found and self.gain > STANDARD_ERRORS * self.gain_error

    @property
    def is_shared(self) -> bool:
        """Whether two sources or more hold each group; else groups may be sources."""
        return self.found and not self.lone_holders

    @property
    def is_weak(self) -> bool:
        """Whether its groups overlap so much that its signs are weak, in the words of a fit."""
        return self.found and self.separation < CLEAR_SEPARATION

    @property
    def lone_holder(self) -> tuple[int, str]:
        """The first group that a single source has, and this source."""
        return next(iter(self.lone_holders.items()))

    @property
    def chance(self) -> str:
        """The p-value in words."""
        return format_p_value(self.p_value, PERMUTATIONS)


def find_hidden_factor(domains: Domains) -> HiddenFactor:
    """Look for groups that the sources mix in different shares."""
    found = find_groups(rows_of_domains(domains))
    names = domains.texts
    lone = {}
    for u, holds in enumerate(found.holders.T):
        if int(holds.sum()) < 2 and len(names) > 1:
            lone[u] = names[int(found.source_shares[:, u].argmax())]
    part = int(torch.bincount(domains.domain).min()) / len(domains.y)
    nan = float("nan")
    least = nan if len(names) == 1 else _least_difference(part, found.noise_gain)
    shares = zip(names, found.source_shares.tolist(), strict=True)
    return HiddenFactor(
        n_groups=found.n_groups,
        shares={name: tuple(row) for name, row in shares},
        p_value=found.p_value if len(names) > 1 else nan,
        gain=found.gain,
        gain_error=found.gain_error,
        noise_gain=found.noise_gain,
        least_difference=least,
        separation=found.separation,
        lone_holders=lone,
    )


def _least_difference(part: float, gain: float) -> float:
    """Return by how much the share of a group must differ in a ``part`` of the rows.

    A group of half the rows whose share is larger by t there tells 2 part (1 - part) t² nats about
    where a row came from, to second order, if the features show it without error.
    """
    return min(math.sqrt(gain / (2 * part * (1 - part))), 1.0)
