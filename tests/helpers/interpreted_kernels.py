"""A script that runs the kernels for GPUs on a CPU, and compares them with what they stand for.

Triton's interpreter has to be chosen, by TRITON_INTERPRET=1, before anything imports triton.
"""

from itertools import product

import torch
from torch import Tensor
from torch.nn import functional

from regraft.bench.networks import fused_kernels
from regraft.bench.networks.relu_norm import relu_group_norm, relu_group_norm_gradients

EPS = 1e-5
# Rows, channels, height, width, groups: pixels are no power of two, and programs take one or two
# groups. Products in a kernel have 16 columns or more.
SHAPES = [(3, 64, 6, 6, 8), (2, 32, 5, 3, 2)]


def draw(*shape: int, seed: int) -> Tensor:
    """Draw numbers with a generator of their own."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def compare(found: Tensor, expected: Tensor, tolerance: float) -> None:
    """Raise ``AssertionError`` if they differ by more, relative to the largest entry."""
    largest = float(expected.abs().max())
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance * largest)


def check_normalization(shape: tuple[int, ...], dtype: torch.dtype, *, pooled: bool) -> None:
    """Compare the outcome, what is kept, and the gradients."""
    *size, groups = shape
    z = draw(*size, seed=1).to(dtype)
    shift, weight, bias = draw(3, size[1], seed=2).unbind()
    found = fused_kernels.forward(z, shift, weight, bias, groups, EPS, pooled=pooled)
    expected, kept = relu_group_norm(z, shift, weight, bias, groups, EPS, pooled=pooled)
    grad = draw(*expected.shape, seed=3).to(expected.dtype)
    gradients = fused_kernels.backward(grad, z, shift, weight, *found[1:], groups)
    of_z, of_others = relu_group_norm_gradients(grad, kept, groups)
    theirs = (expected, kept.means, kept.scales, of_z, of_others)
    for ours, other in zip((*found, *gradients), theirs, strict=True):
        compare(ours, other, 8 * torch.finfo(other.dtype).eps)


def check_convolution(shape: tuple[int, ...], n_inputs: int, *, keeps_z: bool) -> None:
    """Compare the convolution, if it is kept, the outcome, and the means and scales."""
    rows, channels, height, width, groups = shape
    x = draw(rows, n_inputs, height, width, seed=1).half()
    kernel = draw(channels, n_inputs, 3, 3, seed=2).half()
    shift, weight, bias = draw(3, channels, seed=3).unbind()
    z, *found = fused_kernels.convolve_forward(
        x, kernel, shift, weight, bias, groups, EPS, keeps_z=keeps_z
    )
    convolved = functional.conv2d(x.float(), kernel.float(), padding=1).half()
    expected, kept = relu_group_norm(convolved, shift, weight, bias, groups, EPS)
    few = 4 * torch.finfo(torch.float16).eps  # one rounding of the convolution, and one after it
    if keeps_z:
        compare(z, convolved, few)
    else:
        assert z.numel() == 0
    for ours, other in zip(found, (expected, kept.means, kept.scales), strict=True):
        compare(ours, other, few)


if __name__ == "__main__":
    for shape, dtype, pooled in product(SHAPES, (torch.float32, torch.float16), (False, True)):
        check_normalization(shape, dtype, pooled=pooled)
    for shape, n_inputs, keeps_z in product(SHAPES, (1, 2, 3), (False, True)):
        check_convolution(shape, n_inputs, keeps_z=keeps_z)
    print("all agree")
