"""The loop: the same bank however often it was stopped, and nothing mixed into it."""

import json
import re
import shutil
import weakref
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from regraft.data.banks import is_bank, open_bank, verify, write_bank
from regraft.data.image_inputs import ImageInputs
from regraft.encoders.embedding import embed_images, embed_texts
from regraft.support.files import claim
from tests.helpers.commands import kill_when
from tests.helpers.errors import refused
from tests.helpers.paths import ROOT
from tests.helpers.toy_encoders import ToyImages, ToyTexts, contents, write_images


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 images: seven blocks."""
    return write_images(tmp_path_factory.mktemp("images") / "r", n=100)


@pytest.fixture(scope="module")
def reference(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a bank that nothing interrupted."""
    out = tmp_path_factory.mktemp("reference") / "bank"
    embed_images(images, ToyImages(), out)
    return contents(out)


def begin(
    root: Path, out: Path, fail_at: int = 1, device: str = "cpu", on_broken: str = "stop"
) -> None:
    """Embed blocks of images up to one that fails; all of them if ``fail_at`` is -1."""
    encoder = ToyImages(fail_at=fail_at, device=device)
    with nullcontext() if fail_at < 0 else pytest.raises(RuntimeError, match="out of memory"):
        embed_images(root, encoder, out, on_broken=on_broken)


def write_texts(path: Path, n: int = 3000) -> Path:
    rows = [f"text {i},{'xy'[i % 2]},{'abc'[i % 3]}" for i in range(n)]
    path.write_text("\n".join(["text,label,domain", *rows]))
    return path


def test_a_bank_of_images_holds_what_the_encoder_gave_and_is_not_made_again(
    images: Path, tmp_path: Path, reference: dict[str, bytes]
) -> None:
    moved, encoder, told = tmp_path / "elsewhere", ToyImages(), []
    shutil.copytree(images, moved)
    result = embed_images(moved, encoder, tmp_path / "b", on_count=lambda *n: told.append(n))
    bank = result.bank
    verify(bank)
    assert not result.was_there and encoder.calls == 7
    assert told == [(n, 400) for n in (0, 64, 128, 192, 256, 320, 384, 400)]
    assert bank.X.shape == (400, 4)
    row = bank.X[3 * 100 + 42]  # b/y/0042
    np.testing.assert_allclose(row[:3] * 255, [47, 90, 42], rtol=1e-6)
    assert (bank.labels[342], bank.domain_names[342]) == ("y", "b")
    assert np.bincount(bank.domain).tolist() == [200, 200]
    assert (bank.kind, bank.encoder, bank.fingerprint) == ("images", "toy", "f" * 64)
    assert bank.preprocessing == {"size": 4, "mean": [0.5, 0.5, 0.5]}
    line = (bank.folder / "inputs.jsonl").read_text().splitlines()[342]
    assert json.loads(line)["path"] == "b/y/0042.png"
    assert contents(tmp_path / "b") == reference
    assert sorted(reference) == ["bank.json", "features.safetensors", "inputs.jsonl"]
    encoder = ToyImages()
    again = embed_images(images, encoder, tmp_path / "b")
    assert again.was_there and encoder.calls == 0
    assert contents(tmp_path / "b") == reference


@pytest.mark.parametrize("fail_at", range(7))
def test_an_interrupted_run_goes_on(
    images: Path, tmp_path: Path, fail_at: int, reference: dict[str, bytes]
) -> None:
    begin(images, tmp_path / "bank", fail_at)
    assert not is_bank(tmp_path / "bank")
    encoder, told = ToyImages(), []
    embed_images(images, encoder, tmp_path / "bank", on_count=lambda *n: told.append(n))
    assert encoder.calls == 7 - fail_at
    assert told[0] == (64 * fail_at, 400)
    assert contents(tmp_path / "bank") == reference


SLOW = """
import sys
from regraft.encoders.embedding import embed_images
from tests.helpers.toy_encoders import ToyImages
embed_images(sys.argv[1], ToyImages(delay=0.3), sys.argv[2])
"""


