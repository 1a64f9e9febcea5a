"""The featurizer's layers, and its output by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from regraft.bench.networks import N_FEATURES, mnist_cnn


@pytest.mark.parametrize("n_channels", [1, 2, 3])
def test_features_of_any_number_of_images(n_channels: int) -> None:
    network = mnist_cnn(n_channels)
    for b in (1, 5):
        features = network(torch.rand(b, n_channels, 28, 28))
        assert features.shape == (b, N_FEATURES)
        assert torch.isfinite(features).all()


def test_number_of_parameters() -> None:
    """Weights and biases of four convolutions, two for each normalized channel."""
    convolutions = sum(9 * a * b + b for a, b in ((2, 64), (64, 128), (128, 128), (128, 128)))
    normalizations = 2 * (64 + 3 * 128)
    total = sum(parameter.numel() for parameter in mnist_cnn().parameters())
    assert total == convolutions + normalizations


def test_output_equals_the_layers_applied_by_hand() -> None:
    """ReLU first, then the normalization; only the second convolution halves the image."""
    torch.manual_seed(0)
    network = mnist_cnn()
    x = images = torch.rand(3, 2, 28, 28)
    convolutions = [layer for layer in network if isinstance(layer, nn.Conv2d)]
    for layer, stride in zip(convolutions, (1, 2, 1, 1), strict=True):
        x = functional.relu(
            functional.conv2d(x, layer.weight, layer.bias, stride=stride, padding=1)
        )
        x = functional.group_norm(x, 8)  # the affine part starts as the identity
    assert x.shape == (3, 128, 14, 14)
    torch.testing.assert_close(network(images), x.mean((2, 3)))


def test_the_seed_alone_decides_the_weights() -> None:
    def weights(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return nn.utils.parameters_to_vector(mnist_cnn().parameters())

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_an_image_does_not_depend_on_its_batch() -> None:
    """No statistics are shared between images, in training and in evaluation alike."""
    network, images = mnist_cnn(), torch.rand(4, 2, 28, 28)
    together = network.train()(images)
    torch.testing.assert_close(network.eval()(images), together)
    torch.testing.assert_close(network(images[2:3]), together[2:3])
