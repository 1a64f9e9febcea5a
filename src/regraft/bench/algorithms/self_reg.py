"""SelfReg: rows of one class should have the same logits and features, alone and mixed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.algorithms.base import Task, algorithm
from regraft.bench.algorithms.erm import ERM
from regraft.bench.algorithms.mixup import draw_shares

_LARGE = 2048  # features from which on the projection is not widened
_FEATURES = 0.3  # weight of the features' distances


@algorithm("SelfReg")
class SelfReg(ERM):
    """Loss plus the distances of rows from others of their class, and from mixtures of two.

    DomainBed leaves the projection of the features out of its optimizer, so that it keeps its
    initial weights; a task with ``compat`` does too.
    """

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        wide = self.n_features * (1 if self.n_features == _LARGE else 2)
        layers: list[nn.Module] = []
        for before, after in ((self.n_features, wide), (wide, wide), (wide, self.n_features)):
            layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU()]
        self.projection = nn.Sequential(*layers[:-1]).requires_grad_(not task.compat)
        self.reset()

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the loss with its distances, which count less once the loss is below one."""
        labels = y.flatten()
        features = self.featurizer(x.flatten(0, 1))
        logits, projected = self.classifier(features), self.projection(features)
        own = labels.argsort(stable=True)
        first, second = self.shuffle(labels), self.shuffle(labels)
        (share,) = draw_shares(0.5, 1, x.device, self.generator).to(features.dtype)
        alone, mixed = [], []
        for values, others, weight in (
            (logits, logits, 1.0),
            (features, projected, _FEATURES),
        ):
            one, two = others[first], others[second]
            mixture = share * one + (1 - share) * two
            alone.append(weight * functional.mse_loss(values[own], one))
            mixed.append(weight * functional.mse_loss(values[own], mixture))
        loss = functional.cross_entropy(logits, labels)
        distances = share * sum(alone) + (1 - share) * sum(mixed)
        return {"loss": loss + loss.detach().clamp_max(1) * distances}

    def shuffle(self, labels: Tensor) -> Tensor:
        """Sort the rows by class, in random order within each."""
        draws = torch.rand(len(labels), generator=self.generator, device=labels.device)
        order = draws.argsort()
        return order[labels[order].argsort(stable=True)]
