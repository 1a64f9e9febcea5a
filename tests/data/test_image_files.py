import io
import warnings

import numpy as np
import pytest
from PIL import Image

from regraft.data.image_files import to_rgb


def stored(image: Image.Image, kind: str = "PNG") -> Image.Image:
    file = io.BytesIO()
    image.save(file, kind)
    return Image.open(file)


def test_colours_are_kept_or_scaled_to_8_bits() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, size=(5, 4, 3), dtype=np.uint8)
    np.testing.assert_array_equal(to_rgb(stored(Image.fromarray(pixels)), "images"), pixels)
    assert np.asarray(to_rgb(Image.new("L", (1, 1), 9), "images")).tolist() == [[[9, 9, 9]]]
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((1, 0), 1)
    image.info["transparency"] = b"\x00\xff"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.asarray(to_rgb(image, "images")).tolist() == [[[10, 20, 30], [200, 100, 50]]]


def test_grey_of_16_bits_is_scaled() -> None:
    levels = np.array([[0, 255, 256, 32_768, 65_535]], np.uint16)
    image = stored(Image.fromarray(levels))
    if image.mode == "I":
        pytest.skip("this Pillow does not tell such images from those of 32 bits")
    rgb = np.asarray(to_rgb(image, "images"))
    assert rgb[0, :, 0].tolist() == [0, 0, 1, 128, 255]
    assert (rgb == rgb[:, :, :1]).all()


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_pixels_of_32_bits_are_refused(kind: type) -> None:
    image = stored(Image.fromarray(np.ones((2, 2), kind)), "TIFF")
    with pytest.raises(ValueError, match="32 bits and no known range"):
        to_rgb(image, "images")
