"""Causal robust optimization: empirical risk minimization, then the game on its features."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regraft.bench.algorithms.base import Task, algorithm
from regraft.bench.algorithms.erm import ERM
from regraft.bench.algorithms.games import (
    HULL_SPACE,
    LATENT_SPACE,
    PRIOR_SHIFT,
    RADIUS,
    FoundHeads,
    play_hull_game,
    play_latent_game,
)
from regraft.bench.protocol.spaces import Group, Space, constant
from regraft.core.abduction import find_groups, rows_of_sources
from regraft.core.domains import check_domains
from regraft.core.heads import SourceHeads, fit_source_heads

_NEVER = -1e9  # the logit of a class that no source has
# Steps of Phase 1, its learning rate, and rows a source and step, none of them searched.
_PHASE_1: Mapping[Group, tuple[int, float, int]] = {
    "small images": (500, 1e-3, 64),
    "images": (5000, 5e-5, 32),
}


def _phase_1(group: Group) -> Space:
    """Return the paper's Phase 1; on features, which it has not, rates are drawn as ERM's are.

    The paper trains one for all configurations, so what else it depends on is fixed too.
    """
    if group not in _PHASE_1:
        return {"cro_phase1_steps": constant(500)}
    steps, rate, rows = _PHASE_1[group]
    return {
        "cro_phase1_steps": constant(steps),
        "lr": constant(rate),
        "batch_size": constant(rows),
        "weight_decay": constant(0.0),
        "resnet_dropout": constant(0.0),
    }


def cro_space(group: Group) -> Space:
    """Return the space of the hull; no source validation can judge the radius, an assumption."""
    return {**_phase_1(group), "cro_radius": constant(RADIUS), **HULL_SPACE}


def latent_space(group: Group) -> Space:
    """Return the space of the latent family; every mixture of the groups is allowed."""
    return {**_phase_1(group), "cro_prior_shift": constant(PRIOR_SHIFT), **LATENT_SPACE}


@algorithm("CRO", cro_space)
class CRO(ERM):
    """Phase 1 trains as ERM does; Phase 2 answers the worst plausible domain with a new head.

    A run has one record, after Phase 2. Checkpoints of Phase 1 are plain ERM's: they do better on
    the sources, so a selection among them would never choose what was asked for.
    """

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        # The game's answer is linear, and takes the place of Phase 1's classifier.
        super().__init__(task, {**hparams, "nonlinear_classifier": False}, generator)

    def schedule(self, steps: int, every: int) -> list[int]:
        """Return the end of Phase 1."""
        return [min(steps, self.hparams["cro_phase1_steps"]) - 1]

    def conclude(self, sources: Iterable[tuple[int, Tensor, Tensor]]) -> None:
        """Play the game on the features of the training rows; its answer is the new classifier."""
        parts = [(self._embed(x), y, torch.full_like(y, domain)) for domain, x, y in sources]
        arrays = (torch.cat(column).cpu().numpy() for column in zip(*parts, strict=True))
        with warnings.catch_warnings():  # of constant features, about which nobody can do anything
            warnings.simplefilter("ignore", UserWarning)
            domains = check_domains(*arrays, device=str(self.task.device))
        played = self._play(fit_source_heads(domains))
        self._set_classifier(played.heads[-1].float(), torch.as_tensor(domains.classes))

    def _play(self, sources: SourceHeads) -> FoundHeads:
        """Play on the hull of the source heads."""
        return play_hull_game(sources, self.hparams)

    @torch.no_grad()
    def _embed(self, x: Tensor) -> Tensor:
        self.eval()
        features: Tensor = self.featurizer(x).double().cpu()
        self.train()
        return features

    @torch.no_grad()
    def _set_classifier(self, head: Tensor, classes: Tensor) -> None:
        """Take the head (c, d + 1), whose rows are for ``classes``."""
        assert isinstance(self.classifier, nn.Linear)
        self.classifier.weight.zero_()
        self.classifier.bias.fill_(_NEVER)
        self.classifier.weight[classes] = head[:, :-1]
        self.classifier.bias[classes] = head[:, -1]


@algorithm("CROLatent", latent_space)
class CROLatent(CRO):
    """CRO whose plausible domains mix the hidden groups found in Phase 1's features."""

    def _play(self, sources: SourceHeads) -> FoundHeads:
        """Play over the mixtures of the groups."""
        return play_latent_game(sources, find_groups(rows_of_sources(sources)), self.hparams)
