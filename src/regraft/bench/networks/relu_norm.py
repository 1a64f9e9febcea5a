"""Bias, ReLU and group normalization in one step, and its gradient: one kernel each on a GPU."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor


class Normalized(NamedTuple):
    """What the gradient of a normalization needs."""

    z: Tensor  # (b, c, h, w)
    shift: Tensor
    weight: Tensor
    means: Tensor  # of each group of an image, (b·groups,)
    scales: Tensor  # inverse deviations


def relu_group_norm(
    z: Tensor,
    shift: Tensor,
    weight: Tensor,
    bias: Tensor,
    groups: int,
    eps: float,
    *,
    pooled: bool = False,
) -> tuple[Tensor, Normalized]:
    """Return ``group_norm(relu(z + shift))`` (b, c, h, w), and what its gradient needs.

    It is computed in float32, and has the dtype of ``z``. If it is ``pooled``, its means (b, c)
    over the pixels are returned instead, in float32.
    """
    if z.is_cuda:
        from regraft.bench.networks.fused_kernels import forward

        out, means, scales = forward(z, shift, weight, bias, groups, eps, pooled=pooled)
        return out, Normalized(z, shift, weight, means, scales)
    x = _by_group((z + shift[:, None, None]).relu(), groups)
    means = x.mean(dim=2, keepdim=True)
    scales = ((x - means).square().mean(dim=2, keepdim=True) + eps).rsqrt()
    normal = ((x - means) * scales).view(z.shape)
    out = normal * weight[:, None, None] + bias[:, None, None]
    out = out.mean(dim=(2, 3)) if pooled else out.to(z.dtype)
    return out, Normalized(z, shift, weight, means.flatten(), scales.flatten())


def relu_group_norm_gradients(grad: Tensor, kept: Normalized, groups: int) -> tuple[Tensor, Tensor]:
    """Return the gradients of ``z``, and of ``shift``, ``weight`` and ``bias`` as rows (3, c).

    ``grad`` is that of what ``relu_group_norm`` returned: (b, c, h, w), or (b, c) of means.
    """
    z, shift, weight, means, scales = kept
    if z.is_cuda:
        from regraft.bench.networks.fused_kernels import backward

        return backward(grad, z, shift, weight, means, scales, groups)
    if grad.dim() == 2:
        grad = (grad / z[0, 0].numel())[:, :, None, None].expand(z.shape)
    moved, slope = z + shift[:, None, None], grad.to(shift)
    scale = scales.view(len(z), groups, 1)
    normal = (_by_group(moved.relu(), groups) - means.view(scale.shape)) * scale
    weighted = _by_group(slope * weight[:, None, None], groups)
    along = (weighted * normal).mean(dim=2, keepdim=True)
    level = weighted.mean(dim=2, keepdim=True)
    grad_z = (scale * (weighted - level - normal * along)).view(z.shape) * (moved > 0)
    sums = [part.sum(dim=(0, 2, 3)) for part in (grad_z, slope * normal.view(z.shape), slope)]
    return grad_z.to(z.dtype), torch.stack(sums)


def _by_group(x: Tensor, groups: int) -> Tensor:
    return x.reshape(len(x), groups, -1)


class ReluGroupNorm(torch.autograd.Function):
    """Function ``group_norm(relu(z + shift))``, which can be differentiated once."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, shift: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float
    ) -> Tensor:
        """Return (b, c, h, w) with the dtype of ``z``; the other tensors are (c,)."""
        out, kept = relu_group_norm(z, shift, weight, bias, groups, eps)
        ctx.save_for_backward(*kept)
        ctx.groups = groups
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of ``z``, ``shift``, ``weight`` and ``bias``."""
        grad_z, sums = relu_group_norm_gradients(
            grads[0], Normalized(*ctx.saved_tensors), ctx.groups
        )
        return grad_z, *sums.unbind(), None, None
