"""Images of any kind as red, green and blue of 8 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regraft.support.extras import require

if TYPE_CHECKING:
    from PIL.Image import Image

_PER_LEVEL = 256  # of 16 bits for one of 8
_UNBOUNDED = ("I", "F")  # Pillow's modes of 32 bits


def to_rgb(image: Image, extra: str) -> Image:
    """The image in Pillow's mode RGB; grey of 16 bits is scaled, where Pillow would cut it off.

    Transparency is ignored. Raises ``ValueError`` with one sentence for pixels of 32 bits.
    """
    if image.mode in _UNBOUNDED:
        raise ValueError("its pixels have 32 bits and no known range: save it with 8 or 16 bits.")
    if image.mode.startswith("I;16"):
        pillow: Any = require("PIL.Image", extra)
        levels = np.asarray(image) // _PER_LEVEL
        image = pillow.fromarray(levels.astype(np.uint8))
    elif "transparency" in image.info:
        image = image.convert("RGBA")  # Pillow warns of the direct way, to the same colours
    return image.convert("RGB")