def test_killed_it_goes_on(images: Path, tmp_path: Path, reference: dict[str, bytes]) -> None:
    out = tmp_path / "bank"
    journal = out / ".unfinished" / "journal.jsonl"

    def has(blocks: int) -> bool:
        return journal.exists() and journal.read_bytes().count(b"\n") >= blocks

    for blocks in (2, 4):
        kill_when(partial(has, blocks), images, out, code=SLOW, path=[ROOT])
        assert not is_bank(out)
    encoder = ToyImages()
    embed_images(images, encoder, out)
    assert 1 <= encoder.calls <= 3
    assert contents(out) == reference


def test_texts_go_on_too(tmp_path: Path) -> None:
    table = write_texts(tmp_path / "t.csv")
    whole = embed_texts(table, ToyTexts(), tmp_path / "whole").bank
    with pytest.raises(RuntimeError, match="out of memory"):
        embed_texts(table, ToyTexts(fail_at=2), tmp_path / "bank")
    bank = embed_texts(table, ToyTexts(), tmp_path / "bank").bank
    assert contents(bank.folder) == contents(whole.folder)
    assert bank.X[:, 2].tolist() == [1024] * 2048 + [952] * 952
    assert (bank.kind, bank.domains) == ("texts", ("a", "b", "c"))
    assert bank.labels[:3].tolist() == ["x", "y", "x"]


def test_inputs_without_labels_go_on_too(images: Path, tmp_path: Path) -> None:
    tags = {"label": None, "domain": None}
    whole = embed_images(images, ToyImages(), tmp_path / "whole", **tags).bank
    verify(whole)
    labelled = embed_images(images, ToyImages(), tmp_path / "labelled").bank
    np.testing.assert_array_equal(whole.X, labelled.X)
    assert whole.y is None and whole.domain is None
    with pytest.raises(RuntimeError, match="out of memory"):
        embed_images(images, ToyImages(fail_at=3), tmp_path / "bank", **tags)
    with refused("holds features of other images"):
        embed_images(images, ToyImages(), tmp_path / "bank")
    encoder = ToyImages()
    bank = embed_images(images, encoder, tmp_path / "bank", **tags).bank
    assert encoder.calls == 4 and contents(bank.folder) == contents(whole.folder)
    assert embed_images(images, ToyImages(), tmp_path / "bank", **tags).was_there


@pytest.mark.parametrize("is_finished", [False, True])
@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (ToyImages(name="net"), "holds features of the encoder toy: pass that with --encoder"),
        (ToyImages(fingerprint="0" * 64), "of toy with other weights"),
        (ToyImages(preprocessing={"size": 5}), "prepared in another way"),
    ],
)
def test_other_settings_are_refused(
    tmp_path: Path, encoder: ToyImages, message: str, is_finished: bool
) -> None:
    root = write_images(tmp_path / "r", n=20)
    begin(root, tmp_path / "bank", -1 if is_finished else 1)
    before = contents(tmp_path / "bank") if is_finished else {}
    with refused(re.escape(message)) as caught:
        embed_images(root, encoder, tmp_path / "bank")
    assert str(tmp_path / "bank") in str(caught.value)
    if is_finished:
        assert contents(tmp_path / "bank") == before
    embed_images(root, ToyImages(), tmp_path / "bank")


def test_one_bank_has_one_device(images: Path, tmp_path: Path, reference: dict[str, bytes]) -> None:
    begin(images, tmp_path / "bank", device="cuda")
    with refused("begun with --device cuda: pass that"):
        embed_images(images, ToyImages(), tmp_path / "bank")
    embed_images(images, ToyImages(device="cuda"), tmp_path / "bank")
    assert contents(tmp_path / "bank") == reference  # which does not tell the device
    assert embed_images(images, ToyImages(), tmp_path / "bank").was_there


