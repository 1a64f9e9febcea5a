"""ANDMask, SANDMask and IGA: what the gradients of the domains have in common; and SD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regraft.bench.algorithms.base import Task, algorithm
from regraft.bench.algorithms.erm import ERM, MAIN, OBJECTIVE, domain_losses
from regraft.bench.networks.domainbed import is_plain
from regraft.bench.networks.fused import Fused
from regraft.bench.protocol.spaces import ten_to, uniform

_TINY = 1e-17  # what stands for no number


@algorithm("SD", {"sd_reg": ten_to(0.1, -5, -1)})
class SD(ERM):
    """Spectral decoupling: logits are kept small, so that no feature starves the others."""

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the loss, the mean square of the logits, and their weighted sum."""
        logits = self.predict(x.flatten(0, 1))
        loss = functional.cross_entropy(logits, y.flatten())
        penalty = logits.square().mean()
        return {
            OBJECTIVE: loss + self.hparams["sd_reg"] * penalty,
            "loss": loss,
            "penalty": penalty,
        }


class Masked(ERM):
    """Mean gradient, of which only entries on which domains agree are kept and scaled up."""

    def mask(self, gradients: Tensor, mean: Tensor) -> Tensor:
        """Return what is kept, from 0 to 1, of entries with ``gradients`` (K, ...) of a mean."""
        raise NotImplementedError

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Take a step down the masked gradient."""
        losses = losses_apart(self, x, y)
        parameters = [*self.featurizer.parameters(), *self.classifier.parameters()]
        by_domain = [torch.autograd.grad(loss, parameters, retain_graph=True) for loss in losses]
        for parameter, *gradients in zip(parameters, *by_domain, strict=True):
            stacked = torch.stack(gradients)
            mean = stacked.mean(dim=0)
            mask = self.mask(stacked, mean)
            kept = mask * mean / (1e-10 + mask.mean())
            # In the parameter's order of memory, which Adam's kernel asks for.
            parameter.grad = torch.empty_like(parameter).copy_(kept)
        self.optimizers[MAIN].step()
        return {"loss": torch.stack(losses).mean().detach()}


@algorithm("ANDMask", {"tau": uniform(1.0, 0.5, 1.0)})
class ANDMask(Masked):
    """Entries count if a share of the domains, at least ``tau``, agrees on their sign."""

    def mask(self, gradients: Tensor, mean: Tensor) -> Tensor:
        """Return ones and zeros."""
        agreement = gradients.sign().mean(dim=0).abs()
        return agreement.ge(self.hparams["tau"]).to(gradients)


@algorithm("SANDMask", {"tau": uniform(1.0, 0.0, 1.0), "k": ten_to(10.0, -3, 5)})
class SANDMask(Masked):
    """Entries count the more, the more domains agree on their sign and the less they vary.

    With the default ``tau`` of 1, which is DomainBed's, none can agree enough: nothing is learnt.
    """

    def mask(self, gradients: Tensor, mean: Tensor) -> Tensor:
        """Return shares from 0 to 1."""
        one = torch.full_like(gradients[0], _TINY)
        # Many times as fast as torch's own variance over few entries that lie far apart.
        squares = (gradients - mean).square().sum(dim=0)
        variance = squares / (len(gradients) - 1) if len(gradients) > 1 else one
        excess = gradients.sign().mean(dim=0).abs() - self.hparams["tau"]
        shares: Tensor = (self.hparams["k"] / variance * excess).tanh().clamp_min(0)
        return shares.nan_to_num(nan=_TINY)


@algorithm("IGA", {"penalty": ten_to(1000.0, 1, 5)})
class IGA(ERM):
    """Mean loss plus the squared distances of the domains' gradients from their mean."""

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        if isinstance(self.featurizer, Fused):
            self.featurizer.is_differentiated_twice = True

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the loss, the penalty through gradients of the gradients, and their sum."""
        losses = losses_apart(self, x, y)
        parameters = [*self.featurizer.parameters(), *self.classifier.parameters()]
        by_domain = [torch.autograd.grad(loss, parameters, create_graph=True) for loss in losses]
        penalty = x.new_zeros(())
        for gradients in zip(*by_domain, strict=True):
            stacked = torch.stack(gradients)
            penalty = penalty + (stacked - stacked.detach().mean(dim=0)).square().sum()
        loss = torch.stack(losses).mean()
        return {
            OBJECTIVE: loss + self.hparams["penalty"] * penalty,
            "loss": loss,
            "penalty": penalty,
        }


def losses_apart(algorithm: ERM, x: Tensor, y: Tensor) -> list[Tensor]:
    """Return the mean loss of each domain; where it can be, its gradient costs its own rows only.

    It can where domains pass through the network one by one, or rows have nothing to do with one
    another in it.
    """
    if algorithm.task.per_domain or is_plain(algorithm.featurizer):
        return [
            functional.cross_entropy(algorithm.predict(rows), labels)
            for rows, labels in zip(x, y, strict=True)
        ]
    return list(domain_losses(algorithm.predict(x.flatten(0, 1)), y))
