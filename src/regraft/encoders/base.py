"""The interfaces of encoders of images and of texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")


class Encoder(ABC, Generic[T]):
    """An encoder of blocks of inputs: the same bits for the same block on the same machine.

    The features of an input may differ in rounding with the block that it is in.
    """

    name: str  # with which it is loaded again
    n_features: int
    preprocessing: Mapping[str, Any]  # what is done to an input, for JSON
    fingerprint: str  # sha256 over the weights
    device: str  # the type of what computes: cpu, cuda, …

    @abstractmethod
    def encode(self, inputs: T, /) -> NDArray[np.float32]:
        """Compute features (b, n_features) of a block of inputs, in their order."""


class ImageEncoder(Encoder[NDArray[np.uint8]]):
    """An encoder of pixels (b, h, w, 3)."""

    @abstractmethod
    def pixels(self, image: Image) -> NDArray[np.uint8]:
        """Prepare an image for the network: (h, w, 3), the same shape for all; safe in threads."""


class TextEncoder(Encoder[Sequence[str]]):
    """An encoder of about a thousand texts at a time."""
