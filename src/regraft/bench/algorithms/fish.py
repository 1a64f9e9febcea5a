"""Fish: steps through the domains one after another, and a part of the way that they lead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.algorithms.base import Task, algorithm
from regraft.bench.algorithms.erm import ERM, MAIN
from regraft.bench.networks.domainbed import make_classifier, make_featurizer
from regraft.bench.protocol.spaces import choice


@algorithm("Fish", {"meta_lr": choice(0.5, [0.05, 0.1, 0.5])})
class Fish(ERM):
    """A copy of the network steps on each domain in turn; the network goes towards the copy."""

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        featurizer, n_features = make_featurizer(
            task.input_shape, hparams, generator, compat=task.compat
        )
        self.inner = nn.Sequential(featurizer, make_classifier(n_features, task.n_classes, hparams))
        rates = {name: hparams[name] for name in ("lr", "weight_decay")}
        # The copy starts over at every step, its optimizer does not.
        self.optimizers[MAIN] = self.adam(self.inner.parameters(), **rates)

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Step the copy through the domains, then move the network by ``meta_lr`` towards it."""
        outer = nn.Sequential(self.featurizer, self.classifier)
        pairs = list(zip(_tensors(outer), _tensors(self.inner), strict=True))
        with torch.no_grad():
            for mine, copy in pairs:
                copy.copy_(mine)
        for rows, labels in zip(x, y, strict=True):
            loss = functional.cross_entropy(self.inner(rows), labels)
            self.descend(loss, MAIN)
        with torch.no_grad():
            for mine, copy in pairs:
                mine.copy_(mine + self.hparams["meta_lr"] * (copy - mine))
        return {"loss": loss.detach()}


def _tensors(network: nn.Module) -> list[Tensor]:
    """Return parameters and running statistics, which both move."""
    return [*network.parameters(), *network.buffers()]
