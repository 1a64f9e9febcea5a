"""Files from the network that are complete or not there, and go on where a download stopped."""

from __future__ import annotations

import hashlib
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError

from regraft.support.digests import digest_text
from regraft.support.files import explaining_full_disk, hold, sync

_TIMEOUT = 60.0  # seconds without a byte
_CHUNK = 1 << 20
_NO_MORE = 416  # status of a request for bytes after the last one
_PARTIAL = 206
KINDS = {32: "md5", 64: "sha256"}  # of checksums, by their number of digits


def download(
    url: str,
    path: Path,
    checksum: str | None = None,
    on_bytes: Callable[[int, int | None], None] | None = None,
) -> None:
    """Download ``url`` to the file ``path``, which appears complete or not at all.

    What an earlier attempt left is kept and goes on. ``checksum`` is an md5 or sha256 in
    hexadecimal digits. ``on_bytes`` is told how many bytes there are, of how many if that is known.
    Raises ``ValueError`` or ``OSError`` with one sentence.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is no address: pass one that starts with https:// or http://.")
    _find_kind(checksum)  # before hours of downloading
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{digest_text(url)[:8]}.part")
    had = part.stat().st_size if part.exists() else 0
    _receive(url, part, on_bytes)
    try:
        verify(part, checksum)
    except ValueError:
        part.unlink()
        if not had:
            raise
        # The beginning may be of an older file: once more, from the start.
        return download(url, path, checksum, on_bytes)
    part.replace(path)


def verify(path: Path, checksum: str | None) -> None:
    """Raise ``ValueError`` with one sentence unless a file has this md5 or sha256."""
    kind = _find_kind(checksum)
    if checksum is None or kind is None:
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    if found != checksum.lower():
        raise ValueError(
            f"what was received has the {kind} {found} and not {checksum}: check the address and "
            "the checksum."
        )


def _find_kind(checksum: str | None) -> str | None:
    """Return which kind of checksum it is, None for none; ``ValueError`` if it cannot be one."""
    if checksum is None:
        return None
    kind = KINDS.get(len(checksum))
    if kind is None or not all(digit in "0123456789abcdef" for digit in checksum.lower()):
        raise ValueError(f"checksum is {checksum!r}: pass a sha256 or md5 in hexadecimal digits.")
    return kind


def _receive(url: str, part: Path, on_bytes: Callable[[int, int | None], None] | None) -> None:
    """Append what the file ``part`` lacks."""
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
            _copy(response, part, start, on_bytes)
    except HTTPError as error:
        if error.code == _NO_MORE and start:
            if error.headers.get("Content-Range", "").endswith(f"/{start}"):
                return  # all of it is here
            part.unlink()  # the file is another one now
            _receive(url, part, on_bytes)
            return
        raise ValueError(
            f"{url} answers {error.code} ({error.reason}): check the address or try later."
        ) from None
    except (OSError, HTTPException) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        if type(error) is OSError and error.errno is None:  # the disk is full, and it says so
            raise
        raise ValueError(
            f"{url} cannot be reached ({error or type(error).__name__}): run the same command "
            "again, which goes on from there."
        ) from None


def _copy(
    response: HTTPResponse,
    part: Path,
    start: int,
    on_bytes: Callable[[int, int | None], None] | None,
) -> None:
    if response.status != _PARTIAL:
        start = 0  # a server that sends everything again
    length = response.headers.get("Content-Length")
    total = None if length is None else start + int(length)
    with explaining_full_disk(part, total), part.open("ab") as file:
        if not hold(file.fileno()):
            raise ValueError(f"another process is writing {part}: wait until it has ended.")
        file.seek(file.truncate(start))
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            if on_bytes is not None:
                on_bytes(file.tell(), total)
        have = file.tell()
        sync(file)
    if total is not None and have < total:
        raise ValueError(
            f"the connection ended after {have:,} of {total:,} bytes: run the same command again, "
            "which goes on from there."
        )
