"""The networks' layers, and their output by hand."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from regraft.bench.networks.domainbed import (
    N_FEATURES,
    Dropout,
    make_classifier,
    make_featurizer,
    mlp,
    mnist_cnn,
)


def test_features_of_the_network_for_digits_by_hand() -> None:
    """Weights and biases of four convolutions, two for each normalized channel."""
    for n_channels in (1, 2, 3):
        network = mnist_cnn(n_channels)
        for b in (1, 5):
            features = network(torch.rand(b, n_channels, 28, 28))
            assert features.shape == (b, N_FEATURES)
            assert torch.isfinite(features).all()
    convolutions = sum(9 * a * b + b for a, b in ((2, 64), (64, 128), (128, 128), (128, 128)))
    normalizations = 2 * (64 + 3 * 128)
    total = sum(parameter.numel() for parameter in mnist_cnn().parameters())
    assert total == convolutions + normalizations
    network, n = make_featurizer((5,), {"featurizer_width": 7}, generator())
    features = network(torch.randn(50, 5))
    assert (n, features.shape, widths(network)) == (7, (50, 7), [(5, 7)])
    assert (features >= 0).all() and (features > 0).any()
    network, n = make_featurizer((1, 28, 28), {}, generator())
    assert n == N_FEATURES
    assert network(torch.rand(2, 1, 28, 28)).shape == (2, N_FEATURES)
    # ReLU first, then the normalization; only the second convolution halves the image.
    torch.manual_seed(0)
    network = mnist_cnn()
    x = images = torch.rand(3, 2, 28, 28)
    convolutions = [layer for layer in network if isinstance(layer, nn.Conv2d)]
    for layer, stride in zip(convolutions, (1, 2, 1, 1), strict=True):
        x = functional.conv2d(x, layer.weight, layer.bias, stride=stride, padding=1)
        x = functional.group_norm(x.relu(), 8)  # the affine part starts as the identity
    assert x.shape == (3, 128, 14, 14)
    torch.testing.assert_close(network(images), x.mean((2, 3)))


def test_the_seed_decides_the_weights_and_images_do_not_depend_on_their_batch() -> None:

    def weights(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return nn.utils.parameters_to_vector(mnist_cnn().parameters())

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))
    # No statistics are shared between images, in training and in evaluation alike.
    network, images = mnist_cnn(), torch.rand(4, 2, 28, 28)
    together = network.train()(images)
    torch.testing.assert_close(network.eval()(images), together)
    torch.testing.assert_close(network(images[2:3]), together[2:3])


def widths(network: nn.Module) -> list[tuple[int, int]]:
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
    return [(layer.in_features, layer.out_features) for layer in layers]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("nonlinear", "layers"), [(False, [(16, 3)]), (True, [(16, 8), (8, 4), (4, 3)])]
)
def test_classifiers(nonlinear: bool, layers: list[tuple[int, int]]) -> None:
    network = make_classifier(16, 3, {"nonlinear_classifier": nonlinear})
    assert widths(network) == layers
    x = torch.randn(20, 16)
    is_linear = torch.allclose(network(x) + network(-x), 2 * network(0 * x), atol=1e-5)
    assert is_linear is not nonlinear


@pytest.mark.parametrize(
    ("depth", "layers"), [(3, [(4, 6), (6, 6), (6, 2)]), (4, [(4, 6), (6, 6), (6, 6), (6, 2)])]
)
def test_perceptrons(depth: int, layers: list[tuple[int, int]]) -> None:
    hparams: dict[str, Any] = {"mlp_width": 6, "mlp_depth": depth, "mlp_dropout": 0.5}
    network, x = mlp(4, 2, hparams, generator()), torch.randn(5, 4)
    assert widths(network) == layers
    expected = x
    for layer in network.eval():
        if isinstance(layer, nn.Linear):
            is_last = layer.out_features == 2
            expected = layer(expected) if is_last else functional.relu(layer(expected))
    torch.testing.assert_close(network(x), expected)
    assert not torch.equal(network.train()(x), network(x))


@given(st.integers(0, 2**31), st.sampled_from([0.1, 0.5, 0.9]))
def test_dropout_keeps_a_share_and_the_mean(seed: int, share: float) -> None:
    """Within five standard errors of the share, over 10,000 entries."""
    layer, x = Dropout(share, generator(seed)), torch.full((100, 100), 3.0)
    kept = layer(x)
    torch.testing.assert_close(kept.unique(), torch.tensor([0.0, 3 / (1 - share)]))
    assert abs(float((kept == 0).float().mean()) - share) < 5 * (share * (1 - share)) ** 0.5 / 100
    assert torch.equal(layer.eval()(x), x)


def test_dropout_draws_from_its_own_generator() -> None:
    x = torch.ones(8, 8)
    state = torch.get_rng_state()
    first, second = (Dropout(0.5, generator(4)) for _ in range(2))
    assert torch.equal(first(x), second(x))
    assert torch.equal(torch.get_rng_state(), state)
    own = generator()
    before = own.get_state()
    assert torch.equal(Dropout(0.0, own)(x), x)
    assert torch.equal(own.get_state(), before)
