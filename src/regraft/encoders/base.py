"""The interfaces of encoders of images and of texts, and image encoders that are networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regraft.encoders.weights import fingerprint

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")

# Images that go through a network together on a CPU. The activations of more do not stay in its
# caches, which takes several times as long; the number is fixed because results depend on it.
_TOGETHER = 4


class Encoder(ABC, Generic[T]):
    """An encoder of blocks of inputs: the same bits for the same block on the same machine.

    The features of an input may differ in rounding with the block that it is in.
    """

    name: str  # with which it is loaded again
    n_features: int
    preprocessing: Mapping[str, Any]  # what is done to an input, for JSON
    fingerprint: str  # sha256 over the weights
    weights = ""  # name of the file that they were read from, if they are not the encoder's own
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
    """An encoder of ``block_rows`` texts at a time."""

    # The number is fixed for an encoder and a kind of device, because results depend on it.
    block_rows = 1024


class NetworkEncoder(ImageEncoder):
    """A frozen ``network`` from images (b, c, h, w) to features (b, n_features).

    Its input is (pixel - mean) / deviation, with a mean and a deviation for each of its c
    channels, which are the first of red, green and blue.
    """

    def __init__(
        self,
        name: str,
        network: nn.Module,
        n_features: int,
        device: str,
        *,
        mean: Sequence[float],
        deviation: Sequence[float],
        preparation: Mapping[str, Any],
    ) -> None:
        self.name, self.n_features = name, n_features
        self.preprocessing = {**preparation, "mean": list(mean), "deviation": list(deviation)}
        self.fingerprint = fingerprint(network)
        self._device = torch.device(device)
        self.device = self._device.type
        prepared = self.prepare(network.eval()).to(self._device)
        self._network: nn.Module = prepared.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._mean, self._deviation = (
            torch.tensor(values, dtype=torch.float32, device=self._device)[:, None, None]
            for values in (mean, deviation)
        )

    def prepare(self, network: nn.Module) -> nn.Module:
        """Return the network to compute with; it may be made faster, if it does the same."""
        return network

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Compute features (b, n_features) of pixels (b, h, w, 3)."""
        x = torch.from_numpy(pixels)
        together = _TOGETHER if self.device == "cpu" else len(x)
        parts = [x[first : first + together] for first in range(0, len(x), together)]
        # Not the fastest algorithms of cuDNN, but the same ones each time.
        with (
            torch.inference_mode(),
            torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=True),
        ):
            features: NDArray[np.float32] = torch.cat(list(map(self._forward, parts))).cpu().numpy()
        return features

    def _forward(self, pixels: Tensor) -> Tensor:
        # The permutation of (b, h, w, c) is channels_last already.
        x = pixels.to(self._device).permute(0, 3, 1, 2)[:, : len(self._mean)]
        features: Tensor = self._network((x - self._mean) / self._deviation)
        return features.to(torch.float32)
