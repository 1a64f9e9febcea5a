"""Checksums (sha256) of files, texts and arrays; caches and banks rely on their values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def digest_parts(parts: Iterable[bytes | memoryview]) -> str:
    """Compute the checksum of byte strings put one after the other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def digest_text(text: str) -> str:
    """Compute the checksum of a text in UTF-8."""
    return digest_parts([text.encode()])


def digest_file(path: str | Path, start: int = 0) -> str:
    """Compute the checksum of a file from the byte ``start`` on, without loading it whole."""
    with open(path, "rb") as file:
        file.seek(start)
        return hashlib.file_digest(file, "sha256").hexdigest()
