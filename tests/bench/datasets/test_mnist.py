"""MNIST's files: found, downloaded from a server of this test's own, and refused when damaged."""

import gzip
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from regraft.bench.datasets.mnist import (
    CHECKSUMS,
    MIRRORS,
    _cache_folder,
    _download_missing,
    _read_all,
    load_mnist,
)
from tests.helpers.errors import one_sentence
from tests.helpers.file_server import FileServer
from tests.helpers.idx_files import idx
from tests.helpers.paths import ROOT

IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
LABELS = np.array([7, 1], np.uint8)
ARRAYS = {"tiny-images": IMAGES, "tiny-labels": LABELS}


TINY = {name: idx(array) for name, array in ARRAYS.items()}
TINY_CHECKSUMS = {name: hashlib.md5(content).hexdigest() for name, content in TINY.items()}
PACKED = {f"{name}.gz": gzip.compress(content) for name, content in TINY.items()}


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FileServer]]:
    """A good server, one without the files, one that sends others, and one that breaks off."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    others = {name: gzip.compress(b"another file") for name in PACKED}
    with (
        FileServer(PACKED) as good,
        FileServer({}) as empty,
        FileServer(others) as other,
        FileServer(PACKED, missing_bytes=5) as broken,
    ):
        yield [good, empty, other, broken]


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No REGRAFT_DATA, and an empty cache of the user: its folder."""
    monkeypatch.delenv("REGRAFT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "regraft" / "mnist"


@pytest.fixture(scope="session")
def mnist_folder() -> Path:
    data = os.environ.get("REGRAFT_DATA")
    folders = [Path(data) / "mnist", Path(data)] if data else []
    folders.append(ROOT.parent / "shared" / "data" / "mnist")
    for folder in folders:
        if all((folder / n).exists() or (folder / f"{n}.gz").exists() for n in CHECKSUMS):
            return folder
    pytest.skip("MNIST's files are not here: set REGRAFT_DATA to their folder")


def entries(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def assert_tiny(read: dict[str, np.ndarray]) -> None:
    assert read.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert read[name].dtype == np.uint8
        assert np.array_equal(read[name], array)


def fill(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    "files", [TINY, PACKED, {f"{name}.gz": content for name, content in TINY.items()}]
)
def test_plain_and_packed_files_are_read(tmp_path: Path, files: dict[str, bytes]) -> None:
    assert_tiny(_read_all([fill(tmp_path, files)], TINY_CHECKSUMS))


def test_the_first_folder_that_has_a_file_wins(tmp_path: Path) -> None:
    first = fill(tmp_path / "mnist", {"tiny-images": TINY["tiny-images"]})
    second = fill(tmp_path, PACKED | {"tiny-images": b"damaged"})
    assert_tiny(_read_all([first, second], TINY_CHECKSUMS))


def test_damaged_files_are_named(tmp_path: Path) -> None:
    """Cut or changed anywhere, packed or plain."""
    packed, plain = PACKED["tiny-images.gz"], TINY["tiny-images"]
    changed = packed[:20] + bytes([packed[20] ^ 255]) + packed[21:]
    damages = [
        ("tiny-images.gz", packed[:-1], "is truncated"),
        ("tiny-images.gz", packed[:15], "is truncated"),
        ("tiny-images.gz", packed[:3], "is truncated"),
        ("tiny-images.gz", changed, "is damaged"),
        ("tiny-images.gz", b"", "is damaged"),
        ("tiny-images.gz", gzip.compress(plain[:-1]), "is damaged or another file"),
        ("tiny-images", plain[:-1], "is damaged or another file"),
        ("tiny-images", plain[:2], "is damaged or another file"),
        ("tiny-images", plain[:-1] + b"!", "is damaged or another file"),
    ]
    for number, (name, content, complaint) in enumerate(damages):
        folder = fill(tmp_path / str(number), {name: content, "tiny-labels": TINY["tiny-labels"]})
        with pytest.raises(ValueError, match=complaint) as error:
            _read_all([folder], TINY_CHECKSUMS)
        text = one_sentence(error.value)
        assert str(folder / name) in text and f"{MIRRORS[0]}tiny-images.gz" in text


def test_missing_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a folder nor REGRAFT_DATA is ever downloaded into."""
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(FileNotFoundError, match="there is no train-images") as error:
            load_mnist(folder)
        text = one_sentence(error.value)
        assert str(folder) in text and "--data" in text and "REGRAFT_DATA" in text
    monkeypatch.setenv("REGRAFT_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError) as error:
        load_mnist()
    assert f"{tmp_path / 'mnist'} or {tmp_path}: name" in one_sentence(error.value)
    assert entries(tmp_path) == []


def test_downloads_what_is_missing(tmp_path: Path, servers: list[FileServer]) -> None:
    good = servers[0]
    folder = tmp_path / "new" / "cache"
    fill(folder, {"tiny-labels": TINY["tiny-labels"]})
    _download_missing(folder, [good.url], TINY_CHECKSUMS)
    assert good.asked == ["tiny-images.gz"]
    assert entries(folder) == ["tiny-images.gz", "tiny-labels"]
    assert_tiny(_read_all([folder], TINY_CHECKSUMS))
    _download_missing(folder, [good.url], TINY_CHECKSUMS)
    assert len(good.asked) == 1


@pytest.mark.parametrize("bad", [1, 2, 3], ids=["404", "another file", "breaks off"])
def test_the_next_mirror_helps(tmp_path: Path, servers: list[FileServer], bad: int) -> None:
    _download_missing(tmp_path, [servers[bad].url, servers[0].url], TINY_CHECKSUMS)
    assert len(servers[bad].asked) == len(servers[0].asked) == len(TINY)
    assert entries(tmp_path) == sorted(PACKED)
    assert_tiny(_read_all([tmp_path], TINY_CHECKSUMS))


def test_nothing_is_kept_of_a_failed_download(tmp_path: Path, servers: list[FileServer]) -> None:
    """Every mirror and its failure are named."""
    with pytest.raises(FileNotFoundError, match="MNIST cannot be downloaded") as error:
        _download_missing(tmp_path, [server.url for server in servers[1:]], TINY_CHECKSUMS)
    text = one_sentence(error.value)
    assert all(server.url in text for server in servers[1:])
    assert "404" in text and "another file" in text
    assert "--data" in text and "REGRAFT_DATA" in text
    assert entries(tmp_path) == []
    # A port nobody listens on, and a server that never answers.
    closed = FileServer({})
    closed.server_close()
    silent = FileServer({})  # bound and listening, but nobody serves
    try:
        for server in (closed, silent):
            with pytest.raises(FileNotFoundError, match="REGRAFT_DATA") as error:
                _download_missing(tmp_path, [server.url], TINY_CHECKSUMS, timeout=0.2)
            assert server.url in one_sentence(error.value)
    finally:
        silent.server_close()
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match="cannot be written to") as error:
        _download_missing(tmp_path / "file" / "mnist", [servers[0].url], TINY_CHECKSUMS)
    assert str(tmp_path / "file" / "mnist") in one_sentence(error.value)


def test_cache_folder(unset: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert _cache_folder() == unset
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _cache_folder() == tmp_path / ".cache" / "regraft" / "mnist"


def test_the_real_files(mnist_folder: Path) -> None:
    images, digits = load_mnist(mnist_folder)
    assert images.shape == (70_000, 28, 28) and images.dtype == np.uint8
    assert digits.shape == (70_000,) and digits.dtype == np.uint8
    assert digits[:5].tolist() == [5, 0, 4, 1, 9]  # the training part
    assert digits[60_000:60_005].tolist() == [7, 2, 1, 0, 4]
    counts = np.bincount(digits).tolist()
    assert counts == [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]
    assert images[0].any() and images[-1].any()


@pytest.mark.parametrize("inner", ["data/mnist", "data", "cache/regraft/mnist"])
def test_the_real_files_by_the_environment(
    mnist_folder: Path, unset: Path, monkeypatch: pytest.MonkeyPatch, inner: str
) -> None:
    """In REGRAFT_DATA or its folder mnist, whatever the cache holds, or in the cache.

    Nothing is asked of the network when the cache is full.
    """
    root = unset.parents[2]
    (root / inner).mkdir(parents=True)
    for file in mnist_folder.iterdir():
        (root / inner / file.name).symlink_to(file)
    if inner.startswith("data"):
        monkeypatch.setenv("REGRAFT_DATA", str(root / "data"))
    assert len(load_mnist()[1]) == 70_000
    assert unset.exists() == inner.startswith("cache")
