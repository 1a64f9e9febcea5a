"""Small pictures: as PNG, written without a library, and as coloured blocks in a terminal."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rich.text import Text as RichText

Pixels = NDArray[np.uint8]  # (h, w, 3)

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_EIGHT_BIT_RGB = (8, 2, 0, 0, 0)
_FROM_THE_LEFT = 1  # the filter that keeps differences of neighbours
BLOCKS = 12  # of a picture's longer side in a terminal, at most
_HALVES = "▀"  # a character whose upper half has the colour of text


def encode_png(pixels: Pixels) -> str:
    """Return a picture as a PNG in base64."""
    height, width, _ = pixels.shape
    steps = np.diff(pixels, axis=1, prepend=np.zeros((height, 1, 3), np.uint8))
    lines = np.insert(steps.reshape(height, -1), 0, _FROM_THE_LEFT, axis=1)
    header = struct.pack(">IIBBBBB", width, height, *_EIGHT_BIT_RGB)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")
    return base64.b64encode(_SIGNATURE + b"".join(_chunk(*each) for each in chunks)).decode()


def draw_blocks(pictures: Sequence[Pixels]) -> RichText:
    """Draw pictures beside each other, two blocks in each character."""
    from rich.text import Text as RichText

    drawn = [_shrink(pixels) for pixels in pictures]
    text = RichText()
    for line in range(max((len(blocks) + 1) // 2 for blocks in drawn)):
        for blocks in drawn:
            upper, lower = (blocks[i : i + 1].reshape(-1, 3) for i in (2 * line, 2 * line + 1))
            for above, below in zip_longest(upper.tolist(), lower.tolist()):
                ground = "" if below is None else f" on {_colour(below)}"
                text.append(_HALVES, style=f"{_colour(above)}{ground}")
            text.append(" " * (blocks.shape[1] * (len(upper) == 0) + 1))
        text.append("\n")
    return text


def _shrink(pixels: Pixels) -> Pixels:
    """Average neighbouring pixels until the longer side is at most ``BLOCKS``."""
    height, width = (
        max(1, round(side * min(1, BLOCKS / max(pixels.shape[:2])))) for side in pixels.shape[:2]
    )
    rows = np.stack([part.mean(axis=0) for part in np.array_split(pixels, height)])
    blocks = np.stack([part.mean(axis=1) for part in np.array_split(rows, width, axis=1)], axis=1)
    return blocks.round().astype(np.uint8)


def _colour(block: Sequence[int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*block)


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
