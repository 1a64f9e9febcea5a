"""What IRM and VREx share: a penalty that counts little until some step, and fully from there."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from regraft.bench.algorithms.erm import ERM, MAIN, domain_losses
from regraft.bench.protocol.spaces import Hparam, ten_to, whole_power


def annealed_space(prefix: str, weight: float) -> dict[str, Hparam]:
    """The penalty's weight, by default ``weight``, and the step from which it has that weight."""
    return {
        f"{prefix}_lambda": ten_to(weight, -1, 5),
        f"{prefix}_penalty_anneal_iters": whole_power(500, 10, 0, 4),
    }


class Annealed(ERM):
    """The mean loss and a penalty, weighted 1 until the step at which the optimizer starts over."""

    prefix: ClassVar[str]  # with which the hyperparameters' names begin

    def penalty(self, logits: Tensor, y: Tensor, losses: Tensor) -> Tensor:
        """The penalty of ``logits`` (K, b, C) for ``y`` (K, b) whose losses are ``losses`` (K,)."""
        raise NotImplementedError

    def variant(self, step: int) -> str:
        """Before, at or after the step at which the weight changes."""
        change = self.hparams[f"{self.prefix}_penalty_anneal_iters"]
        return "before" if step < change else "at" if step == change else "after"

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """A step down the mean loss and the weighted penalty."""
        variant = self.variant(step)
        if variant == "at":  # Adam's moments are of a loss of another scale
            self.reset()
        weight = 1.0 if variant == "before" else self.hparams[f"{self.prefix}_lambda"]
        logits = self.predict(x.flatten(0, 1))
        losses = domain_losses(logits, y)
        nll, penalty = losses.mean(), self.penalty(logits.view(*y.shape, -1), y, losses)
        loss = nll + weight * penalty
        self.descend(loss, MAIN)
        return {"loss": loss.detach(), "nll": nll.detach(), "penalty": penalty.detach()}
