"""The network with its layers merged is the network."""

import copy

import pytest
import torch
from torch import nn

from regraft.bench.networks.fused import ConvReluNorm, fuse
from regraft.encoders.mnist_cnn import mnist_cnn


def networks() -> tuple[nn.Sequential, nn.Sequential]:
    """A network whose norms do something, and the same merged."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        plain = mnist_cnn(2)
        for layer in plain:
            if isinstance(layer, nn.GroupNorm):
                nn.init.normal_(layer.weight, 1, 0.3)
                nn.init.normal_(layer.bias, 0, 0.3)
    return plain, fuse(copy.deepcopy(plain))


def test_every_convolution_is_merged_with_the_same_bits_and_nothing_else() -> None:
    plain, merged = networks()
    kinds = [ConvReluNorm] * 4 + [nn.AdaptiveAvgPool2d, nn.Flatten]
    assert [type(layer) for layer in merged] == kinds
    assert len(list(merged.parameters())) == len(list(plain.parameters()))
    x = torch.rand(5, 2, 28, 28, generator=torch.Generator().manual_seed(1))
    assert torch.equal(plain(x), merged(x))
    layers = nn.Linear(2, 2), nn.ReLU(), nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)
    assert list(fuse(nn.Sequential(*layers))) == list(layers)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("rows", "channels", "size"), [(1, 64, 28), (7, 128, 14), (64, 128, 14)])
def test_the_kernels_agree_with_torch(rows: int, channels: int, size: int) -> None:
    # Without the convolutions, of which libraries have inexact versions.
    from regraft.bench.networks.relu_norm import ReluGroupNorm

    generator = torch.Generator().manual_seed(1)
    shapes = [(rows, channels, size, size), (channels,), (channels,), (channels,)]
    drawn = [torch.randn(shape, generator=generator).cuda() for shape in shapes]
    slope = torch.randn(shapes[0], generator=generator).cuda()
    gradients = []
    for fused in (True, False):
        z, shift, weight, bias = inputs = [tensor.clone().requires_grad_() for tensor in drawn]
        if fused:
            out = ReluGroupNorm.apply(z, shift, weight, bias, 8, 1e-5)
        else:
            moved = torch.relu(z + shift[:, None, None])
            out = nn.functional.group_norm(moved, 8, weight, bias, 1e-5)
        gradients.append([out, *torch.autograd.grad(out, inputs, slope)])
    for found, expected in zip(*gradients, strict=True):
        scale = float(expected.abs().max())
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4 * scale)
