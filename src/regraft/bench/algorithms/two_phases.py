"""Algorithms in two phases: ERM first, then a linear head on the features of its network."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regraft.bench.algorithms.base import Task
from regraft.bench.algorithms.erm import ERM
from regraft.bench.protocol.spaces import Group, Space, constant
from regraft.core.domains import check_domains
from regraft.core.heads import SourceHeads, fit_source_heads

_NEVER = -1e9  # the logit of a class that no source has
# Steps of Phase 1, its learning rate, and rows a source and step, none of them searched.
_PHASE_1: Mapping[Group, tuple[int, float, int]] = {
    "small images": (500, 1e-3, 64),
    "images": (5000, 5e-5, 32),
}


def phase_1(group: Group) -> Space:
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
        "vit_dropout": constant(0.0),
    }


class TwoPhases(ERM):
    """Phase 1 trains as ERM does; Phase 2 finds a new head on the features.

    A run has one record, after Phase 2. Checkpoints of Phase 1 are plain ERM's: they do better on
    the sources, so a selection among them would never choose what was asked for.
    """

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        # The new head is linear, and takes the place of Phase 1's classifier.
        super().__init__(task, {**hparams, "nonlinear_classifier": False}, generator)

    def schedule(self, steps: int, every: int) -> list[int]:
        """Return the end of Phase 1."""
        return [min(steps, self.hparams["cro_phase1_steps"]) - 1]

    def conclude(self, sources: Iterable[tuple[int, Tensor, Tensor]]) -> None:
        """Find the head on the features of the training rows; it is the new classifier."""
        parts = [(self._embed(x), y, torch.full_like(y, domain)) for domain, x, y in sources]
        arrays = (torch.cat(column).cpu().numpy() for column in zip(*parts, strict=True))
        with warnings.catch_warnings():  # of constant features, about which nobody can do anything
            warnings.simplefilter("ignore", UserWarning)
            domains = check_domains(*arrays, device=str(self.task.device))
        head = self.find_head(fit_source_heads(domains))
        self._set_classifier(head, torch.as_tensor(domains.classes))

    def find_head(self, sources: SourceHeads) -> Tensor:
        """Return the head (c, d + 1) on [features, 1] for the classes of the sources."""
        raise NotImplementedError

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
        head = head.to(self.classifier.weight)
        self.classifier.weight.zero_()
        self.classifier.bias.fill_(_NEVER)
        self.classifier.weight[classes] = head[:, :-1]
        self.classifier.bias[classes] = head[:, -1]
