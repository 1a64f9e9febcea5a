"""Colored MNIST as a dataset of the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.bench.datasets import colours as colored_mnist
from regraft.bench.datasets.base import Environment, RegisteredDataset, dataset
from regraft.bench.datasets.mnist import load_mnist


class Coloured(Environment):
    """Images that are painted when they are asked for."""

    def __init__(self, images: colored_mnist.Environment) -> None:
        self._images, self.y = images, images.y

    def inputs(self, rows: Tensor, augmentation: int | None = None) -> Tensor:
        """(b, 2, 28, 28)."""
        return self._images.inputs(rows)


@dataset("ColoredMNIST")
class ColoredMNIST(RegisteredDataset):
    """Three environments in which the colour predicts the label, with another strength in each."""

    env_names = colored_mnist.ENVIRONMENTS
    input_shape = (2, 28, 28)
    n_classes = 2
    group = "small images"

    def environments(self, seed: int, device: torch.device) -> Sequence[Environment]:
        """DomainBed's draw after seeding with ``seed``."""
        drawn = colored_mnist.make_environments(*self._mnist, seed)
        return [Coloured(environment.to(device)) for environment in drawn]

    def check(self) -> None:
        """Read MNIST, perhaps after downloading it."""
        _ = self._mnist

    @cached_property
    def _mnist(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        return load_mnist(self.data)
