"""URM: features that a discriminator cannot tell from uniform noise."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.algorithms.base import Task, algorithm
from regraft.bench.algorithms.erm import ERM, MAIN
from regraft.bench.protocol.spaces import (
    Group,
    Space,
    choice,
    constant,
    ten_to,
    uniform,
    whole_choice,
)

DISCRIMINATOR = "discriminator"
_WIDTH = 100
# By the function that ends the features: where the noise lies.
_RANGES = {"tanh": (-1.0, 1.0), "relu": (0.0, 1.0), "sigmoid": (0.0, 1.0)}


def urm_space(group: Group) -> Space:
    """Return the space of the discriminator and of its weight."""
    return {
        "urm": constant("adversarial"),
        "urm_adv_lambda": uniform(0.1, 0, 0.2),
        "urm_discriminator_label_smoothing": uniform(0.0, 0, 0),
        "urm_discriminator_optimizer": constant("adam"),
        "urm_discriminator_hidden_layers": whole_choice(1, [1, 2, 3]),
        "urm_generator_output": choice("tanh", ["tanh", "relu"]),
        "urm_discriminator_lr": ten_to(5e-5, -6, -4.5)
        if group == "images"
        else ten_to(1e-3, -5.5, -3.5),
    }


@algorithm("URM", urm_space)
class URM(ERM):
    """Mean loss plus the discriminator's verdict on the features, which then learns in its turn."""

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        if hparams["urm_generator_output"] not in _RANGES:
            raise ValueError(
                f"urm_generator_output is {hparams['urm_generator_output']!r}: choose from "
                f"{', '.join(_RANGES)}."
            )
        if hparams["urm_discriminator_optimizer"] != "adam" or hparams["urm"] != "adversarial":
            raise ValueError("urm is adversarial with the optimizer adam only: leave both out.")
        widths = [self.n_features] + [_WIDTH] * (1 + hparams["urm_discriminator_hidden_layers"])
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.LeakyReLU()]
        self.discriminator = nn.Sequential(*layers, nn.Linear(_WIDTH, 1))
        self.optimizers[DISCRIMINATOR] = self.adam(
            self.discriminator.parameters(),
            lr=hparams["urm_discriminator_lr"],
            weight_decay=hparams["weight_decay"],
        )

    def encode(self, x: Tensor) -> Tensor:
        """Return features (n, d) within the range of the noise, or above it."""
        end = getattr(torch, self.hparams["urm_generator_output"])
        features: Tensor = end(self.featurizer(x))
        return features

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (n, C)."""
        logits: Tensor = self.classifier(self.encode(x))
        return logits

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Take a step of the network, then one of the discriminator."""
        features = self.encode(x.flatten(0, 1))
        loss = functional.cross_entropy(self.classifier(features), y.flatten())
        weight = self.hparams["urm_adv_lambda"]
        loss = loss + weight * self._verdict(features, torch.ones_like(features[:, 0]))
        self.descend(loss, MAIN)
        low, high = _RANGES[self.hparams["urm_generator_output"]]
        features = features.detach()
        noise = (high - low) * self._draw(features) + low
        smoothing = self.hparams["urm_discriminator_label_smoothing"]
        true, false = torch.ones_like(features[:, 0]), torch.zeros_like(features[:, 0])
        if smoothing:
            true, false = (side + (smoothing * (self._draw(side) - 1)) for side in (true, true))
            false = 1 - false
        verdict = self._verdict(noise, true) + weight * self._verdict(features, false)
        self.descend(verdict, DISCRIMINATOR)
        return {"loss": loss.detach()}

    def _verdict(self, features: Tensor, truth: Tensor) -> Tensor:
        logits = self.discriminator(features).squeeze(1)
        return functional.binary_cross_entropy_with_logits(logits, truth)

    def _draw(self, like: Tensor) -> Tensor:
        return torch.rand(
            like.shape, generator=self.generator, device=like.device, dtype=like.dtype
        )
