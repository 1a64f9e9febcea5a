"""JSON without infinities, and files of JSON lines that survive a kill at any moment."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regraft.support.digests import digest_text
from regraft.support.files import append_line
from regraft.support.reading import check_file


def dumps(document: Any, indent: int | None = 2) -> str:
    """Write JSON, with null for infinity and NaN, which it does not have."""
    return json.dumps(_finite(document), indent=indent, allow_nan=False)


def load_json(text: str | bytes, **hooks: Any) -> Any:
    """Read JSON as ``json.loads`` does; raise ``ValueError`` too if it is nested too deeply."""
    try:
        return json.loads(text, **hooks)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def digest_json(document: Any) -> str:
    """Compute the checksum of a document as JSON has it, whatever the order of its keys."""
    return digest_text(json.dumps(json.loads(dumps(document, indent=None)), sort_keys=True))


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Read a JSON object; raise ``ValueError`` with the reason if ``text`` is none."""
    try:
        document = load_json(text)
    except ValueError:  # not JSON, or not even text
        raise ValueError("not JSON") from None
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    return document


@dataclass(frozen=True)
class Line:
    """A line of a file, with its line break if that was written."""

    number: int  # from 1
    content: bytes

    @property
    def is_whole(self) -> bool:
        """Return whether the line break is there; a kill or a full disk leaves a line without."""
        return self.content.endswith(b"\n")


def read_lines(path: Path) -> Iterator[Line]:
    """Read the lines of a file one by one, none if there is no file."""
    check_file(path)
    if path.exists():
        with path.open("rb") as file:
            for number, content in enumerate(file, start=1):
                yield Line(number, content)


def make_line(document: Any) -> bytes:
    """Write JSON data as one line."""
    return dumps(document, indent=None).encode() + b"\n"


def append_json(path: Path, document: Any) -> None:
    """Add a line of JSON to a file and flush it to disk; raise ``OSError`` if the disk is full."""
    append_line(path, make_line(document))


def drop_torn_line(path: Path) -> None:
    """Cut off a last line that has no line break."""
    torn = [len(line.content) for line in read_lines(path) if not line.is_whole]
    if torn:
        os.truncate(path, path.stat().st_size - torn[0])


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
