"""The paper's learner: passes of Adam over minibatches instead of a solved problem."""

from __future__ import annotations

import torch
from torch import Tensor

from regraft.core.learner import Learner
from regraft.core.newton import Solution, log_probabilities, losses, minimax_newton
from regraft.core.surrogates import WeightedSample, stack_samples


class AdamLearner(Learner):
    """A learner that trains by Adam, starting from the last answer.

    Its answers carry the same duality gap as solved ones, measured but not enforced.
    """

    def __init__(
        self, *, ridge: float | Tensor, lr: float, epochs: int, batch: int, seed: int = 0
    ) -> None:
        super().__init__(ridge=ridge, tolerance=float("inf"))
        self._lr, self._epochs, self._batch = lr, epochs, batch
        self._generator = torch.Generator().manual_seed(seed)

    def respond(self, start: Tensor, mixture: Tensor | None = None) -> Solution:
        """Train from ``start`` on and measure the duality gap of the result."""
        samples, offsets = self.samples, self.offsets
        head = start.clone().requires_grad_()
        optimizer = torch.optim.Adam([head], self._lr)
        n = min(len(sample.Z) for sample in samples)
        for _ in range(self._epochs):
            orders = [self._shuffle(sample) for sample in samples]
            for i in range(max(1, n // self._batch)):
                rows = [order[i * self._batch : (i + 1) * self._batch] for order in orders]
                risks = [_minibatch_risk(s, head, r) for s, r in zip(samples, rows, strict=True)]
                values = torch.stack(risks) - offsets
                loss = values.max() + (self.ridge * head.square()).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return self._measure(head.detach())

    def _measure(self, head: Tensor) -> Solution:
        """Return ``head`` unchanged, with its gap under the best mixture of targets for it."""

        def measure(max_iterations: int, mixture: Tensor | None = None) -> Solution:
            return minimax_newton(
                *stack_samples(self.samples),
                ridge=self.ridge,
                start=head,
                offsets=self.offsets,
                mixture=mixture,
                max_iterations=max_iterations,
            )

        return measure(0, measure(1).mixture)

    def _shuffle(self, sample: WeightedSample) -> Tensor:
        order = torch.randperm(len(sample.Z), generator=self._generator)
        return order.to(sample.Z.device)


def _minibatch_risk(sample: WeightedSample, head: Tensor, rows: Tensor) -> Tensor:
    weight = sample.weight[rows]
    loss = losses(log_probabilities(sample.Z[rows], head), sample.y[rows])
    return weight @ loss / weight.sum()
