"""LARS (You et al. 2017): momentum whose rate follows the size of each weight matrix."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

_MOMENTUM, _TRUST = 0.9, 0.001


class LARS(torch.optim.Optimizer):
    """Gradient descent with momentum, as DomainBed's ERM++ has it.

    The gradient of a matrix, with its weight decay, is scaled to a thousandth of the matrix's own
    norm. Vectors (biases, normalization) are neither scaled nor decayed.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, weight_decay: float) -> None:
        super().__init__(list(parameters), {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take one step; a GPU can record it. ``closure`` is not used."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    moving = self.state[parameter].setdefault(
                        "momentum", torch.zeros_like(parameter)
                    )
                    moving.mul_(_MOMENTUM).add_(_scaled(parameter, group["weight_decay"]))
                    parameter.sub_(group["lr"] * moving)


def _scaled(parameter: nn.Parameter, decay: float) -> Tensor:
    gradient = parameter.grad
    assert gradient is not None
    if parameter.ndim < 2:
        return gradient
    change = gradient + decay * parameter
    size, length = parameter.norm(), change.norm()
    ratio = _TRUST * size / length
    return change * torch.where((size > 0) & (length > 0), ratio, 1.0)
