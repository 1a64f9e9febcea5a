"""Bias, ReLU and group normalization as one pass over the memory of a GPU, and its gradient.

Tensors are (b, c, h, w) in memory order b, h, w, c. Each program handles one group of one image.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_WARPS = 8


@triton.jit  # type: ignore[untyped-decorator]
def _forward(  # type: ignore[no-untyped-def]
    z, shift, weight, bias, out, means, scales, n_pixels, eps,
    N_CHANNELS: tl.constexpr, N_GROUPS: tl.constexpr, SIZE: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    image, group = program // N_GROUPS, program % N_GROUPS
    pixel = tl.arange(0, PIXELS)[:, None]
    channel = group * SIZE + tl.arange(0, SIZE)[None, :]
    inside = pixel < n_pixels
    place = image.to(tl.int64) * n_pixels * N_CHANNELS + pixel * N_CHANNELS + channel
    x = tl.load(z + place, inside, 0.0).to(tl.float32) + tl.load(shift + channel)
    x = tl.where(inside, tl.maximum(x, 0.0), 0.0)
    count = n_pixels * SIZE
    mean = tl.sum(tl.sum(x, 1), 0) / count
    x = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(tl.sum(x * x, 1), 0) / count + eps)
    y = x * scale * tl.load(weight + channel) + tl.load(bias + channel)
    tl.store(out + place, y.to(out.dtype.element_ty), inside)
    tl.store(means + program, mean)
    tl.store(scales + program, scale)


@triton.jit  # type: ignore[untyped-decorator]
def _backward(  # type: ignore[no-untyped-def]
    grad, z, shift, weight, means, scales, grad_z, sums, n_pixels, n_images,
    N_CHANNELS: tl.constexpr, N_GROUPS: tl.constexpr, SIZE: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    image, group = program // N_GROUPS, program % N_GROUPS
    pixel = tl.arange(0, PIXELS)[:, None]
    local = tl.arange(0, SIZE)
    channel = group * SIZE + local[None, :]
    inside = pixel < n_pixels
    place = image.to(tl.int64) * n_pixels * N_CHANNELS + pixel * N_CHANNELS + channel
    x = tl.load(z + place, inside, 0.0).to(tl.float32) + tl.load(shift + channel)
    dy = tl.load(grad + place, inside, 0.0).to(tl.float32)
    mean, scale = tl.load(means + program), tl.load(scales + program)
    normal = tl.where(inside, (tl.maximum(x, 0.0) - mean) * scale, 0.0)
    weighted = dy * tl.load(weight + channel)
    count = n_pixels * SIZE
    along = tl.sum(tl.sum(weighted * normal, 1), 0) / count
    level = tl.sum(tl.sum(weighted, 1), 0) / count
    dx = scale * (weighted - level - normal * along)
    dz = tl.where(inside & (x > 0.0), dx, 0.0)
    tl.store(grad_z + place, dz.to(grad_z.dtype.element_ty), inside)
    # Sums over the pixels of each image; the caller adds images, in the same order every time.
    target = sums + image * N_CHANNELS + group * SIZE + local
    tl.store(target, tl.sum(dz, 0))
    tl.store(target + n_images * N_CHANNELS, tl.sum(dy * normal, 0))
    tl.store(target + 2 * n_images * N_CHANNELS, tl.sum(dy, 0))


def forward(
    z: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``group_norm(relu(z + shift))``, and the means and scales (b·groups,) it took off."""
    z = z.contiguous(memory_format=torch.channels_last)
    n, c, h, w = z.shape
    out = torch.empty_like(z)
    means, scales = torch.empty((2, n * groups), device=z.device).unbind()
    _forward[(n * groups,)](
        z, shift, weight, bias, out, means, scales, h * w, eps,
        c, groups, c // groups, triton.next_power_of_2(h * w), num_warps=_WARPS,
    )  # fmt: skip
    return out, means, scales


def backward(
    grad: Tensor, z: Tensor, shift: Tensor, weight: Tensor, means: Tensor, scales: Tensor,
    groups: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the gradient of ``z``, and those of ``shift``, ``weight`` and ``bias`` (3, c)."""
    z, grad = (each.contiguous(memory_format=torch.channels_last) for each in (z, grad))
    n, c, h, w = z.shape
    grad_z, sums = torch.empty_like(z), torch.empty((3, n, c), device=z.device)
    _backward[(n * groups,)](
        grad, z, shift, weight, means, scales, grad_z, sums, h * w, n,
        c, groups, c // groups, triton.next_power_of_2(h * w), num_warps=_WARPS,
    )  # fmt: skip
    return grad_z, sums.sum(dim=1)
