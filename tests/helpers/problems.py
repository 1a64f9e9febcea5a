"""Small confounded problems that every test may share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.core.domains import check_domains
from regraft.core.heads import SourceHeads, fit_source_heads
from tests.helpers.tables import write_columns


def normal(seed: int, *shape: int) -> Tensor:
    """Standard normal entries, a function of the seed alone."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def with_constant(X: Tensor) -> Tensor:
    """Rows [x, 1]."""
    return torch.cat([X, X.new_ones(len(X), 1)], dim=1)


@dataclass(frozen=True)
class Problem:
    X: NDArray[np.float64]
    y: NDArray[np.int64]
    domain: NDArray[np.str_]

    @property
    def data(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.str_]]:
        return self.X, self.y, self.domain

    @property
    def sources(self) -> SourceHeads:
        """The heads fitted to these rows."""
        return fit_source_heads(check_domains(*self.data))

    def take(self, rows: Any) -> Problem:
        return Problem(self.X[rows], self.y[rows], self.domain[rows])


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


def write_table(path: Path, problem: Problem, rows: int | None = None) -> Path:
    """Write the first ``rows`` of a problem as a table with the columns f0, ..., label, domain."""
    columns = {f"f{i}": column for i, column in enumerate(problem.X.T)}
    columns |= {"label": problem.y, "domain": problem.domain}
    return write_columns(path, {name: column[:rows] for name, column in columns.items()})


def write_npz(path: Path, problem: Problem) -> Path:
    """Write a problem as arrays X, label and domain."""
    np.savez(path, X=problem.X, label=problem.y, domain=problem.domain)
    return path


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
