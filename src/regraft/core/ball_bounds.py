"""Certified bounds of log Σ_c exp(base_c + z · moves_c) over a ball of z, for many rows at once.

``base`` (B, C) and ``moves`` (B, C, m) belong to B problems with small C and m.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regraft.core.decompositions import eigh

_CORNERS = 64  # of a polygon around the circle
_LEVELS = 8  # of the length that dimensions beyond the second share with the first two
_TOLERANCE = 1e-7  # nats
_MAX_STEPS = 50
_MAX_HALVINGS = 30
_ARMIJO = 1e-4


def greatest_log_sum(base: Tensor, moves: Tensor, radius: float) -> Tensor:
    """Return an upper bound (B,) of the largest value; exact in one dimension.

    The function is convex, so no value in a polygon exceeds the largest one at its corners.
    Dimensions beyond the second are replaced by one, along which every term rises by the length of
    its move there.
    """
    m = moves.shape[2]
    if m > 2:
        _, axes = eigh(moves.mT @ moves)
        moves = moves @ axes.flip(2)
        rest = torch.linalg.vector_norm(moves[..., 2:], dim=2, keepdim=True)
        moves = torch.cat([moves[..., :2], rest], dim=2)
    greatest = torch.logsumexp(base, dim=1)
    for corner in _corners(min(m, 3)).to(moves) * radius:
        greatest = torch.maximum(greatest, torch.logsumexp(base + moves @ corner, dim=1))
    return greatest


def least_log_sum(base: Tensor, moves: Tensor, radius: float) -> Tensor:
    """Return a lower bound (B,) of the least value, at most 1e-7 too low where Newton converges.

    The function f is convex, so ``f(z) + g · (w - z)`` is below it, and in the ball no less than
    ``f(z) - g · z - radius |g|``, whatever z is.
    """
    if moves.shape[2] == 0 or radius == 0:
        return torch.logsumexp(base, dim=1)
    z = moves.new_zeros((len(moves), moves.shape[2]))
    best = torch.full_like(base[:, 0], -math.inf)
    for _ in range(_MAX_STEPS):
        logits = _logits(base, moves, z)
        value, p = torch.logsumexp(logits, dim=1), torch.softmax(logits, dim=1).unsqueeze(1)
        gradient = (p @ moves).squeeze(1)
        slope = (gradient * z).sum(dim=1) + radius * torch.linalg.vector_norm(gradient, dim=1)
        best = torch.maximum(best, value - slope)
        if float((value - best).max()) <= _TOLERANCE:
            break
        curvature = moves.mT @ (p.mT * moves) - gradient.unsqueeze(2) * gradient.unsqueeze(1)
        step = _least_in_ball(curvature, gradient, z, radius) - z
        z = z + _step_length(base, moves, z, step, value, (gradient * step).sum(dim=1)) * step
    return best


def _logits(base: Tensor, moves: Tensor, z: Tensor) -> Tensor:
    return base + (moves @ z.unsqueeze(2)).squeeze(2)


def _corners(m: int) -> Tensor:
    """Return the corners (V, m) of a body around the unit ball, or around its upper half."""
    if m < 2:
        return torch.tensor([[-1.0], [1.0]], dtype=torch.float64)[:, :m]
    angles = 2 * math.pi * torch.arange(_CORNERS, dtype=torch.float64) / _CORNERS
    circle = torch.stack([angles.cos(), angles.sin()], dim=1) / math.cos(math.pi / _CORNERS)
    if m == 2:
        return circle
    # A quarter of a circle, in (length in the plane, height), inside a polygon with these corners.
    half = math.pi / 4 / _LEVELS
    middle = half * (2 * torch.arange(_LEVELS, dtype=torch.float64) + 1)
    flat, height = middle.cos() / math.cos(half), middle.sin() / math.cos(half)
    ends = torch.tensor([1.0, 0.0], dtype=torch.float64)
    flat, height = torch.cat([ends, flat]), torch.cat([ends.flip(0), height])
    wide = (flat[:, None, None] * circle).flatten(0, 1)
    return torch.cat([wide, height.repeat_interleave(_CORNERS).unsqueeze(1)], dim=1)


def _least_in_ball(curvature: Tensor, gradient: Tensor, z: Tensor, radius: float) -> Tensor:
    """Return where (B, m) in the ball the quadratic model at ``z`` is least."""
    values, vectors = eigh(curvature)
    eigenvalues, axes = torch.clamp_min(values, 0), torch.as_tensor(vectors)
    slope = (curvature @ z.unsqueeze(2) - gradient.unsqueeze(2)).squeeze(2)
    slope = (slope.unsqueeze(1) @ axes).squeeze(1)
    tiny = torch.finfo(slope.dtype).tiny

    def point(damping: Tensor) -> Tensor:
        return slope / (eigenvalues + damping.unsqueeze(1)).clamp_min(tiny)

    # With the larger damping the point is in the ball, with the smaller one it may be outside.
    high = torch.linalg.vector_norm(slope, dim=1) / radius
    low = torch.zeros_like(high)
    for _ in range(60):
        middle = (low + high) / 2
        inside = torch.linalg.vector_norm(point(middle), dim=1) <= radius
        low, high = torch.where(inside, low, middle), torch.where(inside, middle, high)
    return (axes @ point(high).unsqueeze(2)).squeeze(2)


def _step_length(
    base: Tensor, moves: Tensor, z: Tensor, step: Tensor, value: Tensor, slope: Tensor
) -> Tensor:
    """Return the first of the lengths 1, 1/2, 1/4, … (B, 1) that lowers the value enough."""
    length = torch.ones_like(value)
    for _ in range(_MAX_HALVINGS):
        reached = torch.logsumexp(_logits(base, moves, z + length.unsqueeze(1) * step), dim=1)
        short = reached <= value + _ARMIJO * length * slope + 1e-14 * value.abs()
        if bool(short.all()):
            break
        length = torch.where(short, length, length / 2)
    return length.unsqueeze(1)
