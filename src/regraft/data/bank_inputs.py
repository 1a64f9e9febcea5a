"""The images and texts that rows of a bank were made from, found again and checked."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regraft.data.bank_writer import AGAIN, INPUTS
from regraft.data.banks import Bank
from regraft.data.columns import Role
from regraft.data.image_files import BrokenImage, read_image, to_rgb
from regraft.data.image_folders import image_key, is_image_name
from regraft.data.table_rows import read_names
from regraft.data.text_inputs import is_plain, read_text_rows
from regraft.support.digests import digest_text
from regraft.support.extras import MissingExtra
from regraft.support.files import write_text
from regraft.support.json_files import Line, dumps, parse_object, read_lines

if TYPE_CHECKING:
    from PIL.Image import Image

# Hidden, and not in the description: a bank does not depend on where its inputs lie.
SOURCE = ".source.json"
_SIDE = 64  # pixels of a thumbnail's longer side, at most


@dataclass(frozen=True)
class BankInput:
    """The input of a row, as far as it was found: the text or the pixels."""

    name: str  # path of the image; "" for texts
    text: str = ""
    pixels: NDArray[np.uint8] | None = None  # (h, w, 3), a thumbnail


def remember_source(folder: Path, path: Path, column: str) -> None:
    """Note beside a bank where its inputs are, from its folder, and their column in a table."""
    try:
        place = os.path.relpath(path.resolve(), folder.resolve())
    except ValueError:  # on another drive of Windows
        place = str(path.resolve())
    write_text(folder / SOURCE, dumps({"path": place.replace(os.sep, "/"), "column": column}))


def read_inputs(
    bank: Bank, rows: Iterable[int], source: Path | None = None
) -> Mapping[int, BankInput]:
    """Read what ``rows`` of a bank were made from, by row.

    ``source`` is the folder or the table of the inputs; None takes the place that was noted when
    the bank was made. What is not found or was changed since is left out with a warning. A bank of
    arrays has no inputs.
    """
    if bank.kind not in ("images", "texts"):
        return {}
    places = _read_places(bank, set(rows))
    try:
        path, column = _find_source(bank, source)
        read = _read_images if bank.kind == "images" else _read_texts
        found = read(path, column, places)
    except (MissingExtra, OSError, ValueError) as error:
        warnings.warn(f"the {bank.kind} are not shown: {error}", stacklevel=2)
        found = {}
    else:
        if missing := len(places) - len(found):
            warnings.warn(
                f"{missing} of {len(places)} {bank.kind} are not shown: they are not in {path}, or "
                "were changed since the bank was made.",
                stacklevel=2,
            )
    return {row: BankInput(_name(key)) for row, (key, _) in places.items()} | found


def _read_places(bank: Bank, rows: set[int]) -> dict[int, tuple[str | int, str]]:
    """Return the key and the checksum of the input of each row."""
    lines = read_lines(bank.folder / INPUTS)
    return {line.number - 1: _read_place(bank, line) for line in lines if line.number - 1 in rows}


def _read_place(bank: Bank, line: Line) -> tuple[str | int, str]:
    try:
        entry = parse_object(line.content)
        key = entry["path"] if "path" in entry else int(entry["row"])
        return key, str(entry["sha256"])
    except (KeyError, TypeError, ValueError):
        path = bank.folder / INPUTS
        raise ValueError(f"line {line.number} of {path} is damaged: {AGAIN}.") from None


@dataclass(frozen=True)
class RowInput:
    """What a row of a bank was made from, with the cells of its row in a table."""

    key: str | int  # path of the image, or row number of the text
    text: str = ""
    cells: Mapping[str, Any] = field(default_factory=dict)  # by role: id, label, domain


def iterate_inputs(
    bank: Bank, source: Path, column: str, carried: Mapping[str, str]
) -> Iterator[RowInput]:
    """Yield what the rows of a bank were made from, in their order, one at a time.

    ``source`` is what the bank was made from a moment ago, ``column`` its column of paths or texts,
    and ``carried`` maps roles to columns, of which those that a table has are carried along.
    """
    keys = (_read_place(bank, line)[0] for line in read_lines(bank.folder / INPUTS))
    if source.is_dir() or is_image_name(source.name):
        yield from (RowInput(_name(key)) for key in keys)
        return
    known = () if is_plain(source) else read_names(source)
    found = {role: name for role, name in carried.items() if name in known and name != column}
    roles = [Role(column, "text"), *(Role(name, role) for role, name in found.items())]
    rows = read_text_rows(source, roles)
    folder = source.parent.resolve()
    for key in keys:
        for row in rows:
            first, *cells = row.cells
            own = row.number if isinstance(key, int) else image_key(folder, str(first))
            if own == key:
                text = str(first) if isinstance(key, int) else ""
                yield RowInput(_name(key) or key, text, dict(zip(found, cells, strict=True)))
                break


def _find_source(bank: Bank, given: Path | None) -> tuple[Path, str]:
    way_out = "say with --inputs where they are"
    path, column = given, "text"
    note = bank.folder / SOURCE
    if note.is_file():
        try:
            entry = parse_object(note.read_bytes())
            noted, column = bank.folder / str(entry["path"]), str(entry["column"])
        except (KeyError, ValueError):
            raise ValueError(f"{note} is damaged: {way_out}, and delete it.") from None
        path = path or noted
    if path is None:
        raise ValueError(f"{bank.folder} does not know its inputs: {way_out}.")
    if not path.exists():
        raise ValueError(f"there is no {path}: {way_out}.")
    return path, column


def _read_images(
    path: Path, column: str, places: Mapping[int, tuple[str | int, str]]
) -> dict[int, BankInput]:
    root = path if path.is_dir() else path.parent
    found = {}
    for row, (key, sha256) in places.items():
        try:
            pixels, digest = read_image(root / str(key), _thumbnail)
        except BrokenImage:
            continue
        if digest == sha256:
            found[row] = BankInput(_name(key), pixels=pixels)
    return found


def _read_texts(
    path: Path, column: str, places: Mapping[int, tuple[str | int, str]]
) -> dict[int, BankInput]:
    wanted = {key: (row, sha256) for row, (key, sha256) in places.items()}
    found = {}
    for each in read_text_rows(path, [Role(column, "text")]):
        row, sha256 = wanted.get(each.number, (-1, ""))
        if row >= 0 and digest_text(text := str(each.cells[0])) == sha256:
            found[row] = BankInput("", text=text)
    return found


def _name(key: str | int) -> str:
    """Return the path that a key is; a row number in a table is no name."""
    return key.encode(errors="backslashreplace").decode() if isinstance(key, str) else ""


def _thumbnail(image: Image) -> NDArray[np.uint8]:
    small = to_rgb(image, "images")
    small.thumbnail((_SIDE, _SIDE))
    return np.asarray(small)
