"""IRM and VREx: a penalty that counts little at first, and fully from some step on."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from regraft.bench.algorithms.base import algorithm
from regraft.bench.algorithms.erm import ERM, domain_losses
from regraft.bench.protocol.spaces import Hparam, ten_to, whole_power


def annealed_space(prefix: str, weight: float) -> dict[str, Hparam]:
    """Return the space of the penalty's weight, and of the step from which it has that weight."""
    return {
        f"{prefix}_lambda": ten_to(weight, -1, 5),
        f"{prefix}_penalty_anneal_iters": whole_power(500, 10, 0, 4),
    }


def phase(step: int, change: float) -> str:
    """Return whether ``step`` is before, at or after the ``change``."""
    return "before" if step < change else "at" if step == change else "after"


class Annealed(ERM):
    """Mean loss plus a penalty, weighted 1 until the step at which the optimizer is reset."""

    prefix: ClassVar[str]  # with which the hyperparameters' names begin

    def penalty(self, logits: Tensor, y: Tensor, losses: Tensor) -> Tensor:
        """Return the penalty of ``logits`` (K, b, C) for ``y`` (K, b) with losses (K,)."""
        raise NotImplementedError

    def variant(self, step: int) -> str:
        """Return whether ``step`` is before, at or after the change of weight."""
        return phase(step, self.hparams[f"{self.prefix}_penalty_anneal_iters"])

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the mean loss plus the weighted penalty; at the change, reset the optimizer."""
        variant = self.variant(step)
        if variant == "at":  # Adam's moments belong to a loss of another scale
            self.reset()
        weight = 1.0 if variant == "before" else self.hparams[f"{self.prefix}_lambda"]
        logits = self.predict(x.flatten(0, 1))
        losses = domain_losses(logits, y)
        nll, penalty = losses.mean(), self.penalty(logits.view(*y.shape, -1), y, losses)
        return {"loss": nll + weight * penalty, "nll": self.logged(losses), "penalty": penalty}

    def logged(self, losses: Tensor) -> Tensor:
        """Return what is logged of the domains' losses (K,)."""
        return losses.mean()


@algorithm("IRM", annealed_space("irm", 1e2))
class IRM(Annealed):
    """Penalty on the squared slope of each domain's loss as its logits are scaled."""

    prefix = "irm"

    def penalty(self, logits: Tensor, y: Tensor, losses: Tensor) -> Tensor:
        """Return the mean square."""
        return scale_penalty(logits, y)


def scale_penalty(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean squared slope, estimated without bias by a product over halves of rows."""
    even = scale_slopes(logits[:, ::2], y[:, ::2])
    odd = scale_slopes(logits[:, 1::2], y[:, 1::2])
    return (even * odd).mean()


def scale_slopes(logits: Tensor, y: Tensor) -> Tensor:
    """Return derivatives (K,) of the cross-entropies of s · ``logits`` (K, n, C) by s, at s = 1."""
    expected = (logits.softmax(dim=-1) * logits).sum(dim=-1)
    true = logits.gather(-1, y.unsqueeze(-1)).squeeze(-1)
    return (expected - true).mean(dim=1)


@algorithm("VREx", annealed_space("vrex", 1e1))
class VREx(Annealed):
    """Penalty on the variance of the domains' losses."""

    prefix = "vrex"

    def penalty(self, logits: Tensor, y: Tensor, losses: Tensor) -> Tensor:
        """Return the population variance, which is zero for one domain."""
        return losses.var(correction=0)

    def logged(self, losses: Tensor) -> Tensor:
        """Return the mean; with ``compat`` the last domain's loss, which DomainBed logs."""
        return losses[-1] if self.task.compat else losses.mean()
