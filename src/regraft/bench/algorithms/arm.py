"""Adaptive risk minimization: a network that sees a context made of its batch's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regraft.bench.algorithms.base import Task, algorithm
from regraft.bench.algorithms.batch_means import EVALUATION_BATCH, group_means
from regraft.bench.algorithms.erm import ERM, domain_losses
from regraft.bench.protocol.spaces import Group, Space, constant

_WIDTH = 64
_VECTOR_CONTEXT = 8  # numbers of context that are appended to a vector


def arm_space(group: Group) -> Space:
    """Return the space of the batch size, which is also the size of a context's support."""
    return {"batch_size": constant(8)} if group == "images" else {}


@algorithm("ARM", arm_space)
class ARM(ERM):
    """Network whose inputs include a context: the mean over rows of the same domain.

    DomainBed leaves the context network out of its optimizer, so that it keeps its initial weights;
    a task with ``compat`` does too.
    """

    def __init__(self, task: Task, hparams: Mapping[str, Any], generator: torch.Generator) -> None:
        context, n_context = make_context(task.input_shape)
        shape = (task.input_shape[0] + n_context, *task.input_shape[1:])
        super().__init__(replace(task, input_shape=shape), hparams, generator)
        self.task = task
        self.context = context.requires_grad_(not task.compat)
        self.reset()

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (n, C), with supports as large as in training if they divide the batch.

        Otherwise the support is the whole evaluated batch.
        """
        size = self.hparams["batch_size"]
        return self.adapt(x, size if EVALUATION_BATCH % size == 0 else EVALUATION_BATCH)

    def losses(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss (K,) in each domain, whose minibatch is one support."""
        return domain_losses(self.adapt(x.flatten(0, 1), y.shape[1]), y)

    def adapt(self, x: Tensor, size: int) -> Tensor:
        """Return logits (n, C) in the context of supports of ``size`` rows."""
        return super().predict(torch.cat([x, group_means(self.context(x), size)], dim=1))


def make_context(input_shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    """Return the context network, and the number of channels or vector entries that it adds."""
    if len(input_shape) == 1:
        layers = nn.Linear(input_shape[0], _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _VECTOR_CONTEXT)
        return nn.Sequential(*layers), _VECTOR_CONTEXT
    hidden: list[nn.Module] = []
    for n_in in (input_shape[0], _WIDTH):
        convolution = nn.Conv2d(n_in, _WIDTH, kernel_size=5, padding=2)
        hidden += [convolution, nn.BatchNorm2d(_WIDTH), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Conv2d(_WIDTH, 1, kernel_size=5, padding=2)), 1
