"""The base of datasets that are made from MNIST."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from regraft.bench.datasets.base import RegisteredDataset
from regraft.bench.datasets.mnist import load_mnist


class DigitDataset(RegisteredDataset):
    """Small images of digits, made from MNIST, which is read when it is first needed."""

    group = "small images"

    def check(self) -> None:
        """Read MNIST, perhaps after downloading it."""
        _ = self._mnist

    @cached_property
    def _mnist(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        return load_mnist(self.data)
