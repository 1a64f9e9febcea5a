"""Convolution, ReLU and group normalization merged, with less traffic to a GPU's memory."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from torch import Tensor, nn
from torch.nn import functional


def fuse(network: nn.Sequential) -> nn.Sequential:
    """Merge every convolution, ReLU and group normalization in a row into one module."""
    layers = list(network)
    merged: list[nn.Module] = []
    while layers:
        match layers:
            case [nn.Conv2d() as convolution, nn.ReLU(), nn.GroupNorm() as norm, *rest]:
                merged.append(ConvReluNorm(convolution, norm))
            case [layer, *rest]:
                merged.append(layer)
        layers = rest
    return nn.Sequential(*merged)


class ConvReluNorm(nn.Module):
    """Convolution, ReLU and group normalization; one kernel after the first, where triton is."""

    def __init__(self, convolution: nn.Conv2d, norm: nn.GroupNorm) -> None:
        super().__init__()
        self.convolution, self.norm = convolution, norm
        self.is_fused = True  # False for gradients of gradients, which the kernel does not give

    def forward(self, x: Tensor) -> Tensor:
        """Return ``norm(relu(convolution(x)))``."""
        conv, norm = self.convolution, self.norm
        if not (self.is_fused and x.is_cuda and _has_triton()):
            normalized: Tensor = norm(functional.relu(conv(x)))
            return normalized
        from regraft.bench.networks.fused_kernels import ReluGroupNorm

        z = functional.conv2d(x, conv.weight, None, conv.stride, conv.padding)
        out: Tensor = ReluGroupNorm.apply(  # type: ignore[no-untyped-call]
            z, conv.bias, norm.weight, norm.bias, norm.num_groups, norm.eps
        )
        return out


@cache
def _has_triton() -> bool:
    """Return whether triton is installed, as with torch's builds for NVIDIA's GPUs on Linux."""
    return find_spec("triton") is not None
