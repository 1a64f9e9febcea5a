"""Files that appear complete or not at all: written under another name, then renamed."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from filelock import FileLock, Timeout

if sys.platform != "win32":
    import fcntl

_TRIAL = "regraft-trial"
_TRIAL_BYTES = 2**16
_SUFFIX_LENGTH = 8
_ANY_SUFFIX = "[0-9a-f]" * _SUFFIX_LENGTH + "~"  # which files of users hardly end in


def sibling(path: Path) -> Path:
    """Make a hidden name beside ``path`` that nothing else has."""
    return path.with_name(f".{path.name}.{uuid4().hex[:_SUFFIX_LENGTH]}~")


@contextmanager
def replacing(path: Path, n_bytes: int | None = None) -> Iterator[BinaryIO]:
    """Open a file to write to, which gets the name ``path`` at the end, or is removed at an error.

    Its folder is made. What killed writers of the same file left is removed. ``n_bytes`` is its
    length, if known, for the error of a full disk.
    """
    with explaining_full_disk(path, n_bytes):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(path)
        temporary, file = _open_temporary(path)
        try:
            with file:
                yield file
                sync(file)  # a power cut after the renaming would leave an empty file otherwise
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def _open_temporary(path: Path) -> tuple[Path, BinaryIO]:
    """Open a new file beside ``path``, and hold it so that no other process removes it."""
    while True:
        temporary = sibling(path)
        file = temporary.open("xb")
        if hold(file.fileno()) and os.fstat(file.fileno()).st_nlink:
            return temporary, file
        file.close()  # another process was cleaning up, and took it for abandoned


def write_bytes(path: Path, content: bytes) -> None:
    """Write the whole file or nothing, making its folder."""
    with replacing(path, len(content)) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Write the whole file or nothing, making its folder."""
    write_bytes(path, text.encode())


def try_writing(folder: Path) -> None:
    """Write a small file to ``folder`` and remove it; raise ``OSError`` if that is not possible."""
    path = folder / _TRIAL
    remove_abandoned(path)
    temporary, file = _open_temporary(path)
    try:
        with file:
            file.write(os.urandom(_TRIAL_BYTES))  # which no file system makes smaller
            sync(file)
    finally:
        temporary.unlink(missing_ok=True)


def sync(file: BinaryIO) -> None:
    """Flush ``file`` to disk (fsync)."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the names in ``folder`` to disk (fsync), where the system can; Windows cannot."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explaining_full_disk(path: Path, n_bytes: int | None = None) -> Iterator[None]:
    """Say which file of how many bytes did not fit, and what to do, if the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        place = path.absolute()
        folder = next(each for each in (place, *place.parents) if each.is_dir())
        needed = "" if n_bytes is None else f" of {n_bytes:,} bytes"
        what = f"what goes to {path}" if path.is_dir() else f"{path}{needed}"
        raise OSError(
            f"{what} does not fit on the disk, where {shutil.disk_usage(folder).free:,} "
            "bytes are free: free some space or choose another folder, then run this again."
        ) from None


def hold(descriptor: int) -> bool:
    """Lock what is open as ``descriptor`` until it is closed; a kill releases it too.

    Return False if another process holds it, and True where the system has no such locks.
    """
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # some network drives
            return True
    return True


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Wait until no other process is inside for this folder; leaves no file behind."""
    if sys.platform == "win32":
        with FileLock(folder / ".lock"):
            yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network drives have no locks for folders
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def remove_abandoned(path: Path) -> None:
    """Remove files and folders that killed processes left under a ``sibling`` name of ``path``.

    Those that a living process holds stay.
    """
    if sys.platform == "win32" or not path.parent.is_dir():
        return
    for left in path.parent.glob(f".{escape(path.name)}.{_ANY_SUFFIX}"):
        with suppress(OSError):  # another process was faster
            descriptor = os.open(left, os.O_RDONLY)
            try:
                if not hold(descriptor):
                    continue
                remove(left)
            finally:
                os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that it holds, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def claim(folder: Path) -> Iterator[bool]:
    """Make ``folder`` and lock it; yield False if another process has it locked."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")  # the system's own, which a kill releases
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


@contextmanager
def own(folder: Path, refusal: str) -> Iterator[None]:
    """Make ``folder`` and lock it; raise ``ValueError(refusal)`` if another process has it."""
    with claim(folder) as is_ours:
        if not is_ours:
            raise ValueError(refusal)
        yield


def append_line(path: Path, line: bytes) -> None:
    """Add a whole line to a file and flush it to disk; raise ``OSError`` if the disk is full.

    A line that was cut off by that, or by a kill, has no line break at its end.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        with explaining_full_disk(path, len(line)):
            written = os.write(descriptor, line)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if written < len(line):
        raise OSError(f"{path} took only part of a record: free some disk space.")


def remove_unfinished(folder: Path) -> None:
    """Remove what killed writers left in ``folder``; no process may be writing there."""
    for path in folder.glob(f".*.{_ANY_SUFFIX}"):
        if not path.is_dir():
            path.unlink(missing_ok=True)
