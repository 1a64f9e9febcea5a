"""The learner: the head that minimizes the worst risk (or regret) over the targets so far."""

from __future__ import annotations

import torch
from torch import Tensor

from regraft.adversary import Objective
from regraft.newton import Solution, minimax_newton


class Learner:
    """A growing collection of surrogate targets and the best answer to it."""

    def __init__(
        self, Z: Tensor, y: Tensor, *, ridge: float | Tensor, objective: Objective, tolerance: float
    ) -> None:
        self._Z, self._y = Z, y
        self._ridge, self._objective, self._tolerance = ridge, objective, tolerance
        self._weights: list[Tensor] = []
        self._offsets: list[float] = []

    def add(self, weights: Tensor, offset: float) -> None:
        """Add a target: the weights of the rows (n,), and what to subtract from its risk."""
        self._weights.append(weights)
        self._offsets.append(offset)

    @property
    def offsets(self) -> Tensor:
        """(t,) what is subtracted from each target's risk."""
        return self._Z.new_tensor(self._offsets)

    def offset(self, weights: Tensor, start: Tensor) -> float:
        """Under regret, the smallest risk plus ridge of any head on a target; under risk, 0."""
        return 0.0 if self._objective == "risk" else self._solve([weights], start).value

    def respond(self, start: Tensor, previous: Solution | None = None) -> Solution:
        """Solve ``min_W max_i R_i(W) - offset_i + Σ ridge·W²``, warm-started at ``start``."""
        mixture = None
        if previous is not None:
            missing = len(self._weights) - len(previous.mixture)
            mixture = torch.cat([previous.mixture, previous.mixture.new_zeros(missing)])
        return self._solve(self._weights, start, mixture, self.offsets)

    def _solve(
        self,
        weights: list[Tensor],
        start: Tensor,
        mixture: Tensor | None = None,
        offsets: Tensor | None = None,
    ) -> Solution:
        return minimax_newton(
            self._Z,
            self._y,
            torch.stack(weights),
            ridge=self._ridge,
            start=start,
            mixture=mixture,
            offsets=offsets,
            tolerance=self._tolerance,
        )
