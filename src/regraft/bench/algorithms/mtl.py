"""Marginal transfer learning: the classifier also sees an embedding of the domain's features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regraft.bench.algorithms.base import Task, algorithm
from regraft.bench.algorithms.batch_means import EVALUATION_BATCH, group_means
from regraft.bench.algorithms.erm import ERM, MAIN, domain_losses
from regraft.bench.networks.domainbed import make_classifier
from regraft.bench.protocol.spaces import choice


@algorithm("MTL", {"mtl_ema": choice(0.99, [0.5, 0.9, 0.99, 1.0])})
class MTL(ERM):
    """Features joined by an embedding of their domain: the running mean of its features.

    DomainBed overwrites every embedding by noise before the classifier sees it (its issue 159);
    a task with ``compat`` does too.
    """

    embeddings: Tensor

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        self.classifier = make_classifier(2 * self.n_features, task.n_classes, hparams)
        self.register_buffer("embeddings", torch.zeros(task.n_domains, self.n_features))
        self.reset()

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (n, C); the embedding is the mean over rows that are evaluated together."""
        features = self.featurizer(x)
        return self.classify(features, group_means(features, EVALUATION_BATCH))

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Take a step down the sum of the domains' losses."""
        features = self.featurizer(x.flatten(0, 1)).unflatten(0, y.shape)
        share = self.hparams["mtl_ema"]
        embeddings = share * features.mean(dim=1) + (1 - share) * self.embeddings
        self.embeddings.copy_(embeddings.detach())
        by_row = embeddings[:, None].expand_as(features)
        loss = domain_losses(self.classify(features, by_row).flatten(0, 1), y).sum()
        self.descend(loss, MAIN)
        return {"loss": loss.detach()}

    def classify(self, features: Tensor, embeddings: Tensor) -> Tensor:
        """Return logits (..., C) of ``features`` (..., d) given domain ``embeddings`` (..., d)."""
        if self.task.compat:
            embeddings = torch.randn(
                features.shape, generator=self.generator, device=features.device
            )
        logits: Tensor = self.classifier(torch.cat([features, embeddings], dim=-1))
        return logits
