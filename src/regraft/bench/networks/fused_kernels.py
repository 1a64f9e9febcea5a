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
    IS_POOLED: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    image, group = program // N_GROUPS, program % N_GROUPS
    pixel = tl.arange(0, PIXELS)[:, None]
    local = tl.arange(0, SIZE)
    channel = group * SIZE + local[None, :]
    inside = pixel < n_pixels
    place = image.to(tl.int64) * n_pixels * N_CHANNELS + pixel * N_CHANNELS + channel
    x = tl.load(z + place, inside, 0.0).to(tl.float32) + tl.load(shift + channel)
    y, mean, scale = _normalize(x, inside, n_pixels * SIZE, eps)
    y = y * tl.load(weight + channel) + tl.load(bias + channel)
    if IS_POOLED:
        sums = tl.sum(tl.where(inside, y, 0.0), 0)
        tl.store(out + image * N_CHANNELS + group * SIZE + local, sums / n_pixels)
    else:
        tl.store(out + place, y.to(out.dtype.element_ty), inside)
    tl.store(means + program, mean)
    tl.store(scales + program, scale)


@triton.jit
def _normalize(x, inside, count, eps):  # type: ignore[no-untyped-def]
    """Return the normalized ReLU of a group, with its mean and inverse deviation."""
    x = tl.where(inside, tl.maximum(x, 0.0), 0.0)
    mean = tl.sum(tl.sum(x, 1), 0) / count
    x = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(tl.sum(x * x, 1), 0) / count + eps)
    return x * scale, mean, scale


@triton.jit  # type: ignore[untyped-decorator]
def _convolve_forward(  # type: ignore[no-untyped-def]
    image_in, kernel, shift, weight, bias, z, out, means, scales, height, width, eps,
    N_INPUTS: tl.constexpr, N_CHANNELS: tl.constexpr, N_GROUPS: tl.constexpr, SIZE: tl.constexpr,
    PIXELS: tl.constexpr, KEEPS_Z: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    image, group = program // N_GROUPS, program % N_GROUPS
    n_pixels = height * width
    pixel = tl.arange(0, PIXELS)
    row, column = pixel // width, pixel % width
    channel = group * SIZE + tl.arange(0, SIZE)
    inside = (pixel < n_pixels)[:, None]
    taps = image_in + image.to(tl.int64) * n_pixels * N_INPUTS
    x = tl.zeros((PIXELS, SIZE), tl.float32)
    for down in tl.static_range(3):
        for right in tl.static_range(3):
            r, c = row + (down - 1), column + (right - 1)
            is_there = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            for i in tl.static_range(N_INPUTS):
                value = tl.load(taps + (r * width + c) * N_INPUTS + i, is_there, 0.0)
                factor = tl.load(kernel + ((channel * 3 + down) * 3 + right) * N_INPUTS + i)
                x += value.to(tl.float32)[:, None] * factor.to(tl.float32)[None, :]
    x = x.to(z.dtype.element_ty)  # as if it came from memory
    place = image.to(tl.int64) * n_pixels * N_CHANNELS + pixel[:, None] * N_CHANNELS
    place += channel[None, :]
    if KEEPS_Z:
        tl.store(z + place, x, inside)
    x = x.to(tl.float32) + tl.load(shift + channel)[None, :]
    y, mean, scale = _normalize(x, inside, n_pixels * SIZE, eps)
    y = y * tl.load(weight + channel)[None, :] + tl.load(bias + channel)[None, :]
    tl.store(out + place, y.to(out.dtype.element_ty), inside)
    tl.store(means + program, mean)
    tl.store(scales + program, scale)


@triton.jit  # type: ignore[untyped-decorator]
def _backward(  # type: ignore[no-untyped-def]
    grad, z, shift, weight, means, scales, grad_z, sums, n_pixels, n_images,
    N_CHANNELS: tl.constexpr, N_GROUPS: tl.constexpr, SIZE: tl.constexpr, PIXELS: tl.constexpr,
    IS_POOLED: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    image, group = program // N_GROUPS, program % N_GROUPS
    pixel = tl.arange(0, PIXELS)[:, None]
    local = tl.arange(0, SIZE)
    channel = group * SIZE + local[None, :]
    inside = pixel < n_pixels
    place = image.to(tl.int64) * n_pixels * N_CHANNELS + pixel * N_CHANNELS + channel
    x = tl.load(z + place, inside, 0.0).to(tl.float32) + tl.load(shift + channel)
    if IS_POOLED:
        dy = tl.load(grad + image * N_CHANNELS + channel) / n_pixels
        dy = tl.where(inside, dy, 0.0)
    else:
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
    z: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float,
    *, pooled: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return ``group_norm(relu(z + shift))``, and the means and scales (b·groups,) it took off.

    If it is ``pooled``, its means (b, c) over the pixels take the place of the first.
    """
    z = z.contiguous(memory_format=torch.channels_last)
    n, c, h, w = z.shape
    out = torch.empty((n, c), device=z.device) if pooled else torch.empty_like(z)
    means, scales = torch.empty((2, n * groups), device=z.device).unbind()
    _forward[(n * groups,)](
        z, shift, weight, bias, out, means, scales, h * w, eps,
        c, groups, c // groups, triton.next_power_of_2(h * w), pooled, num_warps=_WARPS,
    )  # fmt: skip
    return out, means, scales


def convolve_forward(
    x: Tensor, kernel: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float,
    *, keeps_z: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Do the same after a convolution with ``kernel`` (c, i, 3, 3) of few inputs i, padded by one.

    Return z (b, c, h, w), which is empty unless it is kept, and what ``forward`` returns.
    """
    x = x.contiguous(memory_format=torch.channels_last)
    kernel = kernel.contiguous(memory_format=torch.channels_last)
    (n, i, h, w), c = x.shape, len(kernel)
    out = torch.empty(
        (n, c, h, w), dtype=x.dtype, device=x.device, memory_format=torch.channels_last
    )
    z = torch.empty_like(out) if keeps_z else out.new_empty(0)
    means, scales = torch.empty((2, n * groups), device=x.device).unbind()
    _convolve_forward[(n * groups,)](
        x, kernel, shift, weight, bias, z, out, means, scales, h, w, eps,
        i, c, groups, c // groups, triton.next_power_of_2(h * w), keeps_z, num_warps=_WARPS,
    )  # fmt: skip
    return z, out, means, scales


def backward(
    grad: Tensor, z: Tensor, shift: Tensor, weight: Tensor, means: Tensor, scales: Tensor,
    groups: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the gradient of ``z``, and those of ``shift``, ``weight`` and ``bias`` (3, c).

    ``grad`` is (b, c, h, w), or (b, c) of means over the pixels.
    """
    pooled = grad.dim() == 2
    z = z.contiguous(memory_format=torch.channels_last)
    grad = grad.contiguous(memory_format=torch.contiguous_format if pooled else torch.channels_last)
    n, c, h, w = z.shape
    grad_z, sums = torch.empty_like(z), torch.empty((3, n, c), device=z.device)
    _backward[(n * groups,)](
        grad, z, shift, weight, means, scales, grad_z, sums, h * w, n,
        c, groups, c // groups, triton.next_power_of_2(h * w), pooled, num_warps=_WARPS,
    )  # fmt: skip
    return grad_z, sums.sum(dim=1)
