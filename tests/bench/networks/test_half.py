"""Half precision gives what single precision gives, up to the digits that it has."""

import copy
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from regraft.bench.networks.fused import fuse
from regraft.bench.networks.half import pixel_means_in_half
from regraft.bench.networks.relu_norm import relu_group_norm, relu_group_norm_gradients
from regraft.encoders.mnist_cnn import mnist_cnn

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def network(device: str = "cpu") -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = mnist_cnn(2)
        for layer in made:
            if isinstance(layer, nn.GroupNorm):
                nn.init.normal_(layer.weight, 1, 0.3)
                nn.init.normal_(layer.bias, 0, 0.3)
    return made.to(device)


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def distance(found: Tensor, expected: Tensor) -> float:
    """Relative to the size of what is expected."""
    return float((found.double().cpu() - expected).norm() / expected.norm())


class TenDigits(torch.autograd.Function):
    """Convolution as TensorFloat-32 computes it: products of numbers of ten binary digits."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, like: nn.Conv2d) -> Tensor:
        rounded = cut(x), cut(weight)
        ctx.save_for_backward(*rounded)
        ctx.like = like
        return functional.conv2d(*rounded, None, like.stride, like.padding)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, _ = torch.ops.aten.convolution_backward(
            cut(grads[0]), x, weight, None, ctx.like.stride, ctx.like.padding,
            (1, 1), False, (0, 0), 1, (True, True, False),
        )  # fmt: skip
        return of_x, of_weight, None


def cut(x: Tensor) -> Tensor:
    """Round to ten binary digits behind the first one."""
    return (x.contiguous().view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32)


def differentiate(out: Tensor, inputs: Iterable[Tensor], slope: Tensor) -> list[Tensor]:
    """Return the outcome and the gradients."""
    return [out.detach(), *torch.autograd.grad(out, list(inputs), slope.to(out))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_outcome_and_gradients_of_any_size_are_as_exact_as_those_of_tensor_float(
    device: str, size: float
) -> None:
    # Where rounding turns a ReLU on or off a gradient jumps, with ten digits as with half.
    slope, plain = size * draw(16, 128, seed=2), network()
    x = draw(16, 2, 28, 28).requires_grad_()
    exact = copy.deepcopy(plain).double(), x.detach().double().requires_grad_()
    expected = differentiate(exact[0](exact[1]), [exact[1], *exact[0].parameters()], slope)

    z = x
    for layer in plain:
        if isinstance(layer, nn.Conv2d):
            assert layer.bias is not None
            z = TenDigits.apply(z, layer.weight, layer) + layer.bias[:, None, None]
        else:
            z = layer(z)
    rounded = differentiate(z, [x, *plain.parameters()], slope)

    merged = fuse(network(device), in_half=True)
    x = x.detach().to(device).requires_grad_()
    out = pixel_means_in_half(x, merged.merged())
    found = differentiate(out, [x, *merged.parameters()], slope)
    for each, ten, true in zip(found, rounded, expected, strict=True):
        assert each.dtype == torch.float32
        assert distance(each, true) < max(1.5 * distance(ten, true), 1e-3)
    with torch.no_grad():
        assert torch.equal(pixel_means_in_half(x, merged.merged()), out)


@pytest.mark.parametrize("device", DEVICES)
def test_a_gradient_of_zero_is_zero(device: str) -> None:
    merged = fuse(network(device), in_half=True)
    pixel_means_in_half(draw(3, 2, 28, 28).to(device), merged.merged()).mul(0).sum().backward()
    assert all(not p.grad.any() for p in merged.parameters() if p.grad is not None)
    assert all(p.grad is not None for p in merged.parameters())


@pytest.mark.parametrize(("rows", "channels", "size"), [(1, 8, 5), (3, 64, 7)])
def test_the_gradient_of_the_normalization_is_that_of_autograd(
    rows: int, channels: int, size: int
) -> None:
    drawn = [draw(rows, channels, size, size), *(draw(channels, seed=i) for i in (2, 3, 4))]
    z, shift, weight, bias = inputs = [each.double().requires_grad_() for each in drawn]
    slope = draw(rows, channels, size, size, seed=5).double()
    moved = torch.relu(z + shift[:, None, None])
    expected = nn.functional.group_norm(moved, 8, weight, bias, 1e-5)
    of_z, *others = torch.autograd.grad(expected, inputs, slope)
    with torch.no_grad():
        out, kept = relu_group_norm(z, shift, weight, bias, 8, 1e-5)
        grad_z, sums = relu_group_norm_gradients(slope, kept, 8)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(grad_z, of_z)
    torch.testing.assert_close(sums, torch.stack(others))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_takes_half_precision_where_it_may_and_it_is_differentiated_once() -> None:
    x = draw(5, 2, 28, 28).cuda()
    merged = fuse(network("cuda"), in_half=True)
    single = fuse(copy.deepcopy(network("cuda")))
    half = pixel_means_in_half(x, merged.merged())
    assert torch.equal(merged(x), half)
    assert not torch.equal(single(x), half)
    with torch.backends.cudnn.flags(allow_tf32=False):
        assert torch.equal(merged(x), single(x))
        exact = single(x)
    assert 0 < distance(half.detach(), exact.detach().double().cpu()) < 1e-3
    merged.is_differentiated_twice = True
    (first,) = torch.autograd.grad(merged(x).sum(), merged[0].convolution.weight, create_graph=True)
    first.square().sum().backward()
    assert merged[3].convolution.weight.grad.abs().sum() > 0
    with torch.no_grad():
        assert torch.equal(merged(x), half)
