"""EQRM and RDM: the distribution of losses over domains, and over rows of domains."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from regraft.bench.algorithms.alignment import kernel_sums
from regraft.bench.algorithms.annealed_penalty import phase
from regraft.bench.algorithms.base import algorithm
from regraft.bench.algorithms.erm import ERM, MAIN, OBJECTIVE, domain_losses
from regraft.bench.protocol.spaces import Group, Space, constant, ten_to, uniform, whole_uniform

_HALVINGS = 32  # of the interval in which the quantile lies
_RISK_GAMMAS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0)  # of RDM's kernels


class Restarted(ERM):
    """Algorithms whose optimizer starts over, with another rate, when their objective changes."""

    def restart(self, lr: float) -> None:
        """Create a fresh optimizer with this learning rate."""
        parameters = [*self.featurizer.parameters(), *self.classifier.parameters()]
        decay = self.hparams["weight_decay"]
        self.optimizers[MAIN] = self.adam(parameters, lr=lr, weight_decay=decay)


@algorithm(
    "EQRM",
    {
        "eqrm_quantile": uniform(0.75, 0.5, 0.99),
        "eqrm_burnin_iters": ten_to(2500.0, 2.5, 3.5),
        "eqrm_lr": ten_to(1e-6, -7, -5),
    },
)
class EQRM(Restarted):
    """Mean loss at first, then a quantile of the domains' losses, smoothed by Gaussian kernels.

    The first step of the second part is drawn as a fraction, which no step equals: DomainBed then
    never restarts its optimizer, and a task with ``compat`` does not either.
    """

    def variant(self, step: int) -> str:
        """Return whether ``step`` is before, at or after the change of objective."""
        change = self.hparams["eqrm_burnin_iters"]
        if self.task.compat:
            return phase(step, change)
        return phase(step, -int(-change // 1))

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the mean of the losses, or their quantile."""
        variant = self.variant(step)
        losses = domain_losses(self.through(self.predict, x), y)
        if variant == "at":
            self.restart(self.hparams["eqrm_lr"])
        if variant == "before" or len(losses) == 1:
            return {"loss": losses.mean()}
        return {"loss": kernel_quantile(losses.double(), self.hparams["eqrm_quantile"])}


def kernel_quantile(values: Tensor, share: float) -> Tensor:
    """Return the quantile of a Gaussian kernel estimate of the density of ``values`` (K,).

    It is found by halving an interval; its gradient is that of the interval's ends.
    """
    width = 1.06 * values.std() * len(values) ** -0.2
    shift = width * torch.special.ndtri(torch.full_like(width, share))
    low, high = values.min() + shift, values.max() + shift
    middle: Tensor = 0.5 * (low + high)
    for _ in range(_HALVINGS):
        is_beyond = torch.special.ndtr((middle - values) / width).mean() > share
        low, high = torch.where(is_beyond, low, middle), torch.where(is_beyond, middle, high)
        middle = 0.5 * (low + high)
    return middle


def rdm_space(group: Group) -> Space:
    """Return RDM's space on datasets that have no ranges of their own."""
    images = {"batch_size": whole_uniform(88, 70, 100)} if group == "images" else {}
    return {
        "rdm_lambda": uniform(5.0, 0.1, 10.0),
        "rdm_penalty_anneal_iters": whole_uniform(1500, 800, 2700),
        "variance_weight": uniform(0.004, 0.001, 0.007),
        "rdm_lr": uniform(1.5e-5, 8e-6, 2e-5),
        **images,
    }


_FEW_ROWS = {"batch_size": whole_uniform(40, 30, 60)}
_NO_VARIANCE = {"variance_weight": constant(0.0)}
_BY_DATASET: dict[str, Space] = {
    "PACS": {"rdm_lambda": uniform(5.0, 1.0, 10.0)},
    "TerraIncognita": {"rdm_lambda": uniform(5.0, 1.0, 10.0), **_FEW_ROWS, **_NO_VARIANCE},
    "OfficeHome": _NO_VARIANCE,
    "DomainNet": {
        "rdm_lambda": uniform(0.5, 0.1, 1.0),
        "rdm_penalty_anneal_iters": whole_uniform(2400, 1500, 3000),
        **_FEW_ROWS,
        **_NO_VARIANCE,
    },
}


@algorithm("RDM", rdm_space, by_dataset=_BY_DATASET)
class RDM(Restarted):
    """Mean loss plus the distance of the worst domain's losses by row from those of all domains."""

    def variant(self, step: int) -> str:
        """Return whether ``step`` is before, at or after the change of weights."""
        return phase(step, self.hparams["rdm_penalty_anneal_iters"])

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the losses and penalties; at the change, restart the optimizer."""
        variant = self.variant(step)
        if variant == "at":
            self.restart(self.hparams["rdm_lr"])
        logits = self.predict(x.flatten(0, 1))
        by_row = functional.cross_entropy(logits, y.flatten(), reduction="none").view(y.shape)
        loss = by_row.mean(dim=1).mean()
        worst = by_row.index_select(0, by_row.mean(dim=1).argmax()[None]).flatten()
        everything = by_row.flatten()
        kernels = kernel_sums(torch.cat([worst, everything])[:, None], _RISK_GAMMAS)
        n, m = len(worst), len(everything)
        signs = torch.cat([worst.new_full((n,), 1 / n), worst.new_full((m,), -1 / m)])
        matching, variance = signs @ kernels @ signs, everything.var() + worst.var()
        weight = 0.0 if variant == "before" else self.hparams["rdm_lambda"]
        of_variance = 0.0 if variant == "before" else self.hparams["variance_weight"]
        total = loss + weight * matching + of_variance * variance
        return {
            OBJECTIVE: total,
            "total_loss": total,
            "erm_loss": loss,
            "matching_penalty": matching,
            "variance_penalty": variance,
        }
