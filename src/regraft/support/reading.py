"""Files are looked at before they are read: what kind they are, where they lie, how large."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container, or "max"
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def check_file(path: Path, folder: Path | None = None) -> None:
    """Raise ``ValueError`` if ``path`` is a pipe, a device or a socket.

    With ``folder``, also if it is a symbolic link to a file that is not inside it. A path where
    nothing is, and a folder, are left to the caller.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(f"{path} is a pipe, a device or a socket: pass a regular file.")
    if (
        folder is not None
        and path.is_symlink()
        and not path.resolve().is_relative_to(folder.resolve())
    ):
        raise ValueError(
            f"{path} is a symbolic link to a file outside of its folder: put a copy there."
        )


def read_file(path: Path, folder: Path | None = None) -> bytes:
    """Read a whole file; raise ``ValueError`` if it should not be, or does not fit into memory."""
    check_file(path, folder)
    check_fits(path.stat().st_size, str(path))
    return path.read_bytes()


def check_fits(n_bytes: int, what: str) -> None:
    """Raise ``ValueError`` if so many bytes, told before they are read, exceed the memory."""
    limit = memory_size()
    if limit is not None and n_bytes > limit:
        raise ValueError(
            f"{what} would take {show_bytes(n_bytes)} of memory, but there are "
            f"{show_bytes(limit)}: pass fewer rows or columns, or check the file."
        )


def memory_size() -> int | None:
    """Return the bytes of memory that this process may have at most; None if nobody knows."""
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on Windows
        return None
    try:
        return min(size, int(_CGROUP_LIMIT.read_text()))
    except (OSError, ValueError):
        return size


def show_bytes(n_bytes: float) -> str:
    """Write a number of bytes for a sentence."""
    unit = 0
    while n_bytes >= 1024 and unit < len(_UNITS) - 1:
        n_bytes, unit = n_bytes / 1024, unit + 1
    return f"{n_bytes:.0f} {_UNITS[unit]}" if unit == 0 else f"{n_bytes:.1f} {_UNITS[unit]}"
