"""The learner: the head that minimizes the worst risk (or regret) over the targets so far."""

from __future__ import annotations

import torch
from torch import Tensor

from regraft.core.newton import Solution, WeightedRisks, minimize_largest_risk, risks_in_memory
from regraft.core.surrogates import WeightedSample, stack_samples


class Learner:
    """A growing collection of surrogate targets, and the best answer to all of them.

    ``ridge`` is one number or one for each column (k,). Whether the answer minimizes the worst
    risk or the worst regret depends on the constants of the targets.
    """

    def __init__(self, *, ridge: float | Tensor, tolerance: float = 1e-4) -> None:
        self.ridge = ridge
        self.tolerance = tolerance  # the duality gap that an answer should reach
        self.samples: list[WeightedSample] = []

    def add(self, sample: WeightedSample) -> None:
        """Add a target."""
        self.samples.append(sample)

    @property
    def offsets(self) -> Tensor:
        """Number (t,) that is subtracted from the risk of each target."""
        return self.samples[0].weight.new_tensor([sample.offset for sample in self.samples])

    def respond(self, start: Tensor, mixture: Tensor | None = None) -> Solution:
        """Solve ``min_W max_i R_i(W) - offset_i + Σ ridge·W²``, warm-started at ``start``.

        ``mixture`` are the dual weights of an answer to the first of the targets.
        """
        if mixture is not None:
            mixture = torch.cat([mixture, mixture.new_zeros(len(self.samples) - len(mixture))])
        return minimize_largest_risk(
            self._risks(start),
            ridge=self.ridge,
            start=start,
            mixture=mixture,
            offsets=self.offsets,
            tolerance=self.tolerance,
        )

    def _risks(self, start: Tensor) -> WeightedRisks:
        """Return the risks of the targets so far, for heads like ``start``."""
        return risks_in_memory(*stack_samples(self.samples), start, self.ridge)
