"""Causal robust optimization: empirical risk minimization, then the game on its features."""

from __future__ import annotations

from torch import Tensor

from regraft.bench.algorithms.base import algorithm
from regraft.bench.algorithms.games import (
    HULL_SPACE,
    LATENT_SPACE,
    PRIOR_SHIFT,
    RADIUS,
    play_hull_game,
    play_latent_game,
)
from regraft.bench.algorithms.two_phases import TwoPhases, phase_1
from regraft.bench.protocol.spaces import Group, Space, constant
from regraft.core.abduction import find_groups, rows_of_sources
from regraft.core.heads import SourceHeads


def cro_space(group: Group) -> Space:
    """Return the space of the hull; no source validation can judge the radius, an assumption."""
    return {**phase_1(group), "cro_radius": constant(RADIUS), **HULL_SPACE}


def latent_space(group: Group) -> Space:
    """Return the space of the latent family; every mixture of the groups is allowed."""
    return {**phase_1(group), "cro_prior_shift": constant(PRIOR_SHIFT), **LATENT_SPACE}


@algorithm("CRO", cro_space)
class CRO(TwoPhases):
    """Phase 2 answers the worst plausible domain."""

    def find_head(self, sources: SourceHeads) -> Tensor:
        """Play on the hull of the source heads."""
        return play_hull_game(sources, self.hparams).heads[-1]


@algorithm("CROLatent", latent_space)
class CROLatent(TwoPhases):
    """CRO whose plausible domains mix the hidden groups found in Phase 1's features."""

    def find_head(self, sources: SourceHeads) -> Tensor:
        """Play over the mixtures of the groups."""
        groups = find_groups(rows_of_sources(sources))
        return play_latent_game(sources, groups, self.hparams).heads[-1]
