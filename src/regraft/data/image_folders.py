"""Lists of images: a folder in the layout domain/class/file or any other, or a table of paths."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from regraft.data.columns import Role, quoted
from regraft.data.input_blocks import Census, Survey, Tags
from regraft.data.table_rows import check_characters, read_cell, read_rows

_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".pgm")
_LAYOUT = (
    "arrange the folder as domain/class/file, or take all images in it without labels and domains "
    "(--unlabelled)"
)


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
            is_image = is_image_name(entry.name)
            if entry.name.startswith("."):
                continue
            if entry.is_dir() and not (of_class and is_image):
                folders.append(entry.name)
            elif is_image:
                images.append(entry.name)
            else:
                others += 1
    return Entries(sorted(folders), sorted(images), others)


def holds_images(folder: Path, depth: int = 2) -> bool:
    """Return whether a folder holds images, by their names, as deep as domain/class/file."""
    found = list_entries(folder)
    return bool(found.images) or (
        depth > 0 and any(holds_images(folder / name, depth - 1) for name in found.folders)
    )


def check_source(path: Path) -> None:
    """Raise an error with one sentence unless ``path`` is a folder, a .csv file or an image."""
    if not path.exists():
        raise FileNotFoundError(f"there is no folder or file {path}: check the path.")
    if not (path.is_dir() or path.suffix.lower() == ".csv" or is_image_name(path.name)):
        raise ValueError(
            f"{path} is neither a folder nor a .csv file nor an image: pass a folder in the layout "
            "domain/class/file, or a table with the columns path, label and domain."
        )


def is_image_name(name: str) -> bool:
    """Return whether a file of this name is taken for an image."""
    return name.lower().endswith(_EXTENSIONS)


def is_flat(path: Path) -> bool:
    """Return whether ``path`` is an image, or a folder with images and no folders."""
    if not path.is_dir():
        return is_image_name(path.name)
    entries = list_entries(path)
    return bool(entries.images) and not entries.folders


def list_all(path: Path, file: BinaryIO) -> Survey:
    """Write a line without label and domain for every image below ``path``, or for this image.

    Images of a folder come before those of the folders in it. Raises ``ValueError`` if there are
    none.
    """
    census, others = Census(), 0
    root = path if path.is_dir() else path.parent
    seen: set[tuple[int, int]] = set()  # for links that lead upwards
    folders = [""] if path.is_dir() else []
    if not folders:
        file.write(census.add(None, None, [path.name, _size_or_zero(path)]))
    while folders:
        inside = folders.pop()
        status = (root / inside).stat()
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        entries = list_entries(root / inside)
        others += entries.others
        for name in entries.images:
            size = _size_or_zero(root / inside / name)
            file.write(census.add(None, None, [f"{inside}{name}", size]))
        folders += [f"{inside}{name}/" for name in reversed(entries.folders)]
    listing = census.survey("images")
    if not listing.rows:
        raise ValueError(f"{path} holds no images: pass a folder with {', '.join(_EXTENSIONS)}.")
    if not others:
        return listing
    return replace(listing, notes=(_left_out(others, path),))


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
                f"{root / domain} holds no images in class folders: fill or remove it, pass it "
                "instead if it holds the domains, or take all images below it without labels and "
                "domains (--unlabelled)."
            )
    return _with_notes(root, census.survey("images"), others, empty)


def list_table(
    path: Path, file: BinaryIO, *, image: str, label: str | None, domain: str | None
) -> Survey:
    """Write a line for every row of a table to ``file``; its paths start from its own folder."""
    tags, role = Tags(label, domain), Role(image, "path")
    census, folder = Census(), path.parent.resolve()
    for row in read_rows(path, [role, *tags.roles]):
        place = read_cell(row.cells[0], role, row.where)
        own_label, own_domain = tags.read(row.cells[1:], row.where)
        try:
            size = _size(path.parent / place)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(
                f"{row.where} names {place}, which does not exist: correct the path, which starts "
                "from the folder of the table, or drop the row."
            ) from None
        file.write(census.add(own_label, own_domain, [image_key(folder, place), size]))
    listing = census.survey("images")
    if not listing.rows:
        raise ValueError(f"{path} has no rows: add data below the header.")
    return listing


def image_key(folder: Path, place: str) -> str:
    """Return the path of an image from ``folder``, which is resolved, with slashes."""
    if os.path.isabs(place):
        image = Path(place)
        image = image.parent.resolve() / image.name  # a step up from a link leads elsewhere
        try:
            place = os.path.relpath(image, folder)
        except ValueError:  # on another drive of Windows
            place = str(image)
    return place.replace(os.sep, "/")


def _left_out(others: int, root: Path, place: str = "") -> str:
    """Say that some files or folders are not used."""
    if others == 1:
        return f"1 entry of {root} is left out: it is no image{place}."
    return f"{others} entries of {root} are left out: they are no images{place}."


def _with_notes(root: Path, listing: Survey, others: int, empty: Sequence[str]) -> Survey:
    notes = []
    if others:
        notes.append(_left_out(others, root, ", or in no class folder"))
    unused = sorted(set(empty).difference(map(str, listing.classes or ())))
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
