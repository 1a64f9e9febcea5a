"""Global search for the largest value of a smooth function in a ball."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from torch import Tensor

_CIRCLE_DIRECTIONS = 32
_RANDOM_DIRECTIONS = 64
_ValueAndGradient = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]
_BestOf = Callable[[NDArray[np.float64]], int]  # the number of the best of points (B, m)


def maximize_in_ball(
    value_and_gradient: Callable[[Tensor], tuple[float, Tensor]],
    origin: Tensor,
    radius: float,
    known: Sequence[Tensor] = (),
    glance: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, float]:
    """Return the best point found within ``radius`` of ``origin``, and the value there.

    ``origin`` (m,) is zero. Candidates cover the ball at all scales, and local search refines the
    best of them. The value is at least as large as at ``origin`` and at the points ``known``.
    ``glance`` maps points (B, m) to rough values (B,) at once, by which candidates are chosen.
    """
    m = len(origin)

    def like(z: NDArray[np.float64]) -> Tensor:
        return torch.as_tensor(z, dtype=origin.dtype, device=origin.device)

    seen: dict[bytes, tuple[float, NDArray[np.float64]]] = {}

    def negated(z: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        if (key := z.tobytes()) not in seen:
            value, gradient = value_and_gradient(like(z))
            seen[key] = -value, -gradient.cpu().double().numpy()
        return seen[key]

    def best_of(points: NDArray[np.float64]) -> int:
        if glance is None:
            return int(np.argmin([negated(z)[0] for z in points]))
        return int(glance(like(points)).argmax())

    points = [np.zeros(m), *(z.cpu().double().numpy() for z in known)]
    if m and radius:
        search = _line_candidates if m == 1 else _ball_candidates
        points += search(negated, best_of, m, radius)
    best = min(points, key=lambda z: negated(z)[0])
    return like(best), -negated(best)[0]


def _radii(radius: float, factor: float) -> NDArray[np.float64]:
    """Return radii from ``radius`` down by ``factor`` to a quarter of a nat, at least three."""
    steps = max(3, 1 + math.ceil(math.log(max(4 * radius, 1.0), factor)))
    scales: NDArray[np.float64] = radius * factor ** -np.arange(steps, dtype=np.float64)
    return scales


def _line_candidates(
    negated: _ValueAndGradient, best_of: _BestOf, m: int, radius: float
) -> list[NDArray[np.float64]]:
    """Return the best point of a grid on the line, and the peak that it stands by."""
    positive = _radii(radius, math.sqrt(2))
    grid = np.concatenate([-positive, [0.0], positive[::-1]])
    best = best_of(grid[:, None])

    def slope(z: float) -> float:
        return float(negated(np.array([z]))[1][0])

    step = 1 if slope(grid[best]) < 0 else -1
    at = best
    while 0 <= at + step < len(grid) and step * slope(grid[at + step]) < 0:
        at += step  # all rows may rise where a sample has its peak
    peak = grid[at]
    if 0 <= at + step < len(grid):
        low, high = sorted((peak, grid[at + step]))
        peak = brentq(slope, low, high, xtol=1e-4 * (high - low))
    return [np.array([grid[best]]), np.array([peak])]


def _ball_candidates(
    negated: _ValueAndGradient, best_of: _BestOf, m: int, radius: float
) -> list[NDArray[np.float64]]:
    """Return the best point on each of several shells, and where an ascent from it ends."""
    directions, points = _unit_vectors(m), list[NDArray[np.float64]]()
    for shell in _radii(radius, 2.0):
        start = shell * directions[best_of(shell * directions)]
        answer = minimize(
            negated,
            start,
            jac=True,
            method="SLSQP",
            constraints={
                "type": "ineq",
                "fun": lambda z: radius**2 - z @ z,
                "jac": lambda z: -2 * z,
            },
            options={"ftol": 1e-8, "maxiter": 50},
        )
        # The constraint holds to the solver's precision only.
        shrink = min(1.0, radius / max(float(np.linalg.norm(answer.x)), 1e-300))
        points += [start, shrink * answer.x]
    return points


def _unit_vectors(m: int) -> NDArray[np.float64]:
    """Return unit vectors that cover the sphere: evenly on a circle, else spread at random."""
    if m == 2:
        angles = np.linspace(0, 2 * np.pi, _CIRCLE_DIRECTIONS, endpoint=False)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    spread = np.random.default_rng(0).standard_normal((_RANDOM_DIRECTIONS, m))
    directions = np.concatenate([np.eye(m), -np.eye(m), spread])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions
