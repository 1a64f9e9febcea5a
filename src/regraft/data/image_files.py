"""Image files: opened and decoded by Pillow, with one sentence for what cannot be read."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from regraft.support.digests import digest_parts
from regraft.support.extras import require

if TYPE_CHECKING:
    from PIL.Image import Image

_EXTRA = "images"
_PER_LEVEL = 256  # of 16 bits for one of 8
_UNBOUNDED = ("I", "F")  # Pillow's modes of 32 bits

T = TypeVar("T")


class BrokenImage(ValueError):
    """A file that cannot be read as an image; ``reason`` names neither the file nor memory."""

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(f"{path} cannot be read as an image ({reason}): replace or remove it.")
        self.reason = reason


def use_image(path: str | Path, use: Callable[[Any], T]) -> T:
    """Return what ``use`` makes of Pillow's image in a file; raise ``BrokenImage`` if it fails."""
    with _raising_broken_image(path) as pillow, pillow.open(path) as image:
        return use(image)


def read_image(path: str | Path, use: Callable[[Any], T]) -> tuple[T, str]:
    """Return what ``use`` makes of the image, and the checksum of the very bytes it has seen."""
    with _raising_broken_image(path) as pillow:
        content = Path(path).read_bytes()
        with pillow.open(io.BytesIO(content)) as image:
            return use(image), digest_parts([content])


def to_rgb(image: Image, extra: str) -> Image:
    """Convert to Pillow's mode RGB; scale grey of 16 bits, which Pillow would cut off.

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


@contextmanager
def _raising_broken_image(path: str | Path) -> Iterator[Any]:
    """Provide Pillow, after a check of the file; turn errors inside into ``BrokenImage``."""
    pillow: Any = require("PIL.Image", _EXTRA)
    try:
        _check_file(path)
        yield pillow
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises almost anything for damaged files
        raise BrokenImage(path, _reason(error, pillow)) from None


def _check_file(path: str | Path) -> None:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would never end
        raise OSError("it is a folder" if stat.S_ISDIR(status.st_mode) else "it is not a file")
    if not status.st_size:
        raise OSError("it is empty")


def _reason(error: Exception, pillow: Any) -> str:
    """Describe an error in the same words for the same fault."""
    if isinstance(error, pillow.UnidentifiedImageError):
        return "it is not an image of a known format"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
