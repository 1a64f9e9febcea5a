"""A convolutional network in half precision on a GPU, with parameters and gradients in single.

A product of float32 numbers on such a GPU keeps ten binary digits of each (TensorFloat-32), as many
as half precision has. Half precision takes half the memory and time, but overflows beyond 65,504
and loses digits below 0.00006. Normalization keeps values in that range. Gradients are scaled by a
number chosen anew in every step, and scaled back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from regraft.bench.networks.relu_norm import (
    Normalized,
    relu_group_norm,
    relu_group_norm_gradients,
)

if TYPE_CHECKING:
    from regraft.bench.networks.fused import ConvReluNorm

_HALF, _INNERMOST = torch.float16, torch.channels_last
# Up to which the gradient of the last layer is scaled. Sums over the pixels of a batch are a
# thousand times as large, and still far below the largest number.
_LARGEST = 2.0**-4
_FEW_INPUTS = 4
_TINY = 1e-30  # stands for a gradient of zero, which no scale changes


class _Settings(NamedTuple):
    """What a layer has besides its parameters."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    groups: int
    eps: float


# What the gradient of a layer needs: its input and weights in half precision, and of its norm.
_Kept = tuple[Tensor, Tensor, Normalized]


def pixel_means_in_half(x: Tensor, layers: Iterable[ConvReluNorm]) -> Tensor:
    """Return the mean (b, c) over the pixels of what ``layers`` make of ``x`` (b, ., h, w).

    Input and outcome are float32. The outcome can be differentiated once.
    """
    settings, parameters = [], []
    for layer in layers:
        conv, norm = layer.convolution, layer.norm
        assert conv.bias is not None and not isinstance(conv.padding, str)
        settings.append(_Settings(conv.stride, conv.padding, norm.num_groups, norm.eps))
        parameters += [conv.weight, conv.bias, norm.weight, norm.bias]
    if not torch.is_grad_enabled():
        return _means(x, settings, parameters, None)
    found: Tensor = _PixelMeans.apply(x, settings, *parameters)  # type: ignore[no-untyped-call]
    return found


def _means(
    x: Tensor,
    settings: Sequence[_Settings],
    parameters: Sequence[Tensor],
    kept: list[_Kept] | None,
) -> Tensor:
    """Return the means; ``kept``, if it is a list, gets what the gradients need."""
    x = x.to(_HALF, memory_format=_INNERMOST)
    last = len(settings) - 1
    for i, own in enumerate(settings):
        weight, shift, scale, bias = parameters[4 * i : 4 * i + 4]
        weight = weight.to(_HALF, memory_format=_INNERMOST)
        if i < last and _is_merged(x, weight, own):
            out, norm = _convolve(x, weight, shift, scale, bias, own, keeps_z=kept is not None)
        else:
            z = functional.conv2d(x, weight, None, own.stride, own.padding)
            out, norm = relu_group_norm(
                z, shift, scale, bias, own.groups, own.eps, pooled=i == last
            )
        if kept is not None:
            kept.append((x, weight, norm))
        x = out
    return x


def _is_merged(x: Tensor, weight: Tensor, own: _Settings) -> bool:
    """Return whether one kernel of a GPU convolves and normalizes; of many inputs it is slow."""
    same_size = tuple(weight.shape[2:]) == (3, 3) and own.stride == own.padding == (1, 1)
    return x.is_cuda and same_size and weight.shape[1] <= _FEW_INPUTS


def _convolve(
    x: Tensor,
    weight: Tensor,
    shift: Tensor,
    scale: Tensor,
    bias: Tensor,
    own: _Settings,
    *,
    keeps_z: bool,
) -> tuple[Tensor, Normalized]:
    """Return the normalized layer, and what its gradient needs, by that kernel."""
    from regraft.bench.networks.fused_kernels import convolve_forward

    z, out, *stats = convolve_forward(
        x, weight, shift, scale, bias, own.groups, own.eps, keeps_z=keeps_z
    )
    return out, Normalized(z, shift, scale, *stats)


class _PixelMeans(torch.autograd.Function):
    """The means, and the gradients of the input and of all parameters."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, settings: list[_Settings], *parameters: Tensor) -> Tensor:
        kept: list[_Kept] = []
        found = _means(x, settings, parameters, kept)
        ctx.save_for_backward(*(t for x, weight, norm in kept for t in (x, weight, *norm)))
        ctx.settings = settings
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved, size = ctx.saved_tensors, len(ctx.saved_tensors) // len(ctx.settings)
        kept = [saved[i : i + size] for i in range(0, len(saved), size)]
        n_pixels = Normalized(*kept[-1][2:]).z[0, 0].numel()
        largest = torch.linalg.vector_norm(grads[0], torch.inf).clamp_min(_TINY)
        scale = _LARGEST * n_pixels / largest
        grad = grads[0] * scale  # of the means
        found: list[Tensor] = []
        for i in reversed(range(len(kept))):
            own, (x, weight, *norm) = ctx.settings[i], kept[i]
            grad, sums = relu_group_norm_gradients(grad, Normalized(*norm), own.groups)
            grad, of_weight, _ = torch.ops.aten.convolution_backward(
                grad, x, weight, None, own.stride, own.padding, (1, 1), False, (0, 0), 1,
                (i > 0 or ctx.needs_input_grad[0], True, False),
            )  # fmt: skip
            found = [of_weight.float(), *sums, *found]
        if ctx.needs_input_grad[0]:
            found = [grad.float(), *found]
        torch._foreach_mul_(found, scale.reciprocal())
        of_x = found.pop(0) if ctx.needs_input_grad[0] else None
        return of_x, None, *found
