"""Downloads from a real server on this machine, which stops, lies and forgets."""

import errno
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from regraft.support import downloads
from regraft.support.downloads import download, verify
from regraft.support.files import hold
from tests.helpers.errors import refused
from tests.helpers.resumable_server import ResumableServer, serve_resumable

CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def server() -> Iterator[ResumableServer]:
    with serve_resumable() as server:
        server.files["data.bin"] = CONTENT
        yield server


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("checksum", [None, SHA256, SHA256.upper(), MD5])
def test_a_file_arrives(server: ResumableServer, tmp_path: Path, checksum: str | None) -> None:
    seen: list[tuple[int, int | None]] = []
    path = tmp_path / "new" / "data.bin"
    download(f"{server.address}data.bin", path, checksum, lambda *told: seen.append(told))
    assert path.read_bytes() == CONTENT and names(path.parent) == ["data.bin"]
    assert seen == [(len(CONTENT), len(CONTENT))]


def cut(server: ResumableServer, path: Path, checksum: str | None = SHA256) -> None:
    server.cut_after = 1000
    with refused("the connection ended after 1,000 of 10,240 bytes: run the same command again"):
        download(f"{server.address}data.bin", path, checksum)
    assert not path.exists()


def test_it_goes_on_where_it_stopped(server: ResumableServer, tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    cut(server, path)
    download(f"{server.address}data.bin", path, SHA256)
    assert path.read_bytes() == CONTENT and names(tmp_path) == ["data.bin"]
    assert server.asked == [("data.bin", None), ("data.bin", "bytes=1000-")]


VERSIONS = [{"ETag": '"1"'}, {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}]
DATED = {"ETag": 'W/"1"', "Last-Modified": "Tue, 02 Jan 2024 00:00:00 GMT"}


@pytest.mark.parametrize("version", [*VERSIONS, DATED])
def test_without_a_checksum_the_same_version_goes_on(
    server: ResumableServer, tmp_path: Path, version: dict[str, str]
) -> None:
    server.versions["data.bin"] = version
    cut(server, tmp_path / "data.bin", checksum=None)
    download(f"{server.address}data.bin", tmp_path / "data.bin")
    assert (tmp_path / "data.bin").read_bytes() == CONTENT and names(tmp_path) == ["data.bin"]
    assert server.asked[-1] == ("data.bin", "bytes=1000-")


@pytest.mark.parametrize("version", [{}, *VERSIONS])
@pytest.mark.parametrize("heeds", [True, False])
def test_without_a_checksum_two_versions_are_never_mixed(
    server: ResumableServer, tmp_path: Path, version: dict[str, str], heeds: bool
) -> None:
    server.versions["data.bin"], server.heeds_versions = version, heeds
    cut(server, tmp_path / "data.bin", checksum=None)
    server.files["data.bin"] = CONTENT[::-1]
    if version:
        server.versions["data.bin"] = {name: f'"{value}2"' for name, value in version.items()}
    download(f"{server.address}data.bin", tmp_path / "data.bin")
    assert (tmp_path / "data.bin").read_bytes() == CONTENT[::-1]
    assert names(tmp_path) == ["data.bin"]


@pytest.mark.parametrize("version", [{}, *VERSIONS])
def test_what_goes_on_is_said(
    server: ResumableServer, tmp_path: Path, version: dict[str, str]
) -> None:
    server.versions["data.bin"], server.cut_after = version, 1000
    advice = "goes on from there" if version else "goes on from there only with --checksum"
    with refused(f"run the same command again, which {advice}.$"):
        download(f"{server.address}data.bin", tmp_path / "data.bin")


def test_a_server_without_ranges_sends_all_again(server: ResumableServer, tmp_path: Path) -> None:
    server.takes_ranges = False
    cut(server, tmp_path / "data.bin")
    seen: list[tuple[int, int | None]] = []
    address, path = f"{server.address}data.bin", tmp_path / "data.bin"
    download(address, path, SHA256, lambda *told: seen.append(told))
    assert path.read_bytes() == CONTENT and seen == [(len(CONTENT), len(CONTENT))]


def test_what_was_complete_but_not_renamed(server: ResumableServer, tmp_path: Path) -> None:
    cut(server, tmp_path / "data.bin")
    (part,) = tmp_path.iterdir()
    part.write_bytes(CONTENT)
    download(f"{server.address}data.bin", tmp_path / "data.bin", SHA256)
    assert names(tmp_path) == ["data.bin"]


@pytest.mark.parametrize("content", [CONTENT[::-1], CONTENT[:500]])
def test_a_file_that_changed_meanwhile(
    server: ResumableServer, tmp_path: Path, content: bytes
) -> None:
    cut(server, tmp_path / "data.bin")
    server.files["data.bin"] = content
    download(f"{server.address}data.bin", tmp_path / "data.bin", hashlib.md5(content).hexdigest())
    assert (tmp_path / "data.bin").read_bytes() == content


def test_what_goes_wrong(server: ResumableServer, tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    with refused("has the sha256 [0-9a-f]+ and not 0+, and was removed: check the address"):
        download(f"{server.address}data.bin", path, "0" * 64)
    assert names(tmp_path) == []
    with refused("answers 404"):
        download(f"{server.address}other", path)
    with refused("cannot be reached"):
        download("http://127.0.0.1:1/x", path)
    with refused("starts with https:// or http://"):
        download("file:///etc/passwd", path)
    path.write_bytes(b"")
    with refused("checksum is 'abc': pass a sha256 or md5"):
        verify(path, "abc")
    with refused(
        "data.bin has the md5 d41d8cd98f00b204e9800998ecf8427e and not 0+: check the file"
    ):
        verify(path, "0" * 32)
    assert path.exists()


def test_a_checksum_that_is_none_costs_no_download(server: ResumableServer, tmp_path: Path) -> None:
    cut(server, tmp_path / "data.bin")
    with refused("checksum is 'sha256:abc': pass a sha256 or md5"):
        download(f"{server.address}data.bin", tmp_path / "data.bin", "sha256:abc")
    (part,) = tmp_path.iterdir()
    assert part.stat().st_size == 1000 and len(server.asked) == 1


def test_a_full_disk_is_no_trouble_of_the_network(
    server: ResumableServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(file: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(downloads, "sync", fill)
    with refused("^[^(]* does not fit on the disk", OSError):
        download(f"{server.address}data.bin", tmp_path / "data.bin")


@pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
def test_two_processes_do_not_write_one_file(server: ResumableServer, tmp_path: Path) -> None:
    cut(server, tmp_path / "data.bin")
    (part,) = tmp_path.iterdir()
    with part.open("ab") as other:
        assert hold(other.fileno())
        with refused("another process is writing"):
            download(f"{server.address}data.bin", tmp_path / "data.bin")
    assert part.stat().st_size == 1000
    download(f"{server.address}data.bin", tmp_path / "data.bin", SHA256)
