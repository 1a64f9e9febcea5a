"""``regraft download``, from a server on this machine."""

import gzip
import hashlib
import io
import json
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from regraft.bench.dataset_sources import find_source, list_sources
from regraft.bench.datasets import mnist, open_dataset
from regraft.cli.names import DATASETS, DRAWN_DATASETS
from tests.helpers.commands import MAIN, Run, run_apart
from tests.helpers.resumable_server import serve_resumable

Image = pytest.importorskip("PIL.Image")


def pacs(domains: int = 4, classes: int = 7) -> bytes:
    """An archive as people get it: the folder kfold."""
    picture, archive = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (4, 4)).save(picture, "png")
    with zipfile.ZipFile(archive, "w") as opened:
        for domain in ("art_painting", "cartoon", "photo", "sketch")[:domains]:
            for label in range(classes):
                opened.writestr(f"kfold/{domain}/{label}/1.png", picture.getvalue())
    return archive.getvalue()


def test_an_archive_becomes_a_dataset(tmp_path: Path, run: Run) -> None:
    content = pacs()
    digest = hashlib.sha256(content).hexdigest()
    with serve_resumable() as server:
        server.files["PACS.zip"] = content
        words = ("download", "PACS", "--data", tmp_path, "--from", f"{server.address}PACS.zip?x=1")
        server.files["PACS.zip?x=1"], server.cut_after = content, 100
        ran = run(*words)
        assert ran.code == 2 and "goes on from there" in ran.err
        assert run(*words, "--checksum", digest[::-1]).code == 2
        ran = run(*words, "--json")
    assert ran.code == 0 and json.loads(ran.out)["sha256"] == digest
    assert [path.name for path in tmp_path.iterdir()] == ["PACS"]
    environments = open_dataset("PACS", tmp_path).environments(0, torch.device("cpu"))
    assert [len(environment) for environment in environments] == [7] * 4
    ran = run(*words)
    assert ran.code == 2 and "remove it to get PACS again" in ran.err
    file, content = tmp_path / "mine.zip", pacs(classes=5)
    file.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    ran = run("download", "VLCS", "--data", tmp_path, "--from", file)
    assert ran.code == 0 and f"note the sha256 {digest}" in ran.out + ran.err
    assert (tmp_path / "VLCS" / "photo").is_dir()


def test_an_archive_without_all_domains_is_refused(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "PACS.zip"
    file.write_bytes(pacs(domains=3))
    ran = run("download", "PACS", "--data", tmp_path / "data", "--from", file)
    assert ran.code == 2 and ran.err.count("\n") == 1
    expected = "PACS has 4 environments but the archive has folders for 3 (art_painting, cartoon, "
    assert f"{file} is not PACS as it is read here ({expected}" in ran.err
    assert file.exists() and list((tmp_path / "data").iterdir()) == []
    with serve_resumable() as server:
        server.files["PACS.zip"] = file.read_bytes()
        words = ("--data", tmp_path / "data", "--from", f"{server.address}PACS.zip")
        ran = run("download", "PACS", *words)
    kept = tmp_path / "data" / ".PACS-PACS.zip"
    assert ran.code == 2 and f"({kept} is kept, to be passed with --from).\n" in ran.err
    assert list((tmp_path / "data").iterdir()) == [kept]


def test_an_archive_that_nobody_should_use_is_removed(tmp_path: Path, run: Run) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("../evil", b"")
    with serve_resumable() as server:
        server.files["evil.zip"] = archive.getvalue()
        words = ("--data", tmp_path, "--from", f"{server.address}evil.zip")
        ran = run("download", "PACS", *words)
    assert ran.code == 2 and "do not use this archive (it was removed).\n" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_what_was_downloaded_is_not_downloaded_again(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = pacs()
    with serve_resumable() as server:
        server.files["PACS.zip"] = content
        words = ("--data", tmp_path, "--from", f"{server.address}PACS.zip")
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
            ran = run("download", "PACS", *words)
        assert ran.code == 2 and "free some space (" in ran.err and "is kept, to be" in ran.err
        digest = hashlib.sha256(content).hexdigest()
        assert run("download", "PACS", *words, "--checksum", digest).code == 0
        assert len(server.asked) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["PACS"]


def test_the_list_of_datasets_needs_no_torch() -> None:
    code = MAIN.replace("main()", "\ntry:\n    main()\nfinally:\n    print('torch' in sys.modules)")
    ran = run_apart("download", code=f"import sys; {code}")
    assert ran.code == 0 and ran.out.splitlines()[-1] == "False"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("PACS", "get its archive or address from http://www.eecs.qmul.ac.uk"),
        ("TerraIncognita", "location_100, location_38"),
        ("Pacs", "dataset is 'Pacs': choose from"),
    ],
)
def test_what_people_have_to_do_themselves(
    tmp_path: Path, run: Run, name: str, reason: str
) -> None:
    ran = run("download", name, "--data", tmp_path)
    assert ran.code == 2 and reason in ran.err
    assert run("download", "PACS", "--data", tmp_path, "--from", tmp_path / "none").code == 2
    assert list(tmp_path.iterdir()) == []


def test_all_datasets_are_listed(run: Run) -> None:
    ran = run("download", "--json")
    assert ran.code == 0 and json.loads(ran.out)["datasets"].keys() == list_sources().keys()
    assert all(find_source(name).folder for name in DATASETS if name not in DRAWN_DATASETS)


def test_mnist(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    idx = b"\0\0\x08\x01\0\0\0\x02\x05\x06"
    monkeypatch.setattr(mnist, "CHECKSUMS", {"labels": hashlib.md5(idx).hexdigest()})
    with serve_resumable() as server:
        server.files["labels.gz"] = gzip.compress(idx)
        monkeypatch.setattr(mnist, "MIRRORS", (server.address,))
        assert run("download", "ColoredMNIST", "--data", tmp_path).code == 0
        assert run("download", "ColoredMNIST", "--data", tmp_path).code == 0
        assert len(server.asked) == 1
    (tmp_path / "mnist" / "labels.gz").write_bytes(b"other")
    ran = run("download", "MNIST", "--data", tmp_path)
    assert ran.code == 2 and "is damaged or another file" in ran.err
