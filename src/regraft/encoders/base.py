"""The interfaces of encoders of images and of texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image


class ImageEncoder(ABC):
    """An encoder of images: the same bits for the same batch on the same machine.

    The features of an image may differ in rounding with the batch that it is in.
    """

    name: str  # with which it is loaded again
    n_features: int
    preprocessing: Mapping[str, Any]  # what ``pixels`` and ``encode`` do to an image, for JSON
    fingerprint: str  # sha256 over the weights
    device: str  # the type of what computes: cpu, cuda, …

    @abstractmethod
    def pixels(self, image: Image) -> NDArray[np.uint8]:
        """Prepare an image for the network: (h, w, 3), the same shape for all; safe in threads."""

    @abstractmethod
    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Compute features (b, n_features) of pixels (b, h, w, 3)."""


class TextEncoder(ABC):
    """An encoder of texts: the same bits for the same block on the same machine.

    The features of a text may differ in rounding with the block that it is in.
    """

    name: str  # with which it is loaded again
    n_features: int
    preprocessing: Mapping[str, Any]  # what ``encode`` does to a text, for JSON
    fingerprint: str  # sha256 over the weights
    device: str  # the type of what computes: cpu, cuda, …

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Compute features (n, n_features) of about a thousand texts, in their order."""
