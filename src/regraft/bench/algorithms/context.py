"""ARM and MTL: networks that see a mean over unlabelled rows of the same domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regraft.bench.algorithms.base import Task, algorithm
from regraft.bench.algorithms.erm import ERM, domain_losses
from regraft.bench.networks.domainbed import make_classifier
from regraft.bench.protocol.spaces import Group, Space, choice, constant

# Number of rows that DomainBed predicts together. Predicting a domain in parts of a multiple of
# this size changes nothing.
EVALUATION_BATCH = 64
_WIDTH = 64
_VECTOR_CONTEXT = 8  # numbers of context that are appended to a vector


def group_means(rows: Tensor, size: int) -> Tensor:
    """Return for each of the ``rows`` (n, ...) the mean of its ``size`` consecutive ones."""
    whole = len(rows) - len(rows) % size
    parts = [part for part in (rows[:whole], rows[whole:]) if len(part)]
    groups = [part.reshape(-1, min(size, len(part)), *part.shape[1:]) for part in parts]
    return torch.cat([g.mean(1, keepdim=True).expand_as(g).flatten(0, 1) for g in groups])


def arm_space(group: Group) -> Space:
    """Return the space of the batch size, which is also the size of a context's support."""
    return {"batch_size": constant(8)} if group == "images" else {}


@algorithm("ARM", arm_space)
class ARM(ERM):
    """Adaptive risk minimization: inputs include a context, the mean over rows of the same domain.

    DomainBed leaves the context network out of its optimizer, so that it keeps its initial weights;
    a task with ``compat`` does too.
    """

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        context, n_context = make_context(task.input_shape)
        shape = (task.input_shape[0] + n_context, *task.input_shape[1:])
        super().__init__(replace(task, input_shape=shape), hparams, generator)
        self.task = task
        self.context = context.requires_grad_(not task.compat)
        self.reset()

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (n, C), with supports as large as in training if they divide a batch.

        Otherwise the support is the whole evaluated batch, of which the last may be short.
        """
        size, whole = self.hparams["batch_size"], len(x) - len(x) % EVALUATION_BATCH
        parts = [(x[:whole], EVALUATION_BATCH), (x[whole:], len(x) - whole)]
        logits = [self.adapt(part, size if n % size == 0 else n) for part, n in parts if len(part)]
        return torch.cat(logits)

    def losses(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss (K,) in each domain, whose minibatch is one support."""
        return domain_losses(self.adapt(x.flatten(0, 1), y.shape[1]), y)

    def adapt(self, x: Tensor, size: int) -> Tensor:
        """Return logits (n, C) in the context of supports of ``size`` rows."""
        return super().predict(torch.cat([x, group_means(self.context(x), size)], dim=1))


def make_context(input_shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    """Return the context network, and the number of channels or vector entries that it adds."""
    if len(input_shape) == 1:
        layers = nn.Linear(input_shape[0], _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _VECTOR_CONTEXT)
        return nn.Sequential(*layers), _VECTOR_CONTEXT
    hidden: list[nn.Module] = []
    for n_in in (input_shape[0], _WIDTH):
        convolution = nn.Conv2d(n_in, _WIDTH, kernel_size=5, padding=2)
        hidden += [convolution, nn.BatchNorm2d(_WIDTH), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Conv2d(_WIDTH, 1, kernel_size=5, padding=2)), 1


@algorithm("MTL", {"mtl_ema": choice(0.99, [0.5, 0.9, 0.99, 1.0])})
class MTL(ERM):
    """Marginal transfer learning: features joined by the running mean of their domain's features.

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

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Update the embeddings, then return the sum of the domains' losses."""
        features = self.through(self.featurizer, x).view(*y.shape, -1)
        share = self.hparams["mtl_ema"]
        embeddings = share * features.mean(dim=1) + (1 - share) * self.embeddings
        self.embeddings.copy_(embeddings.detach())
        by_row = embeddings[:, None].expand_as(features)
        return {"loss": domain_losses(self.classify(features, by_row).flatten(0, 1), y).sum()}

    def classify(self, features: Tensor, embeddings: Tensor) -> Tensor:
        """Return logits (..., C) of ``features`` (..., d) given domain ``embeddings`` (..., d)."""
        if self.task.compat:
            embeddings = torch.randn(
                features.shape, generator=self.generator, device=features.device
            )
        logits: Tensor = self.classifier(torch.cat([features, embeddings], dim=-1))
        return logits
