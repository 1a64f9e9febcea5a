"""Fishr: the gradients of rows should vary alike in all domains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from regraft.bench.algorithms.annealed_penalty import phase
from regraft.bench.algorithms.base import Task, algorithm
from regraft.bench.algorithms.erm import ERM
from regraft.bench.protocol.spaces import ten_to, uniform, whole_uniform


@algorithm(
    "Fishr",
    {
        "lambda": ten_to(1000.0, 1, 4),
        "penalty_anneal_iters": whole_uniform(1500, 0, 5000),
        "ema": uniform(0.95, 0.90, 0.99),
    },
)
class Fishr(ERM):
    """Loss plus the differences of the variances of the classifier's gradients between domains."""

    variances: Tensor

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        n_weights = sum(weights.numel() for weights in self.classifier.parameters())
        self.register_buffer("variances", torch.zeros(task.n_domains, n_weights))

    def variant(self, step: int) -> str:
        """Return whether ``step`` is before, at or after the change of weight."""
        return phase(step, self.hparams["penalty_anneal_iters"])

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the loss plus the penalty, which does not count before the change."""
        if self.variant(step) == "at" and step > 0:
            self.reset()
        weight = 0.0 if self.variant(step) == "before" else self.hparams["lambda"]
        features = self.featurizer(x.flatten(0, 1))
        nll = functional.cross_entropy(self.classifier(features), y.flatten())
        penalty = self.penalty(features, y)
        return {"loss": nll + weight * penalty, "nll": nll, "penalty": penalty}

    def penalty(self, features: Tensor, y: Tensor) -> Tensor:
        """Return the mean squared distance of the domains' running variances from their mean."""
        share = self.hparams["ema"]
        gradients = self.row_gradients(features, y.flatten()).view(*y.shape, -1)
        variances = (gradients - gradients.mean(dim=1, keepdim=True)).square().mean(dim=1)
        running = share * self.variances + (1 - share) * variances
        self.variances.copy_(running.detach())
        running = running / (1 - share)  # the gradient's size does not depend on the share
        penalty: Tensor = (running - running.mean(dim=0)).square().mean()
        return penalty

    def row_gradients(self, features: Tensor, y: Tensor) -> Tensor:
        """Return each row's gradient (n, P) by all of the classifier's weights."""
        if isinstance(self.classifier, nn.Linear):
            shares = self.classifier(features).softmax(dim=1)
            errors = shares - functional.one_hot(y, shares.shape[1])
            by_weight = errors.unsqueeze(2) * features.unsqueeze(1)
            return torch.cat([by_weight.flatten(1), errors], dim=1)

        def loss(weights: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
            logits = functional_call(self.classifier, weights, (row[None],))
            return functional.cross_entropy(logits, label[None])

        weights: dict[str, Tensor] = dict(self.classifier.named_parameters())
        gradients = vmap(grad(loss), in_dims=(None, 0, 0))(weights, features, y)
        return torch.cat([gradients[name].flatten(1) for name in weights], dim=1)
