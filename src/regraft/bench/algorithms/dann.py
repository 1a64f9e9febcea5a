"""DANN and CDANN: features from which a discriminator cannot tell the domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.algorithms.base import Algorithm, Task, algorithm
from regraft.bench.networks.domainbed import make_classifier, make_featurizer, mlp
from regraft.bench.protocol.spaces import (
    Group,
    Space,
    choice,
    common_space,
    ten_to,
    whole_choice,
    whole_power,
)

NETWORK, DISCRIMINATOR = "network", "discriminator"


def adversarial_space(group: Group) -> Space:
    """Return the space of DANN and CDANN; both optimizers take the group's learning rates."""
    common = common_space(group)
    return {
        "lambda": ten_to(1.0, -2, 2),
        "weight_decay_d": ten_to(0.0, -6, -2),
        "d_steps_per_g_step": whole_power(1, 2, 0, 3),
        "grad_penalty": ten_to(0.0, -2, 1),
        "beta1": choice(0.5, [0.0, 0.5]),
        "mlp_width": whole_power(256, 2, 6, 10),
        "mlp_depth": whole_choice(3, [3, 4, 5]),
        "mlp_dropout": choice(0.0, [0.0, 0.1, 0.5]),
        "lr_g": common["lr"],
        "lr_d": common["lr"],
        "weight_decay_g": common["weight_decay"],
    }


class TurnTaking(Algorithm):
    """Base of algorithms in which a discriminator and the network are trained in turn."""

    featurizer: nn.Module
    classifier: nn.Module

    def variant(self, step: int) -> str:
        """Return whether the discriminator or the network takes this step."""
        turns = self.hparams["d_steps_per_g_step"]
        # DomainBed counts steps from one: the discriminator's first turn is one step short.
        return DISCRIMINATOR if (step + 1) % (1 + turns) < turns else NETWORK

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (n, C)."""
        logits: Tensor = self.classifier(self.featurizer(x))
        return logits


@algorithm("DANN", adversarial_space)
class DANN(TurnTaking):
    """Discriminator and network trained in turn, the network to mislead the discriminator."""

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        self.featurizer, self.n_features = make_featurizer(
            task.input_shape, hparams, generator, compat=task.compat
        )
        self.classifier = make_classifier(self.n_features, task.n_classes, hparams)
        n_domains = task.n_domains + (task.n_unlabelled if self.uses_unlabelled else 0)
        self.discriminator = mlp(self.n_features, n_domains, hparams, generator)
        self.start(NETWORK, "g", self.featurizer, self.classifier)
        self.start(DISCRIMINATOR, "d", self.discriminator)

    @property
    def uses_unlabelled(self) -> bool:
        """Whether the discriminator sees domains to adapt to; with ``compat`` not, as there."""
        return not self.task.compat

    def start(self, name: str, suffix: str, *modules: nn.Module) -> None:
        """Create the optimizer ``name`` of ``modules``; its hyperparameters end in ``suffix``."""
        self.optimizers[name] = self.adam(
            nn.ModuleList(modules).parameters(),
            lr=self.hparams[f"lr_{suffix}"],
            weight_decay=self.hparams[f"weight_decay_{suffix}"],
            betas=(self.hparams["beta1"], 0.9),
        )

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Take a step of the discriminator alone, or of featurizer and classifier alone."""
        return self._take_turn(step, x, y)

    def update_adapting(
        self, step: int, x: Tensor, y: Tensor, unlabelled: Tensor
    ) -> dict[str, Tensor]:
        """Take a step in which the ``unlabelled`` domains are to be told apart as well."""
        return self._take_turn(step, torch.cat([x, unlabelled]) if self.uses_unlabelled else x, y)

    def _take_turn(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Take a step on ``x``, of which the first ``len(y)`` domains have labels."""
        x = x.flatten(0, 1)
        if self.variant(step) == DISCRIMINATOR:
            with torch.no_grad():
                features = self.featurizer(x)
            features.requires_grad_(self.hparams["grad_penalty"] > 0)
            loss = self.discrimination(features, y)
            self.descend(loss, DISCRIMINATOR)
            return {"disc_loss": loss.detach()}
        features = self.featurizer(x)
        loss = functional.cross_entropy(self.classifier(features[: y.numel()]), y.flatten())
        loss = loss - self.hparams["lambda"] * self.discrimination(features, y)
        self.descend(loss, NETWORK)
        return {"gen_loss": loss.detach()}

    def discrimination(self, features: Tensor, y: Tensor) -> Tensor:
        """Return the loss of the discriminator with its penalty, on ``features`` (n, d).

        Domains follow one another, those with labels first, with as many rows each.
        """
        inputs = self.condition(features, y.flatten())
        rows = y.shape[1]
        n_domains = len(features) // rows
        domains = torch.arange(n_domains, device=y.device).repeat_interleave(rows)
        losses = functional.cross_entropy(self.discriminator(inputs), domains, reduction="none")
        loss = self.mean(losses, y.flatten())
        penalty = self.hparams["grad_penalty"]
        if penalty > 0:
            (slope,) = torch.autograd.grad(losses.sum(), inputs, create_graph=True)
            loss = loss + penalty * slope.square().sum(dim=1).mean()
        return loss

    def condition(self, features: Tensor, y: Tensor) -> Tensor:
        """Return the discriminator's input for ``features`` (n, d) of classes ``y`` (n,)."""
        return features

    def mean(self, losses: Tensor, y: Tensor) -> Tensor:
        """Reduce the losses (n,) of rows of classes ``y`` (n,) to one."""
        return losses.mean()


@algorithm("CDANN", adversarial_space)
class CDANN(DANN):
    """DANN with an embedding of the class added to the features, and equal weight per class.

    Rows without labels have no class, so it makes no use of them.
    """

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        self.class_embeddings = nn.Embedding(task.n_classes, self.n_features)
        self.start(DISCRIMINATOR, "d", self.discriminator, self.class_embeddings)

    @property
    def uses_unlabelled(self) -> bool:
        """Always False."""
        return False

    def condition(self, features: Tensor, y: Tensor) -> Tensor:
        """Add to the features the embeddings of their classes."""
        moved: Tensor = features + self.class_embeddings(y)
        return moved

    def mean(self, losses: Tensor, y: Tensor) -> Tensor:
        """Return the mean over classes of the mean within each; 0 for a class without rows.

        With ``compat`` the classes are counted as in DomainBed: up to the largest that is there.
        """
        counts = functional.one_hot(y, self.task.n_classes).sum(dim=0)
        n_classes = y.max() + 1 if self.task.compat else self.task.n_classes
        return (losses / (counts[y] * n_classes)).sum()
