"""The learner: the head that minimizes the worst risk (or regret) over the targets so far."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regraft.core.newton import Solution, log_probabilities, losses, minimax_newton
from regraft.core.surrogates import Sample, together


class Learner:
    """A growing collection of surrogate targets and the best answer to it.

    Column ridges (k,) or one number. Whether the answer minimizes the worst risk or the worst
    regret is for the targets' constants to say.
    """

    def __init__(self, *, ridge: float | Tensor, tolerance: float = 1e-4) -> None:
        self._ridge = ridge
        self.tolerance = tolerance  # the duality gap that an answer should reach
        self._samples: list[Sample] = []

    def add(self, sample: Sample) -> None:
        """Add a target."""
        self._samples.append(sample)

    @property
    def offsets(self) -> Tensor:
        """(t,) what is subtracted from each target's risk."""
        return self._samples[0].weight.new_tensor([sample.offset for sample in self._samples])

    def respond(self, start: Tensor, previous: Solution | None = None) -> Solution:
        """Solve ``min_W max_i R_i(W) - offset_i + Σ ridge·W²``, warm-started at ``start``."""
        mixture = None
        if previous is not None:
            missing = len(self._samples) - len(previous.mixture)
            mixture = torch.cat([previous.mixture, previous.mixture.new_zeros(missing)])
        return self._solve(self._samples, start, mixture, self.offsets)

    def _solve(
        self,
        samples: Sequence[Sample],
        start: Tensor,
        mixture: Tensor | None = None,
        offsets: Tensor | None = None,
    ) -> Solution:
        Z, y, weights = together(samples)
        return minimax_newton(
            Z,
            y,
            weights,
            ridge=self._ridge,
            start=start,
            mixture=mixture,
            offsets=offsets,
            tolerance=self.tolerance,
        )


class AdamLearner(Learner):
    """The paper's learner: passes of Adam over minibatches, from the last answer on.

    Its answers carry the same duality gap as the solved ones, measured and not enforced.
    """

    def __init__(
        self, *, ridge: float | Tensor, lr: float, epochs: int, batch: int, seed: int = 0
    ) -> None:
        super().__init__(ridge=ridge, tolerance=float("inf"))
        self._lr, self._epochs, self._batch = lr, epochs, batch
        self._generator = torch.Generator().manual_seed(seed)

    def _solve(
        self,
        samples: Sequence[Sample],
        start: Tensor,
        mixture: Tensor | None = None,
        offsets: Tensor | None = None,
    ) -> Solution:
        head = start.clone().requires_grad_()
        optimizer = torch.optim.Adam([head], self._lr)
        n = min(len(sample.Z) for sample in samples)
        for _ in range(self._epochs):
            orders = [self._order(sample) for sample in samples]
            for i in range(max(1, n // self._batch)):
                rows = [order[i * self._batch : (i + 1) * self._batch] for order in orders]
                risks = [_minibatch_risk(s, head, r) for s, r in zip(samples, rows, strict=True)]
                values = torch.stack(risks) - (0.0 if offsets is None else offsets)
                loss = values.max() + (self._ridge * head.square()).sum()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        return self._judge(samples, head.detach(), offsets)

    def _judge(self, samples: Sequence[Sample], head: Tensor, offsets: Tensor | None) -> Solution:
        """The head as it is, with the gap under the best mixture of targets for it."""

        def judge(max_iterations: int, mixture: Tensor | None = None) -> Solution:
            return minimax_newton(
                *together(samples),
                ridge=self._ridge,
                start=head,
                offsets=offsets,
                mixture=mixture,
                max_iterations=max_iterations,
            )

        return judge(0, judge(1).mixture)

    def _order(self, sample: Sample) -> Tensor:
        order = torch.randperm(len(sample.Z), generator=self._generator)
        return order.to(sample.Z.device)


def _minibatch_risk(sample: Sample, head: Tensor, rows: Tensor) -> Tensor:
    weight = sample.weight[rows]
    loss = losses(log_probabilities(sample.Z[rows], head), sample.y[rows])
    return weight @ loss / weight.sum()
