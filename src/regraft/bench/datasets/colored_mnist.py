"""Colored MNIST as DomainBed makes it: a colour that predicts the label, for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.bench.datasets.base import Environment, dataset
from regraft.bench.datasets.mnist import DigitDataset

ENVIRONMENTS = ("+90%", "+80%", "-90%")
FLIPS = (0.1, 0.2, 0.9)  # P(colour != label) in each environment
LABEL_NOISE = 0.25


@dataclass(frozen=True)
class ColouredDigits(Environment):
    """The images of one environment, uncoloured; ``inputs`` paints those that are asked for."""

    images: Tensor  # (n, 28, 28) uint8
    y: Tensor  # (n,) int64, 0 or 1
    colour: Tensor  # (n,) int64, the channel that is not black

    def to(self, device: str | torch.device) -> ColouredDigits:
        """Return the same environment on ``device``."""
        return ColouredDigits(self.images.to(device), self.y.to(device), self.colour.to(device))

    def inputs(self, rows: Tensor, augmentation: int | None = None) -> Tensor:
        """Return the images of ``rows`` (b,) in colour: (b, 2, 28, 28), float32 in [0, 1]."""
        # Products, not masks: a mask's size is known on the host only after waiting for the
        # device, which a CUDA graph forbids.
        colour = self.colour[rows]
        channels = torch.stack([1 - colour, colour], dim=1).to(torch.float32)
        grey = self.images[rows].to(torch.float32) / 255
        return grey[:, None] * channels[:, :, None, None]


@dataset("ColoredMNIST")
class ColoredMNIST(DigitDataset):
    """Three environments in which the colour predicts the label, with another strength in each."""

    env_names = ENVIRONMENTS
    input_shape = (2, 28, 28)
    n_classes = 2

    def environments(self, seed: int, device: torch.device) -> Sequence[Environment]:
        """Return DomainBed's draw after seeding with ``seed``."""
        return [drawn.to(device) for drawn in make_environments(*self._mnist, seed)]


def make_environments(
    images: NDArray[np.uint8], digits: NDArray[np.uint8], seed: int
) -> tuple[ColouredDigits, ColouredDigits, ColouredDigits]:
    """Deal ``images`` (n, 28, 28) to the three ``ENVIRONMENTS`` and draw labels and colours.

    The draws are those of DomainBed after ``torch.manual_seed(seed)``; torch's global generator
    is left alone.
    """
    if images.shape != (len(digits), 28, 28):
        raise ValueError(
            f"images have shape {images.shape}, not ({len(digits)}, 28, 28): pass one image of "
            "28 x 28 pixels per digit."
        )
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(digits), generator=generator).numpy()

    def environment(index: int) -> ColouredDigits:
        rows = order[index :: len(FLIPS)]
        small = torch.from_numpy(digits[rows] < 5)
        y = small ^ (torch.rand(len(rows), generator=generator) < LABEL_NOISE)
        colour = y ^ (torch.rand(len(rows), generator=generator) < FLIPS[index])
        return ColouredDigits(torch.from_numpy(images[rows]), y.long(), colour.long())

    # One after another: each continues where the last one left the generator.
    return environment(0), environment(1), environment(2)
