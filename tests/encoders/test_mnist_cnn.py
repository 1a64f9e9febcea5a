from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from regraft.bench.datasets.colored_mnist import ColouredDigits
from regraft.bench.protocol.cache import write_cache
from regraft.encoders import load_image_encoder
from regraft.encoders.mnist_cnn import N_FEATURES, mnist_cnn

DIGITS = np.random.default_rng(0).integers(0, 256, size=(3, 28, 28), dtype=np.uint8)


@pytest.fixture
def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(mnist_cnn(), nn.Linear(N_FEATURES, 2)).eval()


@pytest.fixture
def checkpoint(network: nn.Sequential, tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint.safetensors"
    write_cache(path, {"dataset": "ColoredMNIST"}, network.state_dict())
    return path


def paint(digit: np.ndarray, channel: int) -> Image.Image:
    pixels = np.zeros((28, 28, 3), np.uint8)
    pixels[:, :, channel] = digit
    return Image.fromarray(pixels)


def test_features_are_those_of_the_benchmark(network: nn.Sequential, checkpoint: Path) -> None:
    colour = torch.tensor([0, 1, 1])
    environment = ColouredDigits(torch.from_numpy(DIGITS), torch.zeros(3).long(), colour)
    with torch.no_grad():
        expected = network[0](environment.inputs(torch.arange(3)))
    encoder = load_image_encoder("mnist_cnn", weights=checkpoint)
    images = [paint(digit, int(c)) for digit, c in zip(DIGITS, colour, strict=True)]
    features = encoder.encode(np.stack([encoder.pixels(image) for image in images]))
    assert features.shape == (3, encoder.n_features) == (3, N_FEATURES)
    np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-5)
    both = torch.from_numpy(DIGITS[:1])[:, None].expand(1, 2, 28, 28) / 255
    with torch.no_grad():
        expected = network[0](both)
    pixels = encoder.pixels(Image.fromarray(DIGITS[0]))
    np.testing.assert_allclose(encoder.encode(pixels[None]), expected, rtol=1e-4, atol=1e-5)


def test_other_images_and_weights_are_refused(
    checkpoint: Path, network: nn.Sequential, tmp_path: Path
) -> None:
    encoder = load_image_encoder("mnist_cnn", weights=checkpoint)
    with pytest.raises(ValueError, match="it has 32 x 28 pixels, but mnist_cnn takes digits"):
        encoder.pixels(Image.new("RGB", (32, 28)))
    with pytest.raises(ValueError, match="it has blue in it"):
        encoder.pixels(paint(DIGITS[0], 2))
    with pytest.raises(ValueError, match="no weights of its own: pass a checkpoint"):
        load_image_encoder("mnist_cnn")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*--weights"):
        load_image_encoder("mnist_cnn", weights=tmp_path / "absent.safetensors")
    path = tmp_path / "head.safetensors"
    save_file(network[1].state_dict(), path)
    with pytest.raises(ValueError, match="does not hold the weights of this network"):
        load_image_encoder("mnist_cnn", weights=path)
