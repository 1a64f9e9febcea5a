"""Empirical risk minimization, and the base of most other algorithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.algorithms.base import Algorithm, Task, algorithm
from regraft.bench.networks.domainbed import make_classifier, make_featurizer

MAIN, OBJECTIVE = "main", "objective"


@algorithm("ERM")
class ERM(Algorithm):
    """Mean loss over all rows; base of the algorithms that train one network by one loss."""

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        self.featurizer, n_features = make_featurizer(
            task.input_shape, hparams, generator, compat=task.compat
        )
        self.classifier: nn.Module = make_classifier(n_features, task.n_classes, hparams)
        self.n_features = n_features
        self.reset()

    def reset(self) -> None:
        """Create a fresh optimizer."""
        rates = {name: self.hparams[name] for name in ("lr", "weight_decay")}
        self.optimizers[MAIN] = self.adam(self.parameters(), **rates)

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (n, C)."""
        logits: Tensor = self.classifier(self.featurizer(x))
        return logits

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Take a step down the objective."""
        return self.go_down(self.objective(step, x, y))

    def go_down(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """Take a step down what ``objective`` returned; return what is to be logged."""
        self.descend(values.pop(OBJECTIVE) if OBJECTIVE in values else values["loss"], MAIN)
        return {name: value.detach() for name, value in values.items()}

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return scalars to log, of which a step goes down the ``loss``.

        An entry ``objective``, which is not logged, takes its place.
        """
        return {"loss": self.losses(x, y).mean()}

    def through(self, network: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Return what a network makes of minibatches (K, b, ...), as rows (K·b, ...).

        Where batch normalization is alive, it matters whether domains pass together.
        """
        if self.task.per_domain:
            return torch.cat([network(rows) for rows in x])
        return network(x.flatten(0, 1))

    def losses(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss (K,) in each domain."""
        return domain_losses(self.predict(x.flatten(0, 1)), y)


def domain_losses(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean cross-entropy (K,) of each domain, from ``logits`` (K·b, C)."""
    losses = functional.cross_entropy(logits, y.flatten(), reduction="none")
    return losses.view(y.shape).mean(dim=1)
