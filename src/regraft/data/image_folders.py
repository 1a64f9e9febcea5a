"""Which images there are: a folder in the layout domain/class/file, or a table of paths."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from regraft.data.columns import Role, quoted
from regraft.data.input_rows import check_characters, name_of, read_rows
from regraft.data.inputs import Census, Listing

_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".webp", ".gif", ".tif", ".tiff")
_LAYOUT = "arrange the folder as domain/class/file"


@dataclass(frozen=True)
class _Entries:
    """What a folder holds, hidden things apart."""

    folders: list[str]  # sorted
    images: list[tuple[str, int]]  # names, sorted, and sizes in bytes
    others: int


def check_source(path: Path) -> None:
    """Raise an error with one sentence unless ``path`` is a folder or a .csv file."""
    if not path.exists():
        raise FileNotFoundError(f"there is no folder or file {path}: check the path.")
    if not path.is_dir() and path.suffix.lower() != ".csv":
        raise ValueError(
            f"{path} is neither a folder nor a .csv file: pass a folder in the layout "
            "domain/class/file, or a table with the columns path, label and domain."
        )


def list_folder(root: Path, file: BinaryIO) -> Listing:
    """Write a line for every image in ``root`` to ``file``, a class of a domain at a time.

    Raises ``ValueError`` with one sentence.
    """
    census = Census()
    empty: list[str] = []
    top = _entries(root)
    _check_folders(root, top, "folders of domains")
    others = top.others + len(top.images)
    for domain in top.folders:
        check_characters(domain, "name", f"a folder in {root}")
        inside = _entries(root / domain)
        _check_folders(root / domain, inside, "folders of classes")
        others += inside.others + len(inside.images)
        found = 0
        for label in inside.folders:
            check_characters(label, "name", f"a folder in {root / domain}")
            entries = _entries(root / domain / label, inner=True)
            others += entries.others
            found += len(entries.images)
            if not entries.images:
                empty.append(label)
            for name, size in entries.images:
                file.write(census.add(label, domain, [f"{domain}/{label}/{name}", size]))
        if not found:
            raise ValueError(
                f"{root / domain} holds no images in class folders: fill or remove it, or pass it "
                "instead if it holds the domains."
            )
    return _with_notes(root, census.listing("images"), others, empty)


def list_table(path: Path, file: BinaryIO, *, image: str, label: str, domain: str) -> Listing:
    """Write a line for every row of a table to ``file``; its paths start from its own folder.

    Raises ``ValueError`` or ``FileNotFoundError`` with one sentence.
    """
    roles = Role(image, "path"), Role(label, "label"), Role(domain, "domain")
    census, folder = Census(), path.parent.resolve()
    for row in read_rows(path, roles):
        place, own_label, own_domain = (
            name_of(cell, role, row.where) for cell, role in zip(row.cells, roles, strict=True)
        )
        try:
            size = _size((path.parent / place).stat())
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(
                f"{row.where} names {place}, which does not exist: correct the path, which starts "
                "from the folder of the table, or drop the row."
            ) from None
        key = _from(folder, Path(place)) if os.path.isabs(place) else place
        file.write(census.add(own_label, own_domain, [key.replace(os.sep, "/"), size]))
    listing = census.listing("images")
    if not listing.rows:
        raise ValueError(f"{path} has no rows: add data below the header.")
    return listing


def _from(folder: Path, image: Path) -> str:
    """The way to ``image``, the same wherever both lie together; ``folder`` is resolved."""
    image = image.parent.resolve() / image.name  # a step up from a link leads elsewhere
    try:
        return os.path.relpath(image, folder)
    except ValueError:  # on another drive of Windows
        return str(image)


def _with_notes(root: Path, listing: Listing, others: int, empty: Sequence[str]) -> Listing:
    notes = []
    if others:
        notes.append(
            f"{others} entries of {root} are left out: they are no images, or in no class folder."
        )
    unused = sorted(set(empty).difference(map(str, listing.classes)))
    if unused:
        notes.append(f"no domain has images of class {quoted(unused)}, which is left out.")
    return replace(listing, notes=(*notes, *listing.notes))


def _entries(folder: Path, *, inner: bool = False) -> _Entries:
    """What ``folder`` holds; ``inner`` if folders with an image's name are broken images there."""
    folders, images, others = [], [], 0
    for entry in _visible(folder):
        is_image = entry.name.lower().endswith(_EXTENSIONS)
        if entry.is_dir() and not (inner and is_image):
            folders.append(entry.name)
        elif is_image:
            images.append((entry.name, _size_of(entry)))
        else:
            others += 1
    if inner:
        others += len(folders)
    return _Entries(sorted(folders), sorted(images), others)


def _visible(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from (entry for entry in entries if not entry.name.startswith("."))


def _size_of(entry: os.DirEntry[str]) -> int:
    try:
        return _size(entry.stat())
    except OSError:  # a link that leads nowhere, told when it is read
        return 0


def _size(status: os.stat_result) -> int:
    """Bytes; 0 for what is no file, whose size means nothing."""
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _check_folders(folder: Path, entries: _Entries, expected: str) -> None:
    if entries.folders:
        return
    if entries.images or entries.others:
        raise ValueError(f"{folder} holds files where {expected} should be: {_LAYOUT}.")
    raise ValueError(f"{folder} is empty: {_LAYOUT}, or remove it.")
