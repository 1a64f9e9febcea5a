"""Conditional domain-adversarial networks: the discriminator also knows the class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.algorithms.base import Task, algorithm
from regraft.bench.algorithms.dann import DANN, DISCRIMINATOR, adversarial_space


@algorithm("CDANN", adversarial_space)
class CDANN(DANN):
    """DANN with an embedding of the class added to the features, and equal weight per class."""

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        self.class_embeddings = nn.Embedding(task.n_classes, self.n_features)
        self.start(DISCRIMINATOR, "d", self.discriminator, self.class_embeddings)

    def condition(self, features: Tensor, y: Tensor) -> Tensor:
        """Add to the features the embeddings of their classes."""
        moved: Tensor = features + self.class_embeddings(y)
        return moved

    def mean(self, losses: Tensor, y: Tensor) -> Tensor:
        """Return the mean over classes of the mean within each; 0 for a class without rows."""
        counts = functional.one_hot(y, self.task.n_classes).sum(dim=0)
        return (losses / (counts[y] * self.task.n_classes)).sum()
