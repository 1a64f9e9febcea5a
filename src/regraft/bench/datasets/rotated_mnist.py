"""Rotated MNIST as DomainBed makes it: every environment turns its digits by another angle."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.bench.datasets.base import Environment, dataset
from regraft.bench.datasets.mnist import DigitDataset

ANGLES = (0, 15, 30, 45, 60, 75)  # degrees
_CHUNK = 2048  # images turned at once: about 100 MB


class Rotated(Environment):
    """Grey images that have been turned already."""

    def __init__(self, images: Tensor, y: Tensor) -> None:
        self._images, self.y = images, y

    def inputs(self, rows: Tensor, augmentation: int | None = None) -> Tensor:
        """Return images (b, 1, 28, 28), in [0, 1]."""
        return self._images[rows, None].to(torch.float32) / 255


@dataset("RotatedMNIST")
class RotatedMNIST(DigitDataset):
    """Six environments of digits, turned by 0 to 75 degrees."""

    env_names = tuple(map(str, ANGLES))
    input_shape = (1, 28, 28)
    n_classes = 10

    def environments(self, seed: int, device: torch.device) -> Sequence[Environment]:
        """Return DomainBed's deal after seeding with ``seed``."""
        return make_environments(*self._mnist, seed, device)


def make_environments(
    images: NDArray[np.uint8], digits: NDArray[np.uint8], seed: int, device: torch.device
) -> list[Rotated]:
    """Deal ``images`` (n, h, w) and ``digits`` (n,) to the environments and turn the images."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(digits), generator=generator).numpy()

    def environment(index: int) -> Rotated:
        rows = order[index :: len(ANGLES)]
        upright = torch.from_numpy(images[rows]).to(device)
        chunks = (upright[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK))
        turned = torch.cat([rotate(chunk, ANGLES[index]) for chunk in chunks])
        return Rotated(turned, torch.from_numpy(digits[rows]).long().to(device))

    return [environment(index) for index in range(len(ANGLES))]


def rotate(images: Tensor, degrees: float) -> Tensor:
    """Turn ``images`` (n, h, w), uint8, counter-clockwise about their centre.

    Pixels are bilinear in their four neighbours and rounded down, and black where they come from
    outside the image. All of it is computed in double precision and in Pillow's order, for the
    same grey levels.
    """
    _, height, width = images.shape
    angle = -math.radians(degrees % 360)
    cosine, sine = round(math.cos(angle), 15), round(math.sin(angle), 15)
    shift_x = cosine * (-width / 2) + sine * (-height / 2) + width / 2
    shift_y = -sine * (-width / 2) + cosine * (-height / 2) + height / 2
    # Pixels are squares of side 1: the first one's centre is (0.5, 0.5).
    down = torch.arange(height, dtype=torch.float64)[:, None] + 0.5
    right = torch.arange(width, dtype=torch.float64)[None, :] + 0.5
    # Where the pixel that ends up here was before.
    x = cosine * right + sine * down + shift_x
    y = -sine * right + cosine * down + shift_y
    is_inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)

    left, top = (x - 0.5).floor(), (y - 0.5).floor()
    columns = [(left + step).clamp(0, width - 1).long() for step in (0, 1)]
    rows = [(top + step).clamp(0, height - 1).long() for step in (0, 1)]
    share_right = (x - 0.5 - left).to(images.device)
    share_down = (y - 0.5 - top).to(images.device)

    def row(index: Tensor) -> Tensor:
        first, second = (images[:, index, column].double() for column in columns)
        return first + (second - first) * share_right

    upper = row(rows[0])
    turned = upper + (row(rows[1]) - upper) * share_down
    return (turned * is_inside.to(images.device)).to(torch.uint8)
