"""Bias, ReLU and group normalization as one pass over the memory of a GPU, and its gradient.

Tensors are (b, c, h, w) in memory order b, h, w, c. Each program handles one group of one image.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

# Channels that one program convolves to: fewer in training, whose images are too few for a GPU.
_COLUMNS, _COLUMNS_IN_TRAINING = 32, 16


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
    x = tl.where(inside, tl.maximum(x, 0.0), 0.0)
    count = n_pixels * SIZE
    mean = tl.sum(tl.sum(x, 1), 0) / count
    x = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(tl.sum(x * x, 1), 0) / count + eps)
    y = x * scale * tl.load(weight + channel) + tl.load(bias + channel)
    if IS_POOLED:
        sums = tl.sum(tl.where(inside, y, 0.0), 0)
        tl.store(out + image * N_CHANNELS + group * SIZE + local, sums / n_pixels)
    else:
        tl.store(out + place, y.to(out.dtype.element_ty), inside)
    tl.store(means + program, mean)
    tl.store(scales + program, scale)


@triton.jit  # type: ignore[untyped-decorator]
def _convolve_forward(  # type: ignore[no-untyped-def]
    padded, kernel, shift, weight, bias, z, out, means, scales, height, width, eps,
    N_INPUTS: tl.constexpr, N_CHANNELS: tl.constexpr, N_GROUPS: tl.constexpr, GROUPS: tl.constexpr,
    PIXELS: tl.constexpr, TAPS: tl.constexpr, KEEPS_Z: tl.constexpr,
):  # fmt: skip
    SIZE: tl.constexpr = N_CHANNELS // N_GROUPS
    program, programs = tl.program_id(0), N_GROUPS // GROUPS
    image, first = program // programs, program % programs * GROUPS
    n_pixels, pixel = height * width, tl.arange(0, PIXELS)[:, None]
    channel = first * SIZE + tl.arange(0, GROUPS * SIZE)[None, :]
    # A convolution is the product of the nine neighbours of each pixel with the kernel.
    tap, wide = tl.arange(0, TAPS), (width + 2) * N_INPUTS
    offset = tap // (3 * N_INPUTS) * wide + tap % (3 * N_INPUTS)
    corner = pixel // width * wide + pixel % width * N_INPUTS
    inside, is_used = pixel < n_pixels, tap < 9 * N_INPUTS
    padded += image.to(tl.int64) * (height + 2) * wide
    neighbours = tl.load(padded + corner + offset[None, :], inside & is_used[None, :], 0.0)
    factors = tl.load(kernel + channel * (9 * N_INPUTS) + tap[:, None], is_used[:, None], 0.0)
    x = tl.dot(neighbours, factors).to(z.dtype.element_ty)  # as if it came from memory
    at = image.to(tl.int64) * n_pixels * N_CHANNELS + pixel * N_CHANNELS + channel
    if KEEPS_Z:
        tl.store(z + at, x, inside)
    x = x.to(tl.float32) + tl.load(shift + channel)
    x = tl.where(inside, tl.maximum(x, 0.0), 0.0)
    count = n_pixels * SIZE
    mean = tl.sum(tl.reshape(tl.sum(x, 0), (GROUPS, SIZE)), 1) / count
    each = tl.reshape(tl.broadcast_to(mean[:, None], (GROUPS, SIZE)), (GROUPS * SIZE,))
    x = tl.where(inside, x - each[None, :], 0.0)
    scale = tl.rsqrt(tl.sum(tl.reshape(tl.sum(x * x, 0), (GROUPS, SIZE)), 1) / count + eps)
    each = tl.reshape(tl.broadcast_to(scale[:, None], (GROUPS, SIZE)), (GROUPS * SIZE,))
    y = x * each[None, :] * tl.load(weight + channel) + tl.load(bias + channel)
    tl.store(out + at, y.to(out.dtype.element_ty), inside)
    group = image * N_GROUPS + first + tl.arange(0, GROUPS)
    tl.store(means + group, mean)
    tl.store(scales + group, scale)


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
        c, groups, c // groups, triton.next_power_of_2(h * w), pooled, num_warps=_warps(h * w),
    )  # fmt: skip
    return out, means, scales


def convolve_forward(
    x: Tensor, kernel: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float,
    *, keeps_z: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Do the same after a convolution with ``kernel`` (c, i, 3, 3) of few inputs i, padded by one.

    Return z (b, c, h, w), which is empty unless it is kept, and what ``forward`` returns.
    """
    padded = functional.pad(x, (1, 1, 1, 1)).contiguous(memory_format=torch.channels_last)
    kernel = kernel.contiguous(memory_format=torch.channels_last)
    (n, i, h, w), c = x.shape, len(kernel)
    out = torch.empty(
        (n, c, h, w), dtype=x.dtype, device=x.device, memory_format=torch.channels_last
    )
    z = torch.empty_like(out) if keeps_z else out.new_empty(0)
    means, scales = torch.empty((2, n * groups), device=x.device).unbind()
    columns = _COLUMNS_IN_TRAINING if keeps_z else _COLUMNS
    together = min(groups, max(1, columns * groups // c))
    _convolve_forward[(n * groups // together,)](
        padded, kernel, shift, weight, bias, z, out, means, scales, h, w, eps,
        i, c, groups, together, triton.next_power_of_2(h * w), triton.next_power_of_2(9 * i),
        keeps_z, num_warps=8,
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
        c, groups, c // groups, triton.next_power_of_2(h * w), pooled, num_warps=_warps(h * w),
    )  # fmt: skip
    return grad_z, sums.sum(dim=1)


def _warps(n_pixels: int) -> int:
    """Return the number of warps that were fastest for a group of so many pixels."""
    return 2 if n_pixels <= 256 else 4
