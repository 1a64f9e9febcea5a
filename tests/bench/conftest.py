"""Digits that a small network tells apart at once."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

Digits = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def draw_blobs(n: int = 600, seed: int = 0) -> Digits:
    """Images (n, 28, 28) with a bright square whose place is the digit's own, and noise."""
    rng = np.random.default_rng(seed)
    digits = rng.integers(0, 10, size=n, dtype=np.uint8)
    images = rng.integers(0, 40, size=(n, 28, 28), dtype=np.uint8)
    for image, digit in zip(images, digits, strict=True):
        top, left = 2 + 9 * (digit // 4), 2 + 6 * (digit % 4)
        image[top : top + 6, left : left + 5] += 180
    return images, digits


@pytest.fixture(scope="session")
def blobs() -> Digits:
    return draw_blobs()
