"""Archives, honest and hostile."""

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from regraft.support.archives import unpack
from tests.helpers.errors import refused

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}


def write_zip(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, name)
    return path


def write_tar(path: Path, *names: str, kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            info.size = len(name) if kind == tarfile.REGTYPE else 0
            archive.addfile(info, io.BytesIO(name.encode()))
    return path


@pytest.mark.parametrize("suffix", ["zip", "tar", "tar.gz"])
def test_one_folder_becomes_the_target(tmp_path: Path, suffix: str) -> None:
    write = write_zip if suffix == "zip" else write_tar
    archive = write(tmp_path / f"a.{suffix}", "top/x/1.png", "top/2.png")
    assert unpack(archive, tmp_path / "data" / "PACS") == 2
    assert (tmp_path / "data" / "PACS" / "x" / "1.png").read_text() == "top/x/1.png"
    several = write(tmp_path / f"b.{suffix}", "metadata.csv", "patches/1.png")
    unpack(several, tmp_path / "data" / "wilds")
    assert {path.name for path in (tmp_path / "data" / "wilds").iterdir()} == {
        "metadata.csv",
        "patches",
    }
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["PACS", "wilds"]
    with refused("exists already", path=tmp_path / "data" / "PACS"):
        unpack(archive, tmp_path / "data" / "PACS")


@pytest.mark.parametrize("name", ["../out.txt", "/tmp/out.txt", "a/../../out", "a\\..\\b", "C:x"])
@pytest.mark.parametrize("suffix", ["zip", "tar"])
def test_names_that_lead_out(tmp_path: Path, name: str, suffix: str) -> None:
    write = write_zip if suffix == "zip" else write_tar
    archive = write(tmp_path / f"a.{suffix}", "good.txt", name)
    with refused("would leave the folder: do not use this archive", path=archive):
        unpack(archive, tmp_path / "data" / "it")
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_and_devices(tmp_path: Path, kind: bytes) -> None:
    archive = write_tar(tmp_path / "a.tar", "link", kind=kind)
    with refused("is neither a file nor a folder", path=archive):
        unpack(archive, tmp_path / "data")
    linked = tmp_path / "b.zip"
    with zipfile.ZipFile(linked, "w") as opened:
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        opened.writestr(info, "/etc/passwd")
    with refused("is neither a file nor a folder", path=linked):
        unpack(linked, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_what_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(b"<html>please sign in</html>")
    with refused("is no .zip, .tar or .tar.gz archive", path=path):
        unpack(path, tmp_path / "data")
    whole = write_tar(tmp_path / "b.tar.gz", *(f"{i}.txt" for i in range(2000))).read_bytes()
    (tmp_path / "b.tar.gz").write_bytes(whole[: len(whole) // 2])
    with refused("is damaged", path=tmp_path / "b.tar.gz"):
        unpack(tmp_path / "b.tar.gz", tmp_path / "data")
    content = bytearray(write_zip(tmp_path / "c.zip", "some.txt", "more.txt").read_bytes())
    content[content.index(b"some.txt", 40)] ^= 1
    (tmp_path / "c.zip").write_bytes(content)
    with refused("is damaged", path=tmp_path / "c.zip"):
        unpack(tmp_path / "c.zip", tmp_path / "data")
    with refused("holds no files", path=write_zip(tmp_path / "d.zip")):
        unpack(tmp_path / "d.zip", tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.xz"])
def test_a_damaged_header_is_not_taken_for_the_end(tmp_path: Path, suffix: str) -> None:
    content = bytearray(write_tar(tmp_path / "a.tar", "top/1.txt", "top/2.txt").read_bytes())
    content[content.index(b"top/2.txt")] ^= 1
    pack = PACKED[suffix.removeprefix("tar.")]
    damaged = tmp_path / f"b.{suffix}"
    damaged.write_bytes(pack(bytes(content)))
    with refused("it goes on after what looks like its end", path=damaged):
        unpack(damaged, tmp_path / "data")
    cut_off = tmp_path / f"c.{suffix}"
    cut_off.write_bytes(pack(write_tar(tmp_path / "a.tar", "top/1.txt").read_bytes()[:1200]))
    with refused("its end is missing", path=cut_off):
        unpack(cut_off, tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz"])
def test_the_checksum_of_what_is_compressed_is_compared(tmp_path: Path, suffix: str) -> None:
    content = bytearray(PACKED[suffix](write_tar(tmp_path / "a.tar", "top/1.txt").read_bytes()))
    content[-6] ^= 1
    damaged = tmp_path / f"b.tar.{suffix}"
    damaged.write_bytes(content)
    with refused("get it again", path=damaged):
        unpack(damaged, tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("names", [("top/1.txt", "top/1.txt"), ("top", "top/1.txt")])
def test_the_same_name_twice(tmp_path: Path, names: tuple[str, ...]) -> None:
    archive = write_tar(tmp_path / "a.tar", *names)
    with refused("is in it twice: do not use this archive", path=archive):
        unpack(archive, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_zip_that_is_encrypted_or_packed_in_another_way(tmp_path: Path) -> None:
    content = bytearray(write_zip(tmp_path / "a.zip", "some.txt").read_bytes())
    first, listed = content.index(b"PK\3\4"), content.index(b"PK\1\2")
    for name, offsets, value in (("b.zip", (6, 8), 1), ("c.zip", (8, 10), 9)):
        other = bytearray(content)
        other[first + offsets[0]] = other[listed + offsets[1]] = value
        (tmp_path / name).write_bytes(other)
        with refused("cannot be read here: unpack it yourself", path=tmp_path / name):
            unpack(tmp_path / name, tmp_path / "data")
    assert not (tmp_path / "data").exists()
