"""The files of a bank of features, and the header of the one that holds its arrays."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regraft.support.digests import digest_file, digest_parts
from regraft.support.json_files import parse_object, read_lines

FORMAT = 1
DESCRIPTION, ARRAYS, INPUTS = "bank.json", "features.safetensors", "inputs.jsonl"
UNFINISHED = ".unfinished"  # the folder of what is not whole yet
DATA_START = 512  # bytes: the header is written last, into the space left for it
MOST_NAMED = 100  # of the skipped inputs, in the description

_LENGTH_BYTES = 8  # a safetensors file starts with the length of its header
_SIZES = {"F32": 4, "I64": 8}  # bytes of a number
_KINDS = {"features": ("F32", 2), "label": ("I64", 1), "domain": ("I64", 1)}
AGAIN = "delete the bank and make it again"  # the way out for a damaged one


@dataclass(frozen=True)
class Place:
    """The place of an array in a file."""

    shape: tuple[int, ...]
    start: int  # bytes from the beginning of the file


def header(rows: int, n_features: int) -> bytes:
    """Make the first ``DATA_START`` bytes of a file of ``features``, ``label`` and ``domain``."""
    entries, end = {}, 0
    for name, (dtype, dimensions) in _KINDS.items():
        shape = [rows, n_features][:dimensions]
        start, end = end, end + math.prod(shape) * _SIZES[dtype]
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    length = DATA_START - _LENGTH_BYTES
    text = json.dumps(entries, separators=(",", ":")).encode()
    return length.to_bytes(_LENGTH_BYTES, "little") + text.ljust(length)


def read_places(path: Path) -> dict[str, Place]:
    """Find where each array lies in a file; raise ``ValueError`` if that is not in the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        data_start = _LENGTH_BYTES + length
        try:
            entries = parse_object(file.read(length) if data_start <= size else b"")
        except ValueError:
            raise _damage(path) from None
    missing = [name for name in _KINDS if name not in entries]
    if missing:
        raise ValueError(f"{path} has no array {missing[0]!r}: it is not of a bank, so {AGAIN}.")
    try:
        return {name: _place(entries[name], data_start, size, *_KINDS[name]) for name in _KINDS}
    except (KeyError, TypeError, ValueError):
        raise _damage(path) from None


def _place(entry: Any, data_start: int, file_size: int, dtype: str, dimensions: int) -> Place:
    """Read an entry of the header; raise an error if it is not an array of this kind."""
    shape = tuple(int(length) for length in entry["shape"])
    start, end = (int(offset) for offset in entry["data_offsets"])
    is_whole = end - start == math.prod(shape) * _SIZES[dtype] and data_start + end <= file_size
    is_kind = entry["dtype"] == dtype and len(shape) == dimensions
    if not (is_whole and is_kind) or min((start, *shape)) < 0:
        raise ValueError("not an array of this kind")
    return Place(shape, data_start + start)


def _damage(path: Path) -> ValueError:
    return ValueError(f"{path} is damaged or cut off: {AGAIN}.")


def data_checksum(path: Path) -> str:
    """Compute the checksum of all that follows the header of a safetensors file."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    return digest_file(path, start=_LENGTH_BYTES + length)


def inputs_checksum(path: Path) -> str:
    """Compute the checksum of the inputs' checksums; raise ``ValueError`` if a line has none."""

    def digests() -> Iterator[bytes]:
        for line in read_lines(path):
            try:
                yield bytes.fromhex(parse_object(line.content)["sha256"])
            except (KeyError, TypeError, ValueError):
                raise ValueError(f"line {line.number} of {path} is damaged: {AGAIN}.") from None

    return digest_parts(digests())
