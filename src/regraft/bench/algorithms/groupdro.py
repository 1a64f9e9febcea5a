"""Group distributionally robust optimization: the worst domain counts most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regraft.bench.algorithms.base import Task, algorithm
from regraft.bench.algorithms.erm import ERM, domain_losses
from regraft.bench.protocol.spaces import ten_to


@algorithm("GroupDRO", {"groupdro_eta": ten_to(1e-2, -3, -1)})
class GroupDRO(ERM):
    """Losses weighted by ``q`` (K,), which grows where the loss is large."""

    q: Tensor

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        super().__init__(task, hparams, generator)
        self.register_buffer("q", torch.ones(task.n_domains))

    def objective(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Update the weights, then return the weighted loss."""
        losses = domain_losses(self.through(self.predict, x), y)
        self.q.mul_((self.hparams["groupdro_eta"] * losses.detach()).exp())
        self.q.div_(self.q.sum())
        return {"loss": losses @ self.q}
