"""Base of CORAL and MMD: penalize features whose distribution differs between domains."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from regraft.bench.algorithms.erm import ERM, MAIN, domain_losses
from regraft.bench.protocol.spaces import Hparam, ten_to

ALIGNMENT_SPACE: Mapping[str, Hparam] = {"mmd_gamma": ten_to(1.0, -1, 1)}


class Alignment(ERM):
    """Mean loss plus a distance between domains, averaged over their pairs."""

    def penalty(self, features: Tensor) -> Tensor:
        """Return the mean distance between two of the K domains in ``features`` (K, b, d)."""
        raise NotImplementedError

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Take a step down the mean loss plus the weighted penalty."""
        features = self.featurizer(x.flatten(0, 1))
        losses = domain_losses(self.classifier(features), y)
        penalty = self.penalty(features.reshape(*y.shape, -1))
        loss = losses.mean() + self.hparams["mmd_gamma"] * penalty
        self.descend(loss, MAIN)
        return {"loss": loss.detach(), "penalty": penalty.detach()}
