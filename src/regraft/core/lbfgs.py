"""Limited-memory BFGS on a batch of independent smooth convex problems."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_MEMORY = 8
_ARMIJO = 1e-4
_MAX_HALVINGS = 20
_MAX_ITERATIONS = 200


def minimize_batch(
    value_and_gradient: Callable[[Tensor], tuple[Tensor, Tensor]],
    start: Tensor,
    precondition: Callable[[Tensor], Tensor],
    *,
    tolerance: float,
) -> Tensor:
    """Minimize B functions at once: (B, p) -> (B, p).

    ``value_and_gradient`` maps (B, p) to values (B,) and gradients (B, p); ``precondition``
    applies an approximate inverse Hessian. A problem is finished when half its squared gradient
    in that metric, an estimate of the excess value, is at most ``tolerance``.
    """
    x = start
    value, gradient = value_and_gradient(x)
    steps: list[Tensor] = []
    changes: list[Tensor] = []
    for _ in range(_MAX_ITERATIONS):
        active = (gradient * precondition(gradient)).sum(dim=1) / 2 > tolerance
        if not bool(active.any()):
            break
        direction = -_two_loop(gradient, steps, changes, precondition)
        slope = (direction * gradient).sum(dim=1)
        size = active.to(x.dtype)
        for _ in range(_MAX_HALVINGS):
            candidate = x + size.unsqueeze(1) * direction
            new_value, new_gradient = value_and_gradient(candidate)
            short = new_value > value + _ARMIJO * size * slope
            if not bool((short & active).any()):
                break
            size = torch.where(short, size / 2, size)
        else:  # rounding: no step along this direction improves these problems
            candidate = torch.where(short.unsqueeze(1), x, candidate)
            new_value, new_gradient = value_and_gradient(candidate)
            if torch.equal(candidate, x):
                break
        steps.append(candidate - x)
        changes.append(new_gradient - gradient)
        del steps[:-_MEMORY], changes[:-_MEMORY]
        x, value, gradient = candidate, new_value, new_gradient
    return x


def _two_loop(
    gradient: Tensor,
    steps: list[Tensor],
    changes: list[Tensor],
    precondition: Callable[[Tensor], Tensor],
) -> Tensor:
    """Return the quasi-Newton product; pairs without curvature (finished problems) are ignored."""
    inverses = []
    for s, c in zip(steps, changes, strict=True):
        product = (s * c).sum(dim=1, keepdim=True)
        usable = product > 1e-12 * s.square().sum(dim=1, keepdim=True)
        inverses.append(torch.where(usable, 1 / product, torch.zeros_like(product)))
    q = gradient
    alphas = []
    for s, c, inverse in zip(reversed(steps), reversed(changes), reversed(inverses), strict=True):
        alpha = inverse * (s * q).sum(dim=1, keepdim=True)
        q = q - alpha * c
        alphas.append(alpha)
    q = precondition(q)
    if changes:  # the preconditioner is right up to a factor: that of the last change
        size = inverses[-1] * (changes[-1] * precondition(changes[-1])).sum(dim=1, keepdim=True)
        q = torch.where(size > 0, q / size, q)
    for s, c, inverse, alpha in zip(steps, changes, inverses, reversed(alphas), strict=True):
        q = q + s * (alpha - inverse * (c * q).sum(dim=1, keepdim=True))
    return q
