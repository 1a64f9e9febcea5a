"""Small files in the format of MNIST's."""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray


def idx(array: NDArray[Any]) -> bytes:
    """The content of the file that holds ``array`` of bytes."""
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + np.asarray(array, np.uint8).tobytes()
