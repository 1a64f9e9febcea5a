"""Files that appear complete or not at all: written under another name, then renamed."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

_SUFFIX_LENGTH = 8


def sibling(path: Path) -> Path:
    """A hidden name beside ``path`` that nobody else has."""
    return path.with_name(f".{path.name}.{uuid4().hex[:_SUFFIX_LENGTH]}")


def write_bytes(path: Path, content: bytes) -> None:
    """Write the whole file or nothing, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = sibling(path)
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write the whole file or nothing, making its folder."""
    write_bytes(path, text.encode())


def remove_unfinished(folder: Path) -> None:
    """Remove what killed processes left of files in ``folder``, to which nobody may be writing."""
    for path in folder.glob(".*." + "[0-9a-f]" * _SUFFIX_LENGTH):
        path.unlink(missing_ok=True)