@pytest.mark.filterwarnings("ignore:.*left out")
def test_blocks_of_another_size_neither_skip_nor_double(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "r"
    shutil.copytree(images, root)
    spoil(root, "a/x/0003.png")
    begin(root, tmp_path / "bank", 2, on_broken="skip")
    monkeypatch.setattr(ImageInputs, "block_rows", 50)
    bank = embed_images(root, ToyImages(), tmp_path / "bank", on_broken="skip").bank
    keys = [json.loads(each)["path"] for each in (bank.folder / "inputs.jsonl").open()]
    files = sorted(path.relative_to(root).as_posix() for path in root.glob("*/*/*.png"))
    files.remove("a/x/0003.png")
    assert keys == files


@pytest.mark.filterwarnings("ignore:.*left out")
def test_what_was_left_out_is_not_passed_over(tmp_path: Path) -> None:
    root = spoil(write_images(tmp_path / "r", n=40), "a/x/0003.png")
    begin(root, tmp_path / "bank", on_broken="skip")
    for _ in range(2):  # unfinished, and then finished
        with refused("leaves out 1 broken image:"):
            embed_images(root, ToyImages(), tmp_path / "bank")
        embed_images(root, ToyImages(), tmp_path / "bank", on_broken="skip")


@pytest.mark.parametrize("is_finished", [False, True])
def test_other_inputs_are_refused(tmp_path: Path, is_finished: bool) -> None:
    root = write_images(tmp_path / "r", n=20)
    begin(root, tmp_path / "bank", -1 if is_finished else 1)
    (root / "a/x/0000.png").rename(tmp_path / "kept")
    with refused("added, removed or changed since"):
        embed_images(root, ToyImages(), tmp_path / "bank")
    table = write_texts(tmp_path / "t.csv")
    with refused("holds a bank of images"):
        embed_texts(table, ToyTexts(), tmp_path / "bank")
    (tmp_path / "kept").rename(root / "a/x/0000.png")
    embed_images(root, ToyImages(), tmp_path / "bank")
    assert open_bank(tmp_path / "bank").X.shape == (80, 4)


def test_banks_of_others_are_not_overwritten(images: Path, tmp_path: Path) -> None:
    with claim(tmp_path / "bank"), refused("another process is writing"):
        embed_images(images, ToyImages(), tmp_path / "bank")
    write_bank(tmp_path / "arrays", np.eye(2), [0, 1], ["a", "b"])
    with pytest.raises(ValueError, match="holds a bank of arrays"):
        embed_images(images, ToyImages(), tmp_path / "arrays")
    assert open_bank(tmp_path / "arrays").kind == "arrays"


def test_damaged_settings_are_told_and_a_failed_listing_leaves_nothing(tmp_path: Path) -> None:
    root = write_images(tmp_path / "r", n=20)
    begin(root, tmp_path / "bank")
    (tmp_path / "bank" / ".unfinished" / "settings.json").write_text("{")
    with refused(r"settings\.json is damaged: delete"):
        embed_images(root, ToyImages(), tmp_path / "bank")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="is empty"):
        embed_images(tmp_path / "empty", ToyImages(), tmp_path / "none")
    assert contents(tmp_path / "none") == {}


def spoil(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).write_bytes(b"")
    return root


def test_a_broken_image_stops_and_can_be_left_out_then(tmp_path: Path) -> None:
    root = spoil(write_images(tmp_path / "r", n=40), "b/x/0003.png", "b/y/0030.png")
    with pytest.raises(ValueError, match=r"b/x/0003\.png cannot be read"):
        embed_images(root, ToyImages(), tmp_path / "bank")
    encoder = ToyImages()
    with pytest.warns(UserWarning, match="is left out") as warned:
        bank = embed_images(root, encoder, tmp_path / "bank", on_broken="skip").bank
    assert len(warned) == 2 and encoder.calls == 2  # the first of three blocks was done
    assert len(bank.X) == 158
    told = json.loads((bank.folder / "bank.json").read_bytes())["inputs"]
    assert told["skipped"] == 2
    assert told["first_skipped"] == [
        ["b/x/0003.png", "it is empty"],
        ["b/y/0030.png", "it is empty"],
    ]
    verify(bank)
    keys = [json.loads(each)["path"] for each in (bank.folder / "inputs.jsonl").open()]
    assert len(keys) == 158 and "b/x/0003.png" not in keys
    with pytest.warns(UserWarning):
        at_once = embed_images(root, ToyImages(), tmp_path / "other", on_broken="skip").bank
    assert contents(at_once.folder) == contents(bank.folder)


def test_a_broken_image_in_the_first_block_can_be_repaired(tmp_path: Path) -> None:
    root = write_images(tmp_path / "r", n=3)
    whole = (root / "a/x/0001.png").read_bytes()
    spoil(root, "a/x/0001.png")
    with pytest.raises(ValueError, match=r"a/x/0001\.png cannot be read"):
        embed_images(root, ToyImages(), tmp_path / "bank")
    (root / "a/x/0001.png").write_bytes(whole)
    assert len(embed_images(root, ToyImages(), tmp_path / "bank").bank.X) == 12


