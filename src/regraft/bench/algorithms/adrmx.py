"""ADRMX: features of the class less features of the domain, and the two mixed anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.algorithms.base import Task, algorithm
from regraft.bench.algorithms.dann import DISCRIMINATOR, NETWORK, TurnTaking
from regraft.bench.networks.domainbed import make_classifier, make_featurizer, mlp
from regraft.bench.protocol.spaces import Group, Space, choice, constant, whole_choice

_TEMPERATURE, _IN_DOMAIN, _FLOOR = 0.07, 0.5, 1e-5


def adrmx_space(group: Group) -> Space:
    """Return the space, of which DomainBed searches the rate and the depth only."""
    if group == "images":
        rate = choice(3e-5, [2e-5, 3e-5, 4e-5, 5e-5])
    else:
        rate = choice(3e-3, [5e-4, 1e-3, 2e-3, 3e-3])
    return {
        "cnt_lambda": constant(1.0),
        "dclf_lambda": constant(1.0),
        "disc_lambda": constant(0.75),
        "rmxd_lambda": constant(1.0),
        "d_steps_per_g_step": constant(2),
        "beta1": constant(0.5),
        "mlp_width": constant(256),
        "mlp_depth": whole_choice(9, [8, 9, 10]),
        "mlp_dropout": constant(0.0),
        "lr": rate,
    }


@algorithm("ADRMX", adrmx_space)
class ADRMX(TurnTaking):
    """Two featurizers, of class and domain; their difference should not tell the domain.

    Pairs of rows that are mixed share a class. DomainBed takes their numbers within the class for
    numbers within the batch; a task with ``compat`` does too.
    """

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        made = [
            make_featurizer(task.input_shape, hparams, generator, compat=task.compat)
            for _ in range(2)
        ]
        (self.featurizer, d), (self.of_domain, _) = made
        self.discriminator = mlp(d, task.n_domains, hparams, generator)
        deep = {**hparams, "nonlinear_classifier": True}
        self.classifier = make_classifier(d, task.n_classes, deep)
        self.final_classifier = make_classifier(d, task.n_classes, deep)
        self.domain_classifier = make_classifier(d, task.n_domains, deep)
        network: list[nn.Module] = [self.featurizer, self.of_domain]
        network += [self.classifier, self.final_classifier, self.domain_classifier]
        modules: dict[str, list[nn.Module]] = {
            NETWORK: network,
            DISCRIMINATOR: [self.discriminator],
        }
        for name, parts in modules.items():
            self.optimizers[name] = self.adam(
                nn.ModuleList(parts).parameters(),
                lr=hparams["lr"],
                betas=(hparams["beta1"], 0.9),
            )

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Take a step of the discriminator alone, or of everything else."""
        n_domains, n = y.shape
        domains = torch.arange(n_domains, device=y.device).repeat_interleave(n)
        x, y = x.flatten(0, 1), y.flatten()
        with torch.set_grad_enabled(self.variant(step) == NETWORK):
            features, of_domain = self.featurizer(x), self.of_domain(x)
            rest = features - of_domain
        found = functional.cross_entropy(self.discriminator(rest), domains)
        if self.variant(step) == DISCRIMINATOR:
            self.descend(found, DISCRIMINATOR)
            return {"loss_disc": found.detach()}
        losses = {
            "loss_cnt_int": contrast(features, y, domains),
            "loss_cnt_final": contrast(rest, y, domains),
            "loss_clf_int": functional.cross_entropy(self.classifier(features), y),
            "loss_clf_fin": functional.cross_entropy(self.final_classifier(rest), y),
            "loss_dmn": functional.cross_entropy(self.domain_classifier(of_domain), domains),
            "loss_remixed": self.remixed(rest, of_domain, y),
        }
        contrasts = losses["loss_cnt_int"] + losses["loss_cnt_final"]
        total = (
            losses["loss_clf_int"]
            + losses["loss_clf_fin"]
            + self.hparams["dclf_lambda"] * losses["loss_dmn"]
            + self.hparams["rmxd_lambda"] * losses["loss_remixed"]
            + self.hparams["cnt_lambda"] * contrasts
            - self.hparams["disc_lambda"] * found
        )
        self.descend(total, NETWORK)
        logged = {"loss_total": total, **losses, "loss_disc": found}
        return {name: value.detach() for name, value in logged.items()}

    def remixed(self, rest: Tensor, of_domain: Tensor, y: Tensor) -> Tensor:
        """Return the loss on one row of each class with the domain of another, over classes."""
        firsts, seconds, counted = [], [], []
        for label in range(self.task.n_classes):
            is_candidate = y == label
            counted.append(is_candidate.sum() > 1)
            if self.task.compat:
                is_candidate = torch.arange(len(y), device=y.device) < is_candidate.sum()
            draws = torch.rand(len(y), generator=self.generator, device=y.device)
            first, second = draws.masked_fill(~is_candidate, -1).topk(2).indices
            firsts.append(first)
            seconds.append(second)
        first, second = torch.stack(firsts), torch.stack(seconds)
        logits = self.classifier(rest[first] + of_domain[second])
        losses = functional.cross_entropy(logits, y[first], reduction="none")
        return (losses * torch.stack(counted)).sum() / self.task.n_classes


def contrast(features: Tensor, y: Tensor, domains: Tensor) -> Tensor:
    """Return how far rows (n, d) are from others of their class, compared with all others.

    Rows without another of their class are left out.
    """
    rows = functional.normalize(features, dim=1)
    weights = torch.where(domains[:, None] == domains, _IN_DOMAIN, 1 - _IN_DOMAIN)
    closeness = weights * (rows @ rows.T / _TEMPERATURE).exp()
    others = ~torch.eye(len(y), dtype=torch.bool, device=y.device)
    positive = (y[:, None] == y) & others
    shares = closeness / ((closeness * others).sum(dim=1, keepdim=True) + _FLOOR)
    logs = ((shares + _FLOOR).log() * positive).sum(dim=1) / positive.sum(dim=1).clamp_min(1)
    return -logs.sum() / (positive.any(dim=1).sum() + 1)
