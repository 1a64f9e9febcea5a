"""DomainBed's two datasets to try things with: noise in place of images, and labels by chance."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regraft.bench.datasets.base import Environment, RegisteredDataset, dataset

_ROWS = 16  # of an environment


class Noise(Environment):
    """Rows that are kept as they were drawn."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self._x, self.y = x, y

    def inputs(self, rows: Tensor, augmentation: int | None = None) -> Tensor:
        """Return the rows, which nothing augments."""
        return self._x[rows]


class Drawn(RegisteredDataset):
    """Three environments of 16 rows without a signal, drawn anew for every seed."""

    env_names = ("0", "1", "2")
    n_classes = 2

    def environments(self, seed: int, device: torch.device) -> Sequence[Environment]:
        """Return the numbers that DomainBed draws after seeding with ``seed``."""
        generator = torch.Generator().manual_seed(seed)
        made = []
        for _ in self.env_names:
            x = torch.randn(_ROWS, *self.input_shape, generator=generator)
            y = torch.randint(self.n_classes, (_ROWS,), generator=generator)
            made.append(Noise(x.to(device), y.to(device)))
        return made

    def check(self) -> None:
        """Do nothing: there is no file to read."""


@dataset("Debug28")
class Debug28(Drawn):
    """Noise of the size of digits."""

    group = "small images"
    input_shape = (3, 28, 28)


@dataset("Debug224")
class Debug224(Drawn):
    """Noise of the size of photographs."""

    group = "images"
    input_shape = (3, 224, 224)
