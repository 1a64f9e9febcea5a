"""Checksums are sha256, whichever way the bytes come."""

import hashlib
from pathlib import Path

from regraft.support.digests import digest_file, digest_parts, digest_text


def test_digests_are_sha256(tmp_path: Path) -> None:
    expected = hashlib.sha256("é12".encode()).hexdigest()
    (tmp_path / "file").write_bytes("headé12".encode())
    assert digest_text("é12") == expected
    assert digest_parts(["é".encode(), memoryview(b"1"), b"2"]) == expected
    assert digest_file(tmp_path / "file", start=4) == expected
    assert digest_parts([]) == hashlib.sha256().hexdigest()
