"""Rows whose hidden groups have known shares, for tests of streams."""

import numpy as np
from numpy.typing import NDArray

from regraft import CROClassifier

SHARES = (0.9, 0.8, 0.6)  # of the sources


def draw_rows(share: float, n: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw rows (n, 5) and labels; a column agrees with the label in a ``share`` of the rows."""
    rng = np.random.default_rng(seed)
    cause = rng.integers(2, size=n)
    y = cause ^ (rng.random(n) < 0.25)
    confounder = y ^ (rng.random(n) >= share)
    X = rng.standard_normal((n, 5))
    X[:, 0] += 2 * (cause - 0.5)
    X[:, 1] += 4 * (confounder - 0.5)
    return X, y


def fit_stream_model(shares: tuple[float, ...] = SHARES, n: int = 800) -> CROClassifier:
    """Fit a model to sources of these shares."""
    parts = [draw_rows(share, n, seed) for seed, share in enumerate(shares)]
    X, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    return CROClassifier().fit(X, y, np.repeat(range(len(shares)), n))