@pytest.mark.filterwarnings("ignore:.*left out")
def test_blocks_of_broken_images_alone(tmp_path: Path) -> None:
    root = write_images(tmp_path / "r", n=64)
    spoil(root, *(f"a/y/{i:04}.png" for i in range(64)))
    bank = embed_images(root, ToyImages(), tmp_path / "bank", on_broken="skip").bank
    assert (len(bank.X), bank.n_skipped, len(bank.skipped)) == (192, 64, 64)
    spoil(root, *(f"{place}/{i:04}.png" for place in ("a/x", "b/x", "b/y") for i in range(64)))
    with refused("all 256 inputs were skipped"):
        embed_images(root, ToyImages(), tmp_path / "none", on_broken="skip")


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.full((12, 4), np.nan, np.float32), "features of a/x/0000.png and the inputs after it"),
        (np.ones((12, 5), np.float32), "shape (12, 5) instead of (12, 4)"),
    ],
)
def test_what_no_encoder_should_give(
    tmp_path: Path, features: NDArray[Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_images(tmp_path / "r")
    monkeypatch.setattr(ToyImages, "encode", lambda *_: features)
    with refused(re.escape(message)):
        embed_images(root, ToyImages(), tmp_path / "bank")


class Growing(ToyTexts):
    """Encodes a table that somebody writes to meanwhile."""

    def __init__(self, path: Path, line: str) -> None:
        super().__init__()
        self._path, self._line = path, line

    def encode(self, texts: Any) -> NDArray[np.float32]:
        if not self.calls:
            with self._path.open("a") as file:
                file.write(self._line)
        return super().encode(texts)


@pytest.mark.parametrize("line", ["\nmore,x,a", "\nmore,x,new domain"])
def test_a_table_that_changes_meanwhile(tmp_path: Path, line: str) -> None:
    table = write_texts(tmp_path / "t.csv", 6000)
    with refused("changed while they were read"):
        embed_texts(table, Growing(table, line), tmp_path / "bank")
    assert not is_bank(tmp_path / "bank")


class Pixels(np.ndarray):
    """Pixels that a set may hold."""

    __hash__ = object.__hash__  # type: ignore[assignment]


class Counting(ToyImages):
    """Counts the decoded images that are alive while it encodes."""

    def __init__(self) -> None:
        super().__init__(delay=0.05)  # for the readers to run ahead as far as they may
        self._alive: weakref.WeakSet[Any] = weakref.WeakSet()
        self.most = 0

    def pixels(self, image: Any) -> NDArray[np.uint8]:
        decoded = super().pixels(image).view(Pixels)
        self._alive.add(decoded)
        return decoded

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        features = super().encode(np.asarray(pixels))
        self.most = max(self.most, len(self._alive))
        return features


def test_only_a_few_blocks_are_in_memory(tmp_path: Path) -> None:
    root = write_images(tmp_path / "r", n=320)  # 20 blocks
    encoder = Counting()
    embed_images(root, encoder, tmp_path / "bank")
    assert encoder.calls == 20
    assert 64 <= encoder.most <= 3 * 64


def test_gaps_are_told_once_the_bank_is_made_of_any_format(tmp_path: Path) -> None:
    root = write_images(tmp_path / "r")
    shutil.rmtree(root / "b" / "y")
    with pytest.warns(UserWarning, match="no images of class 'y' in 'b'"):
        bank = embed_images(root, ToyImages(), tmp_path / "bank").bank
    assert bank.y.max() == 1 and len(bank.X) == 9
    modes = {"p.gif": "P", "l.bmp": "L", "rgba.png": "RGBA", "la.tiff": "LA", "j.jpeg": "CMYK"}
    for domain in "ab":
        for label in "xy":
            (tmp_path / "s" / domain / label).mkdir(parents=True)
            for name, mode in modes.items():
                Image.new(mode, (9, 7)).save(tmp_path / "s" / domain / label / name)
    bank = embed_images(tmp_path / "s", ToyImages(), tmp_path / "other").bank
    assert bank.X.shape == (20, 4)
