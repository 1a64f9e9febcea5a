"""The files of a bank, written block by block, safe against a kill at any moment."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regraft.data.bank_seal import seal_bank
from regraft.support.digests import digest_file, digest_parts
from regraft.support.files import (
    explaining_full_disk,
    remove_unfinished,
    sync,
    sync_folder,
    write_text,
)
from regraft.support.json_files import (
    append_json,
    drop_torn_line,
    make_line,
    parse_object,
    read_lines,
)
from regraft.support.schema import COUNT, SHA256, TEXT, check_fields, list_of

FORMAT = 1
DESCRIPTION, ARRAYS, INPUTS = "bank.json", "features.safetensors", "inputs.jsonl"
UNFINISHED = ".unfinished"  # the folder of what is not whole yet
DATA_START = 512  # bytes: the header is written last, into the space left for it
MOST_NAMED = 100  # of the skipped inputs, in the description

_LENGTH_BYTES = 8  # a safetensors file starts with the length of its header
_SIZES = {"F32": 4, "I64": 8}  # bytes of a number
_KINDS = {"features": ("F32", 2), "label": ("I64", 1), "domain": ("I64", 1)}
COLUMNS = ("label", "domain")  # what a bank may hold beside features
AGAIN = "delete the bank and make it again"  # the way out for a damaged one
Names = Sequence[str | int] | None  # of classes or domains; None for a bank without them

_JOURNAL, _NUMBERS = "journal.jsonl", "numbers.part"
_PARTS = {ARRAYS: "features.part", INPUTS: "inputs.part"}  # names before they are whole
_ROWS_AT_ONCE = 65_536  # of labels and domains, copied at the end
_ENTRY = {"rows": COUNT, "inputs": COUNT, "skipped": list_of(list_of(TEXT)), "sha256": SHA256}


@dataclass(frozen=True)
class Input:
    """The input of a row: ``key`` is its path, or its row number in a table."""

    key: str | int
    sha256: str

    def line(self) -> bytes:
        """Write the line of this input in the file of inputs."""
        name = "row" if isinstance(self.key, int) else "path"
        return make_line({name: self.key, "sha256": self.sha256})


class Skipped(NamedTuple):
    """An input that has no row in the bank, and why."""

    key: str
    reason: str


@dataclass(frozen=True)
class Origin:
    """All that the rows of a bank depend on, apart from rounding."""

    kind: str  # what the rows were made from: images, texts or arrays
    encoder: str  # its name
    fingerprint: str  # checksum of the encoder's weights
    preprocessing: Mapping[str, Any]  # what was done to the inputs, plain JSON data
    listing: str | None = None  # checksum of the list of inputs; None for arrays
    weights: str = ""  # name of the file that the encoder's weights came from; "" for its own


def has_blocks(work: Path) -> bool:
    """Return whether an unfinished bank, in its folder ``work``, has any block yet."""
    journal = work / _JOURNAL
    return journal.exists() and journal.stat().st_size > 0


class BankWriter:
    """A writer of a bank with ``n_features`` columns to ``folder``; one process at a time.

    ``columns`` says which of ``COLUMNS`` the bank has, in that order. A block is on the disk when
    ``append`` returns: a new writer on the same folder goes on after the last block. The folder is
    a bank only after ``finish``. Raises ``ValueError`` with one sentence if what is there is
    damaged.
    """

    def __init__(self, folder: Path, n_features: int, columns: Sequence[str] = COLUMNS) -> None:
        self._folder, self.n_features, self._columns = folder, n_features, tuple(columns)
        self._work = folder / UNFINISHED
        self._work.mkdir(parents=True, exist_ok=True)
        remove_unfinished(folder)
        for whole, part in _PARTS.items():  # a kill came between the renaming and the description
            if (folder / whole).exists() and not (folder / DESCRIPTION).exists():
                (folder / whole).replace(self._work / part)
        self.blocks = self.rows = self.n_skipped = 0
        self._input_bytes = 0
        self._skipped: list[Skipped] = []
        self._replay()
        self._features = self._open(_PARTS[ARRAYS], self._feature_bytes())
        self._inputs = self._open(_PARTS[INPUTS], self._input_bytes)
        self._numbers = self._open(_NUMBERS, self.rows * len(self._columns) * _SIZES["I64"])

    def append(
        self,
        features: NDArray[np.float32],
        numbers: Sequence[NDArray[np.int64]],
        inputs: Sequence[Input],
        skipped: Sequence[Skipped] = (),
    ) -> None:
        """Add a block: ``features`` (b, d), ``numbers`` (b,) of each column, ``inputs`` (b,).

        The numbers are indices into the classes and domains given to ``finish``.
        """
        lines = b"".join(each.line() for each in inputs)
        columns = np.stack(numbers, axis=1) if numbers else np.empty((len(features), 0))
        contents = (
            np.ascontiguousarray(features, "<f4").tobytes(),
            columns.astype("<i8").tobytes(),
            lines,
        )
        for file, content in zip(
            (self._features, self._numbers, self._inputs), contents, strict=True
        ):
            with explaining_full_disk(self._folder, len(content)):
                file.write(content)
                sync(file)
        rows, input_bytes = self.rows + len(features), self._input_bytes + len(lines)
        entry = {"rows": rows, "inputs": input_bytes, "skipped": list(skipped)}
        entry["sha256"] = digest_parts([json.dumps(entry).encode(), *contents])
        append_json(self._work / _JOURNAL, entry)
        self._count(rows, input_bytes, skipped)

    def finish(self, origin: Origin, classes: Names, domains: Names) -> None:
        """Turn all blocks into the bank; raise ``ValueError`` if they have no rows.

        ``classes`` and ``domains`` are None for a column that the bank does not have.
        """
        if not self.rows:
            raise ValueError(
                f"all {self.n_skipped} inputs were skipped, so {self._folder} would be a bank "
                "without rows: repair the inputs."
            )
        self._write_columns()
        self._features.seek(0)
        self._features.write(header(self.rows, self.n_features, self._columns))
        sync(self._features)
        self.close()
        arrays, inputs = (self._work / part for part in (_PARTS[ARRAYS], _PARTS[INPUTS]))
        description: dict[str, Any] = {
            "format": FORMAT,
            "rows": self.rows,
            "features": self.n_features,
            "classes": None if classes is None else list(classes),
            "domains": None if domains is None else list(domains),
            "encoder": {
                "name": origin.encoder,
                "fingerprint": origin.fingerprint,
                **({"weights": origin.weights} if origin.weights else {}),
            },
            "preprocessing": dict(origin.preprocessing),
            "inputs": {
                "kind": origin.kind,
                "listing": origin.listing,
                "skipped": self.n_skipped,
                "first_skipped": self._skipped,
            },
            "checksums": {"features": data_checksum(arrays), "inputs": inputs_checksum(inputs)},
        }
        description |= seal_bank(description, arrays, inputs)
        # Without its description an older bank is none, and never a mixture of two.
        (self._folder / DESCRIPTION).unlink(missing_ok=True)
        arrays.replace(self._folder / ARRAYS)
        inputs.replace(self._folder / INPUTS)
        sync_folder(self._folder)  # the description must not outlive a power cut alone
        write_text(
            self._folder / DESCRIPTION, json.dumps(description, indent=2, allow_nan=False) + "\n"
        )
        sync_folder(self._folder)
        shutil.rmtree(self._work)

    def close(self) -> None:
        """Close the files; calling this again does no harm."""
        for file in (self._features, self._inputs, self._numbers):
            file.close()

    def _replay(self) -> None:
        """Count the blocks in the journal, and cut off a line that a kill left torn."""
        drop_torn_line(self._work / _JOURNAL)
        for line in read_lines(self._work / _JOURNAL):
            try:
                entry = parse_object(line.content)
                check_fields(entry, _ENTRY)
                seal = entry.pop("sha256")
                described = json.dumps(entry).encode()
                parts = self._read_block(entry["rows"], entry["inputs"])
                if digest_parts([described, *parts]) != seal:
                    raise ValueError("its rows were changed since they were written")
                skipped = [Skipped(*each) for each in entry["skipped"]]
                self._count(entry["rows"], entry["inputs"], skipped)
            except (OSError, TypeError, ValueError) as error:
                journal = self._work / _JOURNAL
                raise ValueError(
                    f"line {line.number} of {journal} ({error}) or its block is damaged: delete "
                    f"{self._folder} and run the same command again."
                ) from None

    def _read_block(self, rows: int, input_bytes: int) -> Iterator[bytes]:
        """Read the block after those that are counted, up to ``rows`` and ``input_bytes``."""
        width, numbers = self.n_features * _SIZES["F32"], len(self._columns) * _SIZES["I64"]
        for name, start, end in (
            (_PARTS[ARRAYS], DATA_START + self.rows * width, DATA_START + rows * width),
            (_NUMBERS, self.rows * numbers, rows * numbers),
            (_PARTS[INPUTS], self._input_bytes, input_bytes),
        ):
            with (self._work / name).open("rb") as file:
                file.seek(start)
                yield file.read(max(0, end - start))

    def _count(self, rows: int, input_bytes: int, skipped: Sequence[Skipped]) -> None:
        self.blocks += 1
        self.rows, self._input_bytes = rows, input_bytes
        self.n_skipped += len(skipped)
        self._skipped += skipped[: MOST_NAMED - len(self._skipped)]

    def _open(self, name: str, length: int) -> BinaryIO:
        """Open a file and cut it to ``length``, to be continued from there."""
        path = self._work / name
        path.touch()
        if path.stat().st_size < length and self.blocks:
            raise self._damage()
        os.truncate(path, length)
        file = path.open("r+b")
        file.seek(length)
        return file

    def _feature_bytes(self) -> int:
        return DATA_START + self.rows * self.n_features * 4

    def _write_columns(self) -> None:
        """Write all labels, then all domains, after the features."""
        n_columns = len(self._columns)
        if not n_columns:
            return  # what is empty cannot be mapped
        numbers = np.memmap(self._work / _NUMBERS, "<i8", mode="r", shape=(self.rows, n_columns))
        self._features.seek(self._feature_bytes())
        for column in range(n_columns):
            for start in range(0, self.rows, _ROWS_AT_ONCE):
                chunk = numbers[start : start + _ROWS_AT_ONCE, column]
                self._features.write(chunk.tobytes())

    def _damage(self) -> ValueError:
        return ValueError(
            f"{self._work} is damaged: delete {self._folder} and run the same command again."
        )


def row_inputs(rows: NDArray[np.float32], first: int) -> list[Input]:
    """Describe ``rows`` (b, d) that were given as numbers; ``first`` is the number of the first."""
    return [Input(first + i, digest_parts([row.tobytes()])) for i, row in enumerate(rows)]


@dataclass(frozen=True)
class Place:
    """The place of an array in a file."""

    shape: tuple[int, ...]
    start: int  # bytes from the beginning of the file


def header(rows: int, n_features: int, columns: Sequence[str] = COLUMNS) -> bytes:
    """Make the first ``DATA_START`` bytes of a file of ``features`` and ``columns``."""
    entries, end = {}, 0
    for name in ("features", *columns):
        dtype, dimensions = _KINDS[name]
        shape = [rows, n_features][:dimensions]
        start, end = end, end + math.prod(shape) * _SIZES[dtype]
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    length = DATA_START - _LENGTH_BYTES
    text = json.dumps(entries, separators=(",", ":")).encode()
    return length.to_bytes(_LENGTH_BYTES, "little") + text.ljust(length)


def read_places(path: Path) -> dict[str, Place]:
    """Find where each array lies in a file; raise ``ValueError`` if that is not in the file.

    A file without labels or domains does not have these arrays.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        data_start = _LENGTH_BYTES + length
        try:
            entries = parse_object(file.read(length) if data_start <= size else b"")
        except ValueError:
            raise _damage(path) from None
    if "features" not in entries:
        raise ValueError(f"{path} has no array 'features': it is not of a bank, so {AGAIN}.")
    try:
        return {
            name: _place(entries[name], data_start, size, *kind)
            for name, kind in _KINDS.items()
            if name in entries
        }
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
