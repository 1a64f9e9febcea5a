import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from regraft.encoders import load_image_encoder

timm = pytest.importorskip("timm")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "weights.safetensors"


def save_random(name: str, path: Path, **options: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    network = timm.create_model(name, pretrained=False, **options)
    save_file(network.state_dict(), path)
    return network.eval()


def photograph(width: int, height: int, seed: int = 0) -> Image.Image:
    """Smooth colours with fine noise, through JPEG as pictures come."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, size=(7, 9, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))
    noisy = np.clip(smooth.astype(int) + rng.integers(-20, 20, smooth.shape), 0, 255)
    file = io.BytesIO()
    Image.fromarray(noisy.astype(np.uint8)).save(file, "JPEG")
    return Image.open(file)


@pytest.mark.parametrize("name", ["resnet18.tv_in1k", "timm:resnet18.tv_in1k"])
def test_features_are_those_of_timm_with_its_own_transform(name: str, path: Path) -> None:
    plain = save_random("resnet18.tv_in1k", path)
    encoder = load_image_encoder(name, weights=path)
    assert encoder.name == "timm:resnet18.tv_in1k"
    assert encoder.preprocessing["size"] == [224, 224]
    assert encoder.preprocessing["resampling"] == "bilinear"
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(plain))
    images = [photograph(300, 200), photograph(180, 333, 1), photograph(224, 224, 2)]
    with torch.no_grad():
        inputs = torch.stack([transform(image.convert("RGB")) for image in images])
        expected = plain.global_pool(plain.forward_features(inputs))
    features = encoder.encode(np.stack([encoder.pixels(image) for image in images]))
    assert features.shape == (3, encoder.n_features) == (3, 512)
    np.testing.assert_allclose(features, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "name", ["resnet50.ram_in1k", "vit_tiny_patch16_224.augreg_in21k", "convnext_atto.d2_in1k"]
)
def test_pixels_and_normalization_are_timms(name: str, path: Path) -> None:
    """Resizing, cropping, mean and deviation of several models, on images of odd shapes."""
    plain = save_random(name, path, num_classes=0)
    encoder = load_image_encoder(name, weights=path)
    config = timm.data.resolve_model_data_config(plain)
    transform = timm.data.create_transform(**config)
    mean, deviation = (np.array(encoder.preprocessing[key]) for key in ("mean", "deviation"))
    for width, height in ((311, 207), (100, 451), (64, 64)):
        image = photograph(width, height)
        expected = transform(image.convert("RGB")).permute(1, 2, 0).numpy()
        pixels = encoder.pixels(image)
        assert pixels.dtype == np.uint8
        np.testing.assert_allclose((pixels - mean) / deviation, expected, atol=1e-5)


def test_weights_are_those_of_the_network_and_names_are_known(path: Path) -> None:
    plain = save_random("mobilenetv3_small_050", path)
    encoder = load_image_encoder("mobilenetv3_small_050", weights=path)
    assert encoder.n_features == plain.classifier.in_features
    if hasattr(plain, "head_hidden_size"):  # newer timm, where num_features is something else
        assert plain.num_features != encoder.n_features
    save_random("resnet18", path)
    with pytest.raises(ValueError, match=r"^.*does not hold the weights of this network.*\Z"):
        load_image_encoder("resnet34", weights=path)
    with pytest.raises(ValueError, match=r"no image encoder 'resnet51'.*resnet50"):
        load_image_encoder("resnet51")
    with pytest.raises(ValueError, match=r"no weights 'best' of resnet50: choose from .*ram_in1k"):
        load_image_encoder("timm:resnet50.best")


@pytest.mark.usefixtures("offline")
def test_weights_that_cannot_be_downloaded() -> None:
    with pytest.raises(FileNotFoundError, match=r"^.*neither found nor downloaded.*--weights.*\Z"):
        load_image_encoder("resnet18.tv_in1k")
