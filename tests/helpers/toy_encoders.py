"""Encoders that need no weights: what they give depends on the whole block, as real ones may."""

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from regraft.encoders.base import ImageEncoder, TextEncoder

SIZE = 4


def write_images(
    root: Path, domains: Sequence[str] = "ab", classes: Sequence[str] = "xy", n: int = 3
) -> Path:
    """``n`` small images for every class of every domain; each has a colour of its own."""
    for i, domain in enumerate(domains):
        for j, label in enumerate(classes):
            folder = root / domain / label
            folder.mkdir(parents=True)
            for k in range(n):
                colour = (40 * i + 7, 90 * j + k // 200, k % 200)
                Image.new("RGB", (6, 5), colour).save(folder / f"{k:04}.png")
    return root


def contents(folder: Path) -> dict[str, bytes]:
    """What the files of a bank hold, without the hidden ones: the lock, and where inputs are."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name[0] != "."}


class ToyImages(ImageEncoder):
    """Mean colours, and the mean of the block; ``facts`` are attributes that differ."""

    n_features = 4
    preprocessing: dict[str, Any] = {"size": SIZE, "mean": (0.5, 0.5, 0.5)}
    name, fingerprint, device = "toy", "f" * 64, "cpu"

    def __init__(self, *, fail_at: int = -1, delay: float = 0, **facts: Any) -> None:
        vars(self).update(facts)
        self._fail_at, self._delay = fail_at, delay
        self.calls = 0

    def pixels(self, image: Any) -> NDArray[np.uint8]:
        return np.asarray(image.convert("RGB").resize((SIZE, SIZE)))

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        if self.calls == self._fail_at:
            raise RuntimeError("out of memory")
        self.calls += 1
        time.sleep(self._delay)
        colours = pixels.mean((1, 2), dtype=np.float64) / 255
        block = np.full((len(pixels), 1), colours.mean())
        return np.hstack([colours, block]).astype(np.float32)


class ToyTexts(TextEncoder):
    """Digest, length, and the number of texts in the block."""

    n_features = 3
    preprocessing: dict[str, Any] = {"tokens": 16}
    name = "toy"
    fingerprint = "e" * 64
    device = "cpu"

    def __init__(self, fail_at: int = -1) -> None:
        self._fail_at = fail_at
        self.calls = 0

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.calls == self._fail_at:
            raise RuntimeError("out of memory")
        self.calls += 1
        digests = [hashlib.sha256(text.encode()).digest()[0] for text in texts]
        rows = [(d, len(t), len(texts)) for d, t in zip(digests, texts, strict=True)]
        return np.array(rows, np.float32)
