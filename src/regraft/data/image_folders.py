"""Lists of images: a folder in the layout domain/class/file, or a table of paths."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from regraft.data.columns import Role, quoted
from regraft.data.input_blocks import Census, Survey
from regraft.data.table_rows import check_characters, read_cell, read_rows

_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".webp", ".gif", ".tif", ".tiff")
_LAYOUT = "arrange the folder as domain/class/file"


@dataclass(frozen=True)
class Entries:
    """The names of what a folder holds, without hidden entries."""

    folders: list[str]  # sorted
    images: list[str]  # sorted
    others: int


def list_entries(folder: Path, *, of_class: bool = False) -> Entries:
    """List what ``folder`` holds; an image is known by the ending of its name.

    In the folder ``of_class`` a folder with such a name is a broken image.
    """
    folders, images, others = [], [], 0
    with os.scandir(folder) as entries:
        for entry in entries:
            is_image = entry.name.lower().endswith(_EXTENSIONS)
            if entry.name.startswith("."):
                continue
            if entry.is_dir() and not (of_class and is_image):
                folders.append(entry.name)
            elif is_image:
                images.append(entry.name)
            else:
                others += 1
    return Entries(sorted(folders), sorted(images), others)


def check_source(path: Path) -> None:
    """Raise an error with one sentence unless ``path`` is a folder or a .csv file."""
    if not path.exists():
        raise FileNotFoundError(f"there is no folder or file {path}: check the path.")
    if not path.is_dir() and path.suffix.lower() != ".csv":
        raise ValueError(
            f"{path} is neither a folder nor a .csv file: pass a folder in the layout "
            "domain/class/file, or a table with the columns path, label and domain."
        )


def list_folder(root: Path, file: BinaryIO) -> Survey:
    """Write a line for every image in ``root`` to ``file``, or raise ``ValueError``."""
    census = Census()
    empty: list[str] = []
    top = list_entries(root)
    _check_folders(root, top, "folders of domains")
    others = top.others + len(top.images)
    for domain in top.folders:
        check_characters(domain, "name", f"a folder in {root}")
        inside = list_entries(root / domain)
        _check_folders(root / domain, inside, "folders of classes")
        others += inside.others + len(inside.images)
        found = 0
        for label in inside.folders:
            check_characters(label, "name", f"a folder in {root / domain}")
            entries = list_entries(root / domain / label, of_class=True)
            others += entries.others + len(entries.folders)
            found += len(entries.images)
            if not entries.images:
                empty.append(label)
            for name in entries.images:
                size = _size_or_zero(root / domain / label / name)
                file.write(census.add(label, domain, [f"{domain}/{label}/{name}", size]))
        if not found:
            raise ValueError(
                f"{root / domain} holds no images in class folders: fill or remove it, or pass it "
                "instead if it holds the domains."
            )
    return _with_notes(root, census.survey("images"), others, empty)


def list_table(path: Path, file: BinaryIO, *, image: str, label: str, domain: str) -> Survey:
    """Write a line for every row of a table to ``file``; its paths start from its own folder."""
    roles = Role(image, "path"), Role(label, "label"), Role(domain, "domain")
    census, folder = Census(), path.parent.resolve()
    for row in read_rows(path, roles):
        place, own_label, own_domain = (
            read_cell(cell, role, row.where) for cell, role in zip(row.cells, roles, strict=True)
        )
        try:
            size = _size(path.parent / place)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(
                f"{row.where} names {place}, which does not exist: correct the path, which starts "
                "from the folder of the table, or drop the row."
            ) from None
        key = _from(folder, Path(place)) if os.path.isabs(place) else place
        file.write(census.add(own_label, own_domain, [key.replace(os.sep, "/"), size]))
    listing = census.survey("images")
    if not listing.rows:
        raise ValueError(f"{path} has no rows: add data below the header.")
    return listing


def _from(folder: Path, image: Path) -> str:
    """Return the relative path of ``image`` from ``folder``, which is resolved."""
    image = image.parent.resolve() / image.name  # a step up from a link leads elsewhere
    try:
        return os.path.relpath(image, folder)
    except ValueError:  # on another drive of Windows
        return str(image)


def _with_notes(root: Path, listing: Survey, others: int, empty: Sequence[str]) -> Survey:
    notes = []
    if others:
        notes.append(
            f"{others} entries of {root} are left out: they are no images, or in no class folder."
        )
    unused = sorted(set(empty).difference(map(str, listing.classes)))
    if unused:
        notes.append(f"no domain has images of class {quoted(unused)}, which is left out.")
    return replace(listing, notes=(*notes, *listing.notes))


def _size_or_zero(path: Path) -> int:
    try:
        return _size(path)
    except OSError:  # a link that leads nowhere, which is reported when it is read
        return 0


def _size(path: Path) -> int:
    """Return the size in bytes; 0 for what is no file, whose size means nothing."""
    status = path.stat()
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _check_folders(folder: Path, entries: Entries, expected: str) -> None:
    if entries.folders:
        return
    if entries.images or entries.others:
        raise ValueError(f"{folder} holds files where {expected} should be: {_LAYOUT}.")
    raise ValueError(f"{folder} is empty: {_LAYOUT}, or remove it.")
