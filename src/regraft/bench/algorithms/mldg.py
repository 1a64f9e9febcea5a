"""Meta-learning: a step on some domains should also lower the loss in others."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from regraft.bench.algorithms.base import algorithm
from regraft.bench.algorithms.erm import ERM, MAIN
from regraft.bench.protocol.spaces import choice, ten_to

_EPS = 1e-8  # Adam's


@algorithm("MLDG", {"mldg_beta": ten_to(1.0, -1, 1), "n_meta_test": choice(2, [1, 2])})
class MLDG(ERM):
    """First-order meta-learning: gradients in a domain and, one step later, in another domain.

    With ``compat`` two of DomainBed's faults stay. Where ``n_meta_test`` leaves no domain to step
    on, the gradient is zero and the network keeps its initial weights, but for weight decay. And
    running statistics of batch normalization are never updated.
    """

    def update(self, step: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Take a step down the losses of random pairs, summed and divided by the domain count."""
        order = torch.rand(len(x), generator=self.generator, device=x.device).argsort()
        x, y = x[order], y[order]
        network = nn.Sequential(self.featurizer, self.classifier)
        buffers = dict(network.named_buffers())
        if self.task.compat:
            buffers = {name: buffer.clone() for name, buffer in buffers.items()}

        def loss_in(domain: int, values: Mapping[str, Tensor]) -> Tensor:
            logits = functional_call(network, {**values, **buffers}, x[domain])
            return functional.cross_entropy(logits, y[domain])

        parameters = dict(network.named_parameters())
        beta = self.hparams["mldg_beta"]
        total, gradient = x.new_zeros(()), [torch.zeros_like(p) for p in parameters.values()]
        for train, test in meta_pairs(len(x), self.hparams["n_meta_test"], self.task.compat):
            inner = loss_in(train, parameters)
            inner_gradient = torch.autograd.grad(inner, list(parameters.values()))
            stepped = self._after_one_step(parameters, inner_gradient)
            outer = loss_in(test, stepped)
            outer_gradient = torch.autograd.grad(outer, list(stepped.values()))
            total += (inner + beta * outer).detach() / len(x)
            for whole, first, second in zip(gradient, inner_gradient, outer_gradient, strict=True):
                whole += (first + beta * second) / len(x)
        for parameter, value in zip(parameters.values(), gradient, strict=True):
            parameter.grad = value
        self.optimizers[MAIN].step()
        return {"loss": total}

    def _after_one_step(
        self, parameters: Mapping[str, Tensor], gradient: tuple[Tensor, ...]
    ) -> dict[str, Tensor]:
        """Return the parameters after the first step of a new Adam, whose moments are g and g²."""
        stepped = {}
        for (name, value), slope in zip(parameters.items(), gradient, strict=True):
            g = slope + self.hparams["weight_decay"] * value.detach()
            moved = value.detach() - self.hparams["lr"] * g / (g.abs() + _EPS)
            stepped[name] = moved.requires_grad_()
        return stepped


def meta_pairs(n_domains: int, n_meta_test: int, compat: bool) -> list[tuple[int, int]]:
    """Return pairs of a domain to step on and one to test in; the last ``n_meta_test`` are tests.

    At least one domain is stepped on, even if it must be its own test, unless ``compat``.
    """
    n_train = n_domains - n_meta_test if compat else max(n_domains - n_meta_test, 1)
    return list(zip(range(n_train), cycle(range(n_train, n_domains) or [0]), strict=False))
