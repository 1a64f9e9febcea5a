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

    def add(self, weights: Tensor) -> None:
        """Add a target given by the weights of the rows (n,)."""
        self._weights.append(weights)

    def respond(self, start: Tensor, previous: Solution | None = None) -> Solution:
        """Solve ``min_W max_i R_i(W) - offset_i + Σ ridge·W²``, warm-started at ``start``.

        Under regret, ``offset_i`` is the smallest value any head reaches on target i alone.
        """
        if self._objective == "regret":
            for weights in self._weights[len(self._offsets) :]:
                self._offsets.append(self._solve([weights], start).value)
        mixture = None
        if previous is not None:
            missing = len(self._weights) - len(previous.mixture)
            mixture = torch.cat([previous.mixture, previous.mixture.new_zeros(missing)])
        return self._solve(self._weights, start, mixture, self._offsets)

    def _solve(
        self,
        weights: list[Tensor],
        start: Tensor,
        mixture: Tensor | None = None,
        offsets: list[float] | None = None,
    ) -> Solution:
        return minimax_newton(
            self._Z,
            self._y,
            torch.stack(weights),
            ridge=self._ridge,
            start=start,
            mixture=mixture,
            offsets=self._Z.new_tensor(offsets) if offsets else None,
            tolerance=self._tolerance,
        )
