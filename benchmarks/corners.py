"""Processor time of default fits in corners: many classes, many domains, many rows of two features.

``python benchmarks/corners.py [NAME ...]`` prints one line a corner.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time

import numpy as np

from regraft import CROClassifier

# Rows, features, classes and sources.
CORNERS = {
    "200 classes": (20_000, 50, 200, 2),
    "1,000 classes": (20_000, 20, 1000, 2),
    "100,000 x 2": (100_000, 2, 10, 2),
    "500 domains": (20_000, 20, 2, 500),
}


def draw(n: int, d: int, classes: int, sources: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw a cause, and a hidden factor whose tie to the label differs by source."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n) % classes)
    s = rng.permutation(np.arange(n) % sources)
    tie = 0.55 + 0.4 * s / max(sources - 1, 1)
    u = np.where(rng.random(n) < tie, y, rng.integers(classes, size=n))
    codes = rng.normal(size=(2, classes, d))
    return codes[0, y] + 1.5 * codes[1, u] + rng.normal(size=(n, d)), y, s


def main() -> None:
    for name in sys.argv[1:] or CORNERS:
        X, y, s = draw(*CORNERS[name])
        start = time.process_time()
        model = CROClassifier().fit(X, y, sample_domain=s)
        seconds = time.process_time() - start
        head = "ERM's" if model.certificate_.reason else "the game's"
        print(
            f"{name}: {seconds:.1f} s of one core, risk {model.certificate_.risk_bound:.3f}, {head}"
        )


if __name__ == "__main__":
    main()
