"""Linear maps of a model on the features and a constant."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def apply_maps(maps: NDArray[np.float64], X: Tensor) -> Tensor:
    """Return the values (n, ...) of linear maps (..., d + 1) on ``[x, 1]`` of rows (n, d)."""
    flat = torch.from_numpy(maps.reshape(-1, maps.shape[-1]))
    values = X @ flat[:, :-1].T + flat[:, -1]
    return values.reshape(len(X), *maps.shape[:-1])
