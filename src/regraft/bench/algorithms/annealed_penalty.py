"""Base of IRM and VREx: a penalty that counts little at first, and fully from some step on."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from regraft.bench.algorithms.erm import ERM, MAIN, domain_losses
from regraft.bench.protocol.spaces import Hparam, ten_to, whole_power


def annealed_space(prefix: str, weight: float) -> dict[str, Hparam]:
    """Return the space of the penalty's weight, and of the step from which it has that weight."""
    return {
        f"{prefix}_lambda": ten_to(weight, -1, 5),
        f"{prefix}_penalty_anneal_iters": whole_power(500, 10, 0, 4),
    }


class Annealed(ERM):
    """Mean loss plus a penalty, weighted 1 until the step at which the optimizer is reset."""

    prefix: ClassVar[str]  # with which the hyperparameters' names begin

    def penalty(self, logits: Tensor, y: Tensor, losses: Tensor) -> Tensor:
        """Return the penalty of ``logits`` (K, b, C) for ``y`` (K, b) with losses (K,)."""
        raise NotImplementedError

    def variant(self, step: int) -> str:
        """Return whether ``step`` is before, at or after the change of weight."""
        change = self.hparams[f"{self.prefix}_penalty_anneal_iters"]
        return "before" if step < change else "at" if step == change else "after"

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Take a step down the mean loss plus the weighted penalty."""
        variant = self.variant(step)
        if variant == "at":  # Adam's moments belong to a loss of another scale
            self.reset()
        weight = 1.0 if variant == "before" else self.hparams[f"{self.prefix}_lambda"]
        logits = self.predict(x.flatten(0, 1))
        losses = domain_losses(logits, y)
        nll, penalty = losses.mean(), self.penalty(logits.view(*y.shape, -1), y, losses)
        loss = nll + weight * penalty
        self.descend(loss, MAIN)
        return {"loss": loss.detach(), "nll": nll.detach(), "penalty": penalty.detach()}
