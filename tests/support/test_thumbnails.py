"""Small pictures are those that were given."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft.support.thumbnails import encode_png

Image = pytest.importorskip("PIL.Image")


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_pixels_come_back(height: int, width: int, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    with Image.open(io.BytesIO(base64.b64decode(encode_png(pixels)))) as image:
        assert image.format == "PNG" and image.mode == "RGB"
        np.testing.assert_array_equal(np.asarray(image), pixels)
