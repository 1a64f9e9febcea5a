"""Small pictures are those that were given."""

import base64
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft.support.thumbnails import BLOCKS, draw_blocks, encode_png

Image = pytest.importorskip("PIL.Image")


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_pixels_come_back(height: int, width: int, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    with Image.open(io.BytesIO(base64.b64decode(encode_png(pixels)))) as image:
        assert image.format == "PNG" and image.mode == "RGB"
        np.testing.assert_array_equal(np.asarray(image), pixels)


def test_blocks_have_the_colours_of_the_picture() -> None:
    picture = np.zeros((2 * BLOCKS, 2 * BLOCKS, 3), np.uint8)
    picture[:BLOCKS] = 255, 0, 10
    lines = draw_blocks([picture, picture[:, :BLOCKS]]).split("\n")
    assert [len(line) for line in lines] == [BLOCKS + BLOCKS // 2 + 2] * (BLOCKS // 2)
    assert {str(span.style) for span in lines[0].spans} == {"#ff000a on #ff000a"}
    assert {str(span.style) for span in lines[-1].spans} == {"#000000 on #000000"}


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=4))
def test_pictures_of_any_shape_stand_beside_each_other(shapes: list[tuple[int, int]]) -> None:
    lines = draw_blocks([np.zeros((*shape, 3), np.uint8) for shape in shapes]).split("\n")
    assert len({len(line) for line in lines}) == 1 and len(lines) <= (BLOCKS + 1) // 2
    assert len(lines[0]) <= len(shapes) * (BLOCKS + 1)
