"""Archives whose content cannot leave the folder that it is unpacked to."""

from __future__ import annotations

import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from regraft.support.files import remove, remove_abandoned, sibling

_CHUNK = 1 << 20
_DAMAGES = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, OSError)


class BadArchive(ValueError):
    """An archive that nobody should use; the message is one sentence."""


class _Member(NamedTuple):
    """A file in an archive."""

    name: str
    size: int
    content: IO[bytes]


def unpack(archive: Path, target: Path, check: Callable[[Path], None] | None = None) -> int:
    """Unpack a .zip or .tar archive to the folder ``target``, all of it or nothing; count files.

    If everything in it is in one folder, that folder becomes ``target``. ``check`` is called before
    that, with a folder that holds the new one under its name. Links and devices, and names that
    lead out of it, are refused. Raises ``ValueError`` with one sentence, ``BadArchive`` if the
    archive is at fault.
    """
    if target.exists():
        raise ValueError(f"{target} exists already: remove it first, or choose another folder.")
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(target)
    stage = sibling(target)
    content, ready = stage / "content", stage / "ready"
    try:
        ready.mkdir(parents=True)
        count = _write(archive, content)
        entries = [entry for entry in content.iterdir() if entry.name != "__MACOSX"]
        alone = len(entries) == 1 and entries[0].is_dir()
        (entries[0] if alone else content).replace(ready / target.name)
        if check is not None:
            check(ready)
        (ready / target.name).replace(target)
    except _DAMAGES as error:
        if isinstance(error, OSError) and error.errno is not None:  # of a file, not of bzip2
            raise
        reason = " ".join(str(error).split()).rstrip(".")
        raise BadArchive(f"{archive} is damaged ({reason}): get it again.") from None
    finally:
        remove(stage)
    return count


def _write(archive: Path, stage: Path) -> int:
    free = shutil.disk_usage(stage.parent).free
    count = total = 0
    with _open(archive) as members:
        for member in members:
            total += member.size
            if total > free:
                raise ValueError(
                    f"{archive} needs more than the {free:,} bytes that are free: free some space."
                )
            path = stage / _check(archive, member.name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                file = path.open("xb")
            except (FileExistsError, NotADirectoryError):
                raise _refusal(archive, member.name, "is in it twice") from None
            with file:
                shutil.copyfileobj(member.content, file)
            count += 1
    if not count:
        raise BadArchive(f"{archive} holds no files: get it again.")
    return count


@contextmanager
def _open(archive: Path) -> Iterator[Iterator[_Member]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            yield _zip_members(archive, opened)
    elif archive.is_file() and tarfile.is_tarfile(archive):
        with tarfile.open(archive) as opened_tar:
            yield _tar_members(archive, opened_tar)
    else:
        raise BadArchive(f"{archive} is no .zip, .tar or .tar.gz archive: get it again.")


def _zip_members(archive: Path, opened: zipfile.ZipFile) -> Iterator[_Member]:
    for info in opened.infolist():
        kind = info.external_attr >> 28  # of the file, on systems that write it
        if kind not in (0, 0o4, 0o10):
            raise _refusal(archive, info.filename, "is neither a file nor a folder")
        if not info.is_dir():
            try:
                content = opened.open(info)
            except RuntimeError:  # a password is needed, or another way of packing
                raise ValueError(
                    f"{archive} holds {info.filename!r}, which is encrypted or packed in a way "
                    "that cannot be read here: unpack it yourself, and pack it again."
                ) from None
            with content:
                yield _Member(info.filename, info.file_size, content)


def _tar_members(archive: Path, opened: tarfile.TarFile) -> Iterator[_Member]:
    for info in opened:
        if not (info.isfile() or info.isdir()):
            raise _refusal(archive, info.name, "is neither a file nor a folder")
        content = opened.extractfile(info)
        if content is not None:
            yield _Member(info.name, info.size, content)
    _check_end(opened)


def _check_end(opened: tarfile.TarFile) -> None:
    """Raise ``ReadError`` unless zeros alone follow, to the end of what is compressed.

    At a damaged header Python's reader stops as if it were the end, and only the last bytes of
    what is compressed have a checksum.
    """
    assert opened.fileobj is not None
    zeros = 0
    while rest := opened.fileobj.read(_CHUNK):
        if rest.strip(b"\0"):
            raise tarfile.ReadError("it goes on after what looks like its end")
        zeros += len(rest)
    if zeros < tarfile.BLOCKSIZE:
        raise tarfile.ReadError("its end is missing")


def _check(archive: Path, name: str) -> PurePosixPath:
    """Return a name as a path below a folder, or raise ``ValueError``."""
    path = PurePosixPath(name)
    odd = not path.parts or path.is_absolute() or ".." in path.parts
    if odd or "\\" in name or ":" in name or "\0" in name:
        raise _refusal(archive, name, "would leave the folder")
    return path


def _refusal(archive: Path, name: str, reason: str) -> BadArchive:
    return BadArchive(f"{archive} holds {name!r}, which {reason}: do not use this archive.")
