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

    What an earlier attempt left goes on if the server's file is still the same by its ETag or date,
    or if a checksum will tell. ``checksum`` is an md5 or sha256 in hexadecimal digits. ``on_bytes``
    is told how many bytes there are, of how many if that is known. Raises ``ValueError`` or
    ``OSError`` with one sentence; a file that is not the one of the checksum is removed.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is no address: pass one that starts with https:// or http://.")
    _find_kind(checksum)  # before hours of downloading
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{digest_text(url)[:8]}.part")
    # Else nothing would tell that what follows is of another file.
    goes_on = part.exists() and (checksum is not None or _read_version(part) != "")
    _receive(url, part, goes_on, on_bytes)
    if goes_on and _find_difference(part, checksum):
        # The beginning may be of an older file: once more, from the start.
        _receive(url, part, False, on_bytes)
    if difference := _find_difference(part, checksum):
        _discard(part)
        raise ValueError(
            f"what was received has {difference}, and was removed: check the address and the "
            "checksum."
        )
    part.replace(path)
    _discard(part)


def verify(path: Path, checksum: str | None) -> None:
    """Raise ``ValueError`` with one sentence unless a file has this md5 or sha256."""
    if difference := _find_difference(path, checksum):
        raise ValueError(f"{path} has {difference}: check the file and the checksum.")


def is_verified(path: Path, checksum: str | None) -> bool:
    """Return whether a file is there, and a checksum proves that it is the right one."""
    return checksum is not None and path.is_file() and not _find_difference(path, checksum)


def _find_difference(path: Path, checksum: str | None) -> str:
    """Return how the md5 or sha256 of a file differs; nothing if it does not."""
    kind = _find_kind(checksum)
    if checksum is None or kind is None:
        return ""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    return "" if found == checksum.lower() else f"the {kind} {found} and not {checksum}"


def _version_file(part: Path) -> Path:
    """Return the file beside a part that says which version of the server's file it is of."""
    return part.with_suffix(".version")


def _read_version(part: Path) -> str:
    file = _version_file(part)
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _write_version(part: Path, version: str) -> None:
    if version:
        _version_file(part).write_text(version, encoding="utf-8")
    else:
        _version_file(part).unlink(missing_ok=True)


def _find_version(response: HTTPResponse) -> str:
    """Return the ETag or the date that a server tells its versions apart by; nothing if none."""
    tag = response.headers.get("ETag", "")
    # A weak one may stay the same when bytes change.
    return tag if tag.startswith('"') else response.headers.get("Last-Modified", "")


def _advise(part: Path) -> str:
    only = "" if _read_version(part) or not part.exists() else " only with --checksum"
    return f"run the same command again, which goes on from there{only}"


def _discard(part: Path) -> None:
    """Remove what was received so far."""
    part.unlink(missing_ok=True)
    _version_file(part).unlink(missing_ok=True)


def _find_kind(checksum: str | None) -> str | None:
    """Return which kind of checksum it is, None for none; ``ValueError`` if it cannot be one."""
    if checksum is None:
        return None
    kind = KINDS.get(len(checksum))
    if kind is None or not all(digit in "0123456789abcdef" for digit in checksum.lower()):
        raise ValueError(f"checksum is {checksum!r}: pass a sha256 or md5 in hexadecimal digits.")
    return kind


def _receive(
    url: str,
    part: Path,
    goes_on: bool,
    on_bytes: Callable[[int, int | None], None] | None,
) -> None:
    """Append what the file ``part`` lacks, or write all of it anew unless it ``goes_on``."""
    start, version = (part.stat().st_size, _read_version(part)) if goes_on else (0, "")
    headers = {"Range": f"bytes={start}-"} if start else {}
    if start and version:
        headers["If-Range"] = version
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
            is_other = version not in ("", _find_version(response))
            if response.status != _PARTIAL or not is_other:
                _copy(response, part, start, on_bytes)
                return
        _receive(url, part, False, on_bytes)  # it was the rest of another file
    except HTTPError as error:
        if error.code == _NO_MORE and start:
            if error.headers.get("Content-Range", "").endswith(f"/{start}"):
                return  # all of it is here
            _receive(url, part, False, on_bytes)  # the file is another one now
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
            f"{url} cannot be reached ({error or type(error).__name__}): {_advise(part)}."
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
        if not start:
            _write_version(part, _find_version(response))
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            if on_bytes is not None:
                on_bytes(file.tell(), total)
        have = file.tell()
        sync(file)
    if total is not None and have < total:
        raise ValueError(
            f"the connection ended after {have:,} of {total:,} bytes: {_advise(part)}."
        )
