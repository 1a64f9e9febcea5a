"""Files that appear complete or not at all: written under another name, then renamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from filelock import FileLock, Timeout

_SUFFIX_LENGTH = 8


def sibling(path: Path) -> Path:
    """Make a hidden name beside ``path`` that nothing else has."""
    return path.with_name(f".{path.name}.{uuid4().hex[:_SUFFIX_LENGTH]}")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write to, which gets the name ``path`` at the end, or is removed at an error.

    Its folder is made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = sibling(path)
    try:
        with temporary.open("wb") as file:
            yield file
            sync(file)  # a power cut after the renaming would leave an empty file otherwise
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write the whole file or nothing, making its folder."""
    with replacing(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Write the whole file or nothing, making its folder."""
    write_bytes(path, text.encode())


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
        written = os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if written < len(line):
        raise OSError(f"{path} took only part of a record: free some disk space.")


def remove_unfinished(folder: Path) -> None:
    """Remove what killed writers left in ``folder``; no process may be writing there."""
    for path in folder.glob(".*." + "[0-9a-f]" * _SUFFIX_LENGTH):
        path.unlink(missing_ok=True)
