"""CAD and CondCAD: features whose nearest others come from other domains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.algorithms.base import Task, algorithm
from regraft.bench.algorithms.erm import ERM, OBJECTIVE
from regraft.bench.protocol.spaces import choice, constant

_BASE_TEMPERATURE = 0.07
_PROJECTED = 128
_SPACE = {
    "lmbda": choice(0.1, [1e-4, 1e-3, 1e-2, 1e-1, 1, 1e1, 1e2]),
    "temperature": choice(0.1, [0.05, 0.1]),
    "is_normalized": constant(False),
    "is_project": constant(False),
    "is_flipped": constant(True),
}


@algorithm("CAD", _SPACE)
class CAD(ERM):
    """Loss plus a contrastive one, low if a row's likely neighbours are of other domains."""

    is_conditional = False  # whether only neighbours of the row's class count

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        d = self.n_features
        self.project: nn.Module = nn.Identity()
        if hparams["is_project"]:
            self.project = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, _PROJECTED))
        self.reset()

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return both losses and their weighted sum."""
        features = self.featurizer(x.flatten(0, 1))
        loss = functional.cross_entropy(self.classifier(features), y.flatten())
        bottleneck = self.bottleneck(features, y)
        total = loss + self.hparams["lmbda"] * bottleneck
        return {OBJECTIVE: total, "clf_loss": loss, "bn_loss": bottleneck, "total_loss": total}

    def bottleneck(self, features: Tensor, y: Tensor) -> Tensor:
        """Return the mean contrastive loss over rows that have neighbours of both kinds."""
        labels = y.flatten()
        domains = torch.arange(len(y), device=y.device).repeat_interleave(y.shape[1])
        others = ~torch.eye(len(labels), dtype=torch.bool, device=y.device)
        same_class = (labels[:, None] == labels) & others
        same_domain = domains[:, None] == domains
        rows = self.project(features)
        if self.hparams["is_normalized"]:
            rows = functional.normalize(rows, dim=1)
        temperature = self.hparams["temperature"]
        closeness = rows @ rows.T / temperature * others
        flipped = self.hparams["is_flipped"]
        wanted = ~same_domain if flipped else same_domain
        among = others
        if self.is_conditional:
            wanted, among = wanted & same_class, same_class
        counted = (wanted if self.is_conditional else same_class).any(dim=1) & wanted.any(dim=1)
        # Rows that do not count take everything, so that nothing infinite reaches the gradient.
        wanted, among = wanted | ~counted[:, None], among | ~counted[:, None]
        losses = _log_sum(closeness, wanted) - _log_sum(closeness, among)
        scale = temperature / _BASE_TEMPERATURE * (-1 if flipped else 1)
        mean: Tensor = scale * (losses * counted).sum() / counted.sum().clamp_min(1)
        return mean


@algorithm("CondCAD", _SPACE)
class CondCAD(CAD):
    """CAD among the rows of one class."""

    is_conditional = True


def _log_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Return the logarithms (n,) of the sums of exponentials of the entries in ``mask`` (n, n)."""
    return values.masked_fill(~mask, -torch.inf).logsumexp(dim=1)
