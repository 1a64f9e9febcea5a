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
    """A hidden name beside ``path`` that nobody else has."""
    return path.with_name(f".{path.name}.{uuid4().hex[:_SUFFIX_LENGTH]}")


def write_bytes(path: Path, content: bytes) -> None:
    """Write the whole file or nothing, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = sibling(path)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            sync(file)  # a power cut after the renaming would leave an empty file otherwise
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write the whole file or nothing, making its folder."""
    write_bytes(path, text.encode())


def sync(file: BinaryIO) -> None:
    """Have all that was written to ``file`` on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Have the names in ``folder`` on the disk; Windows offers no such thing."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def claim(folder: Path) -> Iterator[bool]:
    """Whether ``folder``, which is made, is this process's own inside the context."""
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


def append_line(path: Path, line: bytes) -> None:
    """Add a whole line to a file, on the disk before this returns; ``OSError`` if it is full.

    A line that was cut off then, or by a kill, is one without its line break at the end.
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
    """Remove what killed processes left of files in ``folder``, to which nobody may be writing."""
    for path in folder.glob(".*." + "[0-9a-f]" * _SUFFIX_LENGTH):
        path.unlink(missing_ok=True)
