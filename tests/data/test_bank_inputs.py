"""Inputs of a bank's rows are found again, checked, and left out with one sentence if lost."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regraft.data.bank_inputs import SOURCE, read_inputs
from regraft.data.banks import Bank, open_bank, write_bank
from regraft.encoders.embedding import embed_images, embed_texts
from tests.helpers.tables import write_columns
from tests.helpers.toy_encoders import ToyImages, ToyTexts, write_images


@pytest.fixture
def images(tmp_path: Path) -> Bank:
    root = write_images(tmp_path / "images")
    return embed_images(root, ToyImages(), tmp_path / "bank").bank


def text_bank(tmp_path: Path, suffix: str) -> Bank:
    columns = {"words": [f"text {i}" for i in range(8)], "label": [*"xxyy"] * 2}
    table = write_columns(tmp_path / f"t.{suffix}", {**columns, "domain": [*"aaaabbbb"]})
    return embed_texts(table, ToyTexts(), tmp_path / "bank", text="words").bank


def test_images_come_as_thumbnails(images: Bank) -> None:
    found = read_inputs(images, [10, 1])
    assert {row: each.name for row, each in found.items()} == {
        10: "b/y/0001.png",
        1: "a/x/0001.png",
    }
    pixels = found[10].pixels
    assert pixels is not None and pixels.shape == (5, 6, 3) and pixels.dtype == np.uint8
    assert (pixels == [47, 90, 1]).all()


def test_thumbnails_are_small(tmp_path: Path) -> None:
    root = write_images(tmp_path / "images")
    Image.new("L", (300, 200), 99).save(root / "a" / "x" / "0000.png")
    pixels = read_inputs(embed_images(root, ToyImages(), tmp_path / "bank").bank, [0])[0].pixels
    assert pixels is not None and pixels.shape == (43, 64, 3) and (pixels == 99).all()


def test_bank_and_inputs_move_together(images: Bank, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("images", "bank"):
        shutil.move(tmp_path / name, moved / name)
    found = read_inputs(open_bank(moved / "bank"), range(12))
    assert len(found) == 12 and all(each.pixels is not None for each in found.values())


@pytest.mark.parametrize("suffix", ["csv", "jsonl.gz", "parquet"])
def test_texts_come_from_their_table(tmp_path: Path, suffix: str) -> None:
    found = read_inputs(text_bank(tmp_path, suffix), [0, 6])
    assert {row: (each.name, each.text) for row, each in found.items()} == {
        0: ("", "text 0"),
        6: ("", "text 6"),
    }


def test_inputs_that_are_elsewhere_must_be_named(images: Bank, tmp_path: Path) -> None:
    shutil.move(tmp_path / "images", tmp_path / "moved")
    with pytest.warns(UserWarning, match="the images are not shown: there is no .*--inputs"):
        found = read_inputs(images, [3])
    assert (found[3].name, found[3].pixels) == ("a/y/0000.png", None)
    assert read_inputs(images, [3], tmp_path / "moved")[3].pixels is not None
    (images.folder / SOURCE).unlink()
    with pytest.warns(UserWarning, match="does not know its inputs: say with --inputs"):
        read_inputs(images, [3])
    (images.folder / SOURCE).write_text("{}")
    with pytest.warns(UserWarning, match=r"\.source\.json is damaged"):
        read_inputs(images, [3])


def test_changed_inputs_are_not_shown(images: Bank, tmp_path: Path) -> None:
    folder = tmp_path / "images" / "a" / "x"
    Image.new("RGB", (6, 5)).save(folder / "0000.png")
    (folder / "0001.png").write_bytes(b"no image")
    with pytest.warns(UserWarning, match="2 of 3 images are not shown: they are not in"):
        found = read_inputs(images, range(3))
    assert [found[row].pixels is None for row in range(3)] == [True, True, False]


def test_changed_texts_are_not_shown(tmp_path: Path) -> None:
    bank = text_bank(tmp_path, "csv")
    table = tmp_path / "t.csv"
    table.write_text(table.read_text().replace("text 5", "text five"))
    with pytest.warns(UserWarning, match="1 of 2 texts are not shown"):
        found = read_inputs(bank, [4, 5])
    assert (found[4].text, found[5].text) == ("text 4", "")


def test_without_pillow_the_extra_is_named(images: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "PIL.Image")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.warns(UserWarning, match=r"the images are not shown: .*regraft\[images\]"):
        found = read_inputs(images, [3])
    assert (found[3].name, found[3].pixels) == ("a/y/0000.png", None)


def test_arrays_have_no_inputs(tmp_path: Path) -> None:
    bank = write_bank(tmp_path / "b", np.eye(4), [0, 1, 0, 1], ["a", "a", "b", "b"])
    assert read_inputs(bank, range(4)) == {}


def test_a_damaged_list_is_told(images: Bank) -> None:
    (images.folder / "inputs.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=r"line 1 of .*inputs\.jsonl is damaged"):
        read_inputs(images, [0])
