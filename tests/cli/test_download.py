"""``regraft download``, from a server on this machine."""

import gzip
import hashlib
import io
import json
import zipfile
from pathlib import Path

import pytest
import torch

from regraft.bench.datasets import mnist, open_dataset
from regraft.bench.datasets.sources import find_source, list_sources
from regraft.cli.names import DATASETS
from tests.helpers.commands import Run
from tests.helpers.resumable_server import serve_resumable

Image = pytest.importorskip("PIL.Image")


def pacs() -> bytes:
    """An archive as people get it: the folder kfold."""
    picture, archive = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (4, 4)).save(picture, "png")
    with zipfile.ZipFile(archive, "w") as opened:
        for domain in ("art_painting", "cartoon", "photo", "sketch"):
            for label in range(7):
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
    file = tmp_path / "mine.zip"
    file.write_bytes(content)
    ran = run("download", "VLCS", "--data", tmp_path, "--from", file)
    assert ran.code == 0 and f"note the sha256 {digest}" in ran.out + ran.err
    assert (tmp_path / "VLCS" / "photo").is_dir()


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
    assert all(find_source(name).folder for name in DATASETS)


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
