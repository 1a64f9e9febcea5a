"""MNIST from its four original files, found on disk or downloaded once, always verified."""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import urllib.request
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from http.client import HTTPException
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regraft.bench.datasets.base import RegisteredDataset
from regraft.support.files import write_bytes

CHECKSUMS = {  # md5 of the uncompressed files
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_TORCHVISION = Path("MNIST", "raw")  # within what DomainBed's script names MNIST again
_TIMEOUT = 30.0  # seconds without a byte
_GZIP_MAGIC = b"\x1f\x8b"
_WAY_OUT = "name a folder that holds MNIST's four files with --data or REGRAFT_DATA"


class DigitDataset(RegisteredDataset):
    """Small images of digits, made from MNIST, which is read when it is first needed."""

    group = "small images"

    def check(self) -> None:
        """Read MNIST, perhaps after downloading it."""
        _ = self._mnist

    @cached_property
    def _mnist(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        return load_mnist(self.data)


def load_mnist(folder: Path | None = None) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Load MNIST: images (70000, 28, 28) and digits (70000,), the training part first.

    The four idx files, gzip or plain, are read from ``folder``, its subfolder ``mnist`` or the one
    that torchvision makes; without it from ``$REGRAFT_DATA`` in the same way; without that from
    the user's cache, after downloading what it lacks. Raises ``FileNotFoundError`` or
    ``ValueError`` with one sentence.
    """
    data = os.environ.get("REGRAFT_DATA")
    if folder is not None or data:
        base = Path(data or "") if folder is None else folder
        folders = [base / "mnist", base, base / _TORCHVISION, base / "MNIST" / _TORCHVISION]
    else:
        folders = [_cache_folder()]
        _download_missing(folders[0], MIRRORS, CHECKSUMS)
    arrays = _read_all(folders, CHECKSUMS)
    images = [arrays[f"{part}-images-idx3-ubyte"] for part in ("train", "t10k")]
    digits = [arrays[f"{part}-labels-idx1-ubyte"] for part in ("train", "t10k")]
    return np.concatenate(images), np.concatenate(digits)


def download_mnist(folder: Path) -> None:
    """Download the files of MNIST that ``folder`` lacks, and check all four.

    Raises ``FileNotFoundError`` or ``ValueError`` with one sentence.
    """
    _download_missing(folder, MIRRORS, CHECKSUMS)
    _read_all([folder], CHECKSUMS)


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "regraft" / "mnist"


def _read_all(
    folders: Sequence[Path], checksums: Mapping[str, str]
) -> dict[str, NDArray[np.uint8]]:
    """Read every file of ``checksums``, each from the first folder that has it."""
    arrays = {}
    for name, checksum in checksums.items():
        path = _find(folders, name)
        if path is None:
            places = " or ".join(map(str, folders[:2]))
            raise FileNotFoundError(f"there is no {name} (or .gz) in {places}: {_WAY_OUT}.")
        arrays[name] = _read(path, checksum)
    return arrays


def _find(folders: Sequence[Path], name: str) -> Path | None:
    paths = (folder / file for folder in folders for file in (name, f"{name}.gz"))
    return next((path for path in paths if path.is_file()), None)


def _read(path: Path, checksum: str) -> NDArray[np.uint8]:
    """Read one idx file as an array of its own shape."""
    try:
        content = _verified(path.read_bytes(), checksum)
    except ValueError as reason:
        name = path.name.removesuffix(".gz")
        raise ValueError(f"{path} {reason}: replace it with {MIRRORS[0]}{name}.gz.") from None
    # The fourth byte counts the dimensions, whose sizes follow.
    start = 4 + 4 * content[3]
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _verified(raw: bytes, checksum: str) -> bytes:
    """Uncompress and check a file; raise ``ValueError`` with what is wrong with it."""
    try:
        # Seen from the content, because browsers unpack .gz files and keep their name.
        content = gzip.decompress(raw) if raw.startswith(_GZIP_MAGIC) else raw
    except EOFError:
        raise ValueError("is truncated") from None
    except (gzip.BadGzipFile, zlib.error):
        raise ValueError("is damaged, for it cannot be unpacked") from None
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != checksum:
        raise ValueError(f"is damaged or another file (md5 {found}, not {checksum})")
    return content


def _download_missing(
    folder: Path, mirrors: Sequence[str], checksums: Mapping[str, str], timeout: float = _TIMEOUT
) -> None:
    """Download the files that ``folder`` lacks, each from the first mirror that has it whole."""
    for name, checksum in checksums.items():
        if _find([folder], name) is None:
            raw = _download(f"{name}.gz", mirrors, checksum, timeout)
            try:
                write_bytes(folder / f"{name}.gz", raw)
            except OSError as error:
                raise ValueError(
                    f"{folder} cannot be written to ({error.strerror}): {_WAY_OUT}."
                ) from None


def _download(file: str, mirrors: Sequence[str], checksum: str, timeout: float) -> bytes:
    failures = []
    for mirror in mirrors:
        try:
            with urllib.request.urlopen(mirror + file, timeout=timeout) as response:
                raw: bytes = response.read()
            _verified(raw, checksum)
        except (OSError, HTTPException, ValueError) as error:
            failures.append(f"{mirror}{file}: {error}")
        else:
            return raw
    raise FileNotFoundError(f"MNIST cannot be downloaded ({'; '.join(failures)}): {_WAY_OUT}.")
