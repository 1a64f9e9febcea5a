"""The learner: the head that minimizes the worst risk (or regret) over the targets so far."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regraft.adversary import Objective
from regraft.newton import Solution, minimax_newton
from regraft.samples import Sample, together


class Learner:
    """A growing collection of surrogate targets and the best answer to it."""

    def __init__(self, *, ridge: float | Tensor, objective: Objective, tolerance: float) -> None:
        self._ridge, self._objective, self._tolerance = ridge, objective, tolerance
        self._samples: list[Sample] = []
        self._offsets: list[float] = []

    def add(self, sample: Sample, offset: float) -> None:
        """Add a target, and what to subtract from its risk."""
        self._samples.append(sample)
        self._offsets.append(offset)

    @property
    def offsets(self) -> Tensor:
        """(t,) what is subtracted from each target's risk."""
        return self._samples[0].Z.new_tensor(self._offsets)

    def offset(self, sample: Sample, start: Tensor) -> float:
        """Under regret, the smallest risk plus ridge of any head on a target; under risk, 0."""
        return 0.0 if self._objective == "risk" else self._solve([sample], start).value

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
            tolerance=self._tolerance,
        )
