"""Small confounded problems that every test may share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import settings
from numpy.typing import NDArray

settings.register_profile("regraft", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("regraft")


@dataclass(frozen=True)
class Problem:
    X: NDArray[np.float64]
    y: NDArray[np.int64]
    domain: NDArray[np.str_]


def make_problem(
    seed: int = 0, n: int = 300, d: int = 6, classes: int = 2, sources: int = 2
) -> Problem:
    """A cause in one direction, a confounder in another whose strength differs by domain."""
    rng = np.random.default_rng(seed)
    blocks, labels, names = [], [], []
    codes = rng.standard_normal((2, classes, d))
    for s in range(sources):
        y = np.concatenate([np.arange(classes), rng.integers(classes, size=n - classes)])
        agrees = rng.random(n) < 0.95 - 0.15 * s
        confounder = np.where(agrees, y, rng.integers(classes, size=n))
        X = codes[0, y] + 1.5 * codes[1, confounder] + rng.standard_normal((n, d))
        blocks.append(X)
        labels.append(y)
        names.append(np.full(n, f"source {s}"))
    return Problem(np.concatenate(blocks), np.concatenate(labels), np.concatenate(names))


@pytest.fixture(scope="session")
def problem() -> Problem:
    return make_problem()


@pytest.fixture(scope="session")
def three_sources() -> Problem:
    return make_problem(seed=1, classes=3, sources=3)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    # Tests run in several processes; threads inside each would fight for the cores.
    torch.set_num_threads(1)
