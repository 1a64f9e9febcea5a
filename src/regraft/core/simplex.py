"""The maximum of a concave quadratic function on a simplex of few vertices."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

_FEW_VERTICES = 4  # of a simplex, whose faces can all be tried


def maximize_on_simplex(curvature: Tensor, values: Tensor) -> Tensor:
    """Return ``argmax q·values - q·curvature·q / 2`` over the simplex, for small t."""
    if len(values) == 1:
        return torch.ones_like(values)
    matrix: NDArray[np.float64] = curvature.detach().cpu().double().numpy()
    matrix = (matrix + matrix.T) / 2
    linear = values.detach().cpu().double().numpy()
    linear = linear - linear.max()
    scale = max(float(np.abs(matrix).max()), float(np.abs(linear).max()), 1e-300)
    matrix, linear = matrix / scale, linear / scale
    if len(linear) <= _FEW_VERTICES:
        return values.new_tensor(_best_on_faces(matrix, linear).tolist())
    best = minimize(
        lambda q: 0.5 * q @ matrix @ q - q @ linear,
        np.full(len(linear), 1.0 / len(linear)),
        jac=lambda q: matrix @ q - linear,
        bounds=[(0.0, 1.0)] * len(linear),
        constraints={"type": "eq", "fun": lambda q: q.sum() - 1, "jac": lambda q: np.ones_like(q)},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 200},
    )
    q = np.clip(best.x, 0.0, None)
    return torch.as_tensor(q / q.sum(), dtype=values.dtype, device=values.device)


def _best_on_faces(matrix: NDArray[np.float64], linear: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the same for few vertices: the best of the stationary points of all faces."""
    t = len(linear)
    best, highest = np.zeros(t), -np.inf
    for size in range(1, t + 1):
        system, right = np.ones((size + 1, size + 1)), np.ones(size + 1)
        system[-1, -1] = 0.0
        for face in map(list, combinations(range(t), size)):
            system[:-1, :-1], right[:-1] = matrix[np.ix_(face, face)], linear[face]
            try:
                q = np.linalg.solve(system, right)[:-1]
            except np.linalg.LinAlgError:  # flat: a smaller face is as good
                continue
            value = q @ linear[face] - 0.5 * q @ system[:-1, :-1] @ q
            if value > highest and (q >= 0).all():
                highest = float(value)
                best = np.zeros(t)
                best[face] = q / q.sum()
    return best
