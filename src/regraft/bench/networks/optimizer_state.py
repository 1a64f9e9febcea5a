"""State of an optimizer as named tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return all that later steps depend on, named by the parameter's index and the quantity."""
    return {
        f"{index}.{key}": value
        for index, values in optimizer.state_dict()["state"].items()
        for key, value in values.items()
    }


def load_optimizer_state(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Continue from what ``optimizer_state`` returned."""
    parameters = parameters_of_optimizer(optimizer)
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, key = name.split(".")
        state.setdefault(int(index), {})[key] = _like(parameters[int(index)], value)
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def parameters_of_optimizer(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    """Return all parameters that an optimizer may change."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def _like(parameter: nn.Parameter, value: Tensor) -> Tensor:
    """Return ``value`` with its numbers in the same memory order as those of ``parameter``."""
    if value.shape != parameter.shape:
        return value
    return torch.empty_like(parameter, requires_grad=False).copy_(value)
