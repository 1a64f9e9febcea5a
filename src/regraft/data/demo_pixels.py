"""The images behind some rows of the shipped Colored MNIST embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from regraft.data.examples import demo_file

_PIXELS = "cmnist_pixels.safetensors"


@dataclass(frozen=True)
class DemoPixels:
    """Coloured digits, and the rows of the demo's sources that were made from them."""

    row: NDArray[np.int64]  # (m,) into the source rows of load_demo
    images: NDArray[np.uint8]  # (m, 28, 28, 3) red, green and blue
    y: NDArray[np.uint8]  # (m,)
    colour: NDArray[np.uint8]  # (m,) 0 is red, 1 is green


def load_demo_pixels(cell: str = "-90%") -> DemoPixels:
    """Load the images of the first rows of each source of a cell."""
    number = demo_file(cell).removeprefix("cmnist_").partition(".")[0]
    with (
        as_file(files("regraft") / "data" / _PIXELS) as path,
        safe_open(path, framework="numpy") as pixels,
    ):
        columns = {
            name: pixels.get_tensor(f"{name}_{number}") for name in ("row", "images", "y", "colour")
        }
    grey, colour = columns["images"], columns["colour"]
    images = np.zeros((*grey.shape, 3), np.uint8)
    images[np.arange(len(grey)), :, :, colour] = grey
    return DemoPixels(columns["row"], images, columns["y"], colour)
