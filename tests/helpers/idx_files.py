"""Small files in the format of MNIST's."""

import gzip
import hashlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def write_mnist(folder: Path, images: NDArray[Any], digits: NDArray[Any]) -> dict[str, str]:
    """Write MNIST's four files, the last 100 rows as its test part; return their checksums."""
    checksums = {}
    for part, rows in (("train", slice(None, -100)), ("t10k", slice(-100, None))):
        for kind, array in (("images-idx3", images), ("labels-idx1", digits)):
            content, name = idx(array[rows]), f"{part}-{kind}-ubyte"
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            checksums[name] = hashlib.md5(content).hexdigest()
    return checksums


def idx(array: NDArray[Any]) -> bytes:
    """The content of the file that holds ``array`` of bytes."""
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + np.asarray(array, np.uint8).tobytes()
