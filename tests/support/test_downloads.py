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


def cut(server: ResumableServer, path: Path, after: int = 1000) -> None:
    server.cut_after = after
    with refused("the connection ended after 1,000 of 10,240 bytes: run the same command again"):
        download(f"{server.address}data.bin", path, SHA256)
    assert not path.exists()


def test_it_goes_on_where_it_stopped(server: ResumableServer, tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    cut(server, path)
    download(f"{server.address}data.bin", path, SHA256)
    assert path.read_bytes() == CONTENT and names(tmp_path) == ["data.bin"]
    assert server.asked == [("data.bin", None), ("data.bin", "bytes=1000-")]


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
    with refused("and not 0000"):
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
