"""IB-ERM and IB-IRM: features that vary little within a domain."""

from __future__ import annotations

from torch import Tensor

from regraft.bench.algorithms.annealed_penalty import annealed_space, phase, scale_penalty
from regraft.bench.algorithms.base import algorithm
from regraft.bench.algorithms.erm import ERM, domain_losses

_IB, _IRM = annealed_space("ib", 1e2), annealed_space("irm", 1e2)


@algorithm("IB_ERM", _IB)
class IBERM(ERM):
    """Mean loss plus the variance of the features, from some step on."""

    def variant(self, step: int) -> tuple[str, ...]:
        """Return whether ``step`` is before, at or after the change of each weight."""
        return (phase(step, self.hparams["ib_penalty_anneal_iters"]),)

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the mean loss plus penalties; at a change, reset the optimizer."""
        if "at" in self.variant(step):
            self.reset()
        features = self.featurizer(x.flatten(0, 1))
        logits = self.classifier(features)
        nll = domain_losses(logits, y).mean()
        variance = features.view(*y.shape, -1).var(dim=1).mean()
        weight = 0.0 if self.variant(step)[0] == "before" else self.hparams["ib_lambda"]
        loss = nll + weight * variance
        return {"loss": loss, "nll": self.logged(nll, loss), "IB_penalty": variance}

    def logged(self, nll: Tensor, loss: Tensor) -> Tensor:
        """Return the mean loss; with ``compat`` the whole objective, which DomainBed logs."""
        return loss if self.task.compat else nll


@algorithm("IB_IRM", {**_IRM, **_IB})
class IBIRM(IBERM):
    """IRM with the variance of the features as another penalty."""

    def variant(self, step: int) -> tuple[str, ...]:
        """Return the phases of the variance's weight and of IRM's."""
        return (*super().variant(step), phase(step, self.hparams["irm_penalty_anneal_iters"]))

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the mean loss plus both penalties, of which IRM's has weight 1 at first."""
        variance_phase, irm_phase = self.variant(step)
        if "at" in (variance_phase, irm_phase):
            self.reset()
        features = self.featurizer(x.flatten(0, 1))
        logits = self.classifier(features)
        nll = domain_losses(logits, y).mean()
        penalty = scale_penalty(logits.view(*y.shape, -1), y)
        variance = features.view(*y.shape, -1).var(dim=1).mean()
        loss = nll + (1.0 if irm_phase == "before" else self.hparams["irm_lambda"]) * penalty
        loss = loss + (0.0 if variance_phase == "before" else self.hparams["ib_lambda"]) * variance
        nll = self.logged(nll, loss)
        return {"loss": loss, "nll": nll, "IRM_penalty": penalty, "IB_penalty": variance}
