"""The two parts of an environment, drawn as DomainBed draws them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

HOLDOUT = 0.2  # share of the rows that are held out


def split(n: int, seed: int, fraction: float = HOLDOUT) -> tuple[Tensor, Tensor]:
    """Return the rows of an environment of ``n`` to train on, and those held out, as int64."""
    rows = np.arange(n, dtype=np.int64)
    np.random.RandomState(seed).shuffle(rows)
    n_out = int(n * fraction)
    return torch.from_numpy(rows[n_out:]), torch.from_numpy(rows[:n_out])
