"""Convolution, ReLU and group normalization merged, with less traffic to a GPU's memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.networks.half import pixel_means_in_half
from regraft.bench.networks.relu_norm import ReluGroupNorm


def fuse(network: nn.Sequential, *, in_half: bool = False) -> Fused:
    """Merge every convolution, ReLU and group normalization in a row into one module.

    The merged network has the parameters of ``network`` itself. ``in_half`` lets a GPU take
    products in half precision, if the network ends in a mean over the pixels.
    """
    layers = list(network)
    merged: list[nn.Module] = []
    while layers:
        match layers:
            case [nn.Conv2d() as convolution, nn.ReLU(), nn.GroupNorm() as norm, *rest]:
                merged.append(ConvReluNorm(convolution, norm))
            case [layer, *rest]:
                merged.append(layer)
        layers = rest
    return Fused(*merged, in_half=in_half)


class Fused(nn.Sequential):
    """Layers that take turns; on a GPU with triton the merged ones are two kernels each."""

    def __init__(self, *layers: nn.Module, in_half: bool = False) -> None:
        super().__init__(*layers)
        self.in_half = in_half
        self.is_differentiated_twice = False  # which the kernels cannot be

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layers make of ``x``."""
        is_fused = x.is_cuda and x.dtype == torch.float32 and _has_triton()
        if not is_fused or (self.is_differentiated_twice and torch.is_grad_enabled()):
            plain: Tensor = super().forward(x)  # type: ignore[no-untyped-call]
            return plain
        # Half precision has as many digits as TensorFloat-32, which the user may have forbidden.
        if self.in_half and torch.backends.cudnn.allow_tf32:
            return pixel_means_in_half(x, self.merged())
        for layer in self:
            x = layer.fused(x) if isinstance(layer, ConvReluNorm) else layer(x)
        return x

    def merged(self) -> Iterator[ConvReluNorm]:
        """Yield the layers that are merged."""
        return (layer for layer in self if isinstance(layer, ConvReluNorm))


class ConvReluNorm(nn.Module):
    """Convolution, ReLU and group normalization."""

    def __init__(self, convolution: nn.Conv2d, norm: nn.GroupNorm) -> None:
        super().__init__()
        self.convolution, self.norm = convolution, norm

    def forward(self, x: Tensor) -> Tensor:
        """Return ``norm(relu(convolution(x)))``."""
        normalized: Tensor = self.norm(functional.relu(self.convolution(x)))
        return normalized

    def fused(self, x: Tensor) -> Tensor:
        """Return the same by one kernel after the convolution; it can be differentiated once."""
        conv, norm = self.convolution, self.norm
        z = functional.conv2d(x, conv.weight, None, conv.stride, conv.padding)
        out: Tensor = ReluGroupNorm.apply(  # type: ignore[no-untyped-call]
            z, conv.bias, norm.weight, norm.bias, norm.num_groups, norm.eps
        )
        return out


@cache
def _has_triton() -> bool:
    """Return whether triton is installed, as with torch's builds for NVIDIA's GPUs on Linux."""
    return find_spec("triton") is not None
