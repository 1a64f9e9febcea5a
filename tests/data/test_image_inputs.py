"""Images: which are found, how they are read, and what is told of those that cannot be."""

import hashlib
import json
import os
import re
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from regraft.data.image_inputs import ImageInputs
from regraft.data.input_blocks import Block, Survey
from regraft.encoders.embedding import embed_images
from tests.helpers.errors import one_sentence, refused
from tests.helpers.toy_encoders import ToyImages, write_images

FIRST = Path("a/x/0000.png")
HEADER = "path,label,domain"


def survey(source: Path, work: Path, **options: Any) -> tuple[Survey, list[Any]]:
    """The listing and the lines of its file."""
    work.mkdir(exist_ok=True)
    listing = ImageInputs(source, ToyImages().pixels, **options).survey(work)
    lines = (work / "listing.jsonl").read_text().splitlines()
    return listing, [json.loads(line) for line in lines]


def read(source: Path, work: Path, first: int = 0, **options: Any) -> list[Block[Any]]:
    work.mkdir(exist_ok=True)
    images = ImageInputs(source, ToyImages().pixels, **options)
    images.survey(work)
    return list(images.blocks(work, first))


def test_a_folder_is_listed_in_order(tmp_path: Path) -> None:
    root = write_images(tmp_path / "r", domains=("b", "a"), classes=("y", "x"), n=2)
    listing, lines = survey(root, tmp_path / "w")
    size = (root / FIRST).stat().st_size
    assert lines[0] == [["a/x/0000.png", size], "x", "a"]
    assert [line[0][0] for line in lines] == sorted(line[0][0] for line in lines)
    assert (listing.rows, listing.classes, listing.domains) == (8, ("x", "y"), ("a", "b"))
    assert listing.notes == ()
    assert survey(root, tmp_path / "w")[0] == listing
    root = write_images(tmp_path / "n", domains=("10", "9"), classes=("2", "11", "x"), n=1)
    listing, _ = survey(root, tmp_path / "w")
    assert (listing.domains, listing.classes) == ((9, 10), ("11", "2", "x"))


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / FIRST).rename(root / "a/x/9.png"),
        lambda root: (root / FIRST).rename(root / "a/y/9.png"),
        lambda root: (root / FIRST).unlink(),
        lambda root: (root / FIRST).write_bytes(b"another size"),
        lambda root: (root / "a").rename(root / "c"),
    ],
)
def test_other_files_have_another_digest(tmp_path: Path, change: Callable[[Path], None]) -> None:
    root = write_images(tmp_path / "r")
    before, _ = survey(root, tmp_path / "w")
    change(root)
    assert survey(root, tmp_path / "w")[0].digest != before.digest


def test_hidden_things_are_ignored_and_others_counted(tmp_path: Path) -> None:
    root = write_images(tmp_path / "r")
    clean, _ = survey(root, tmp_path / "w")
    for hidden in (".git/x", "a/.cache/z", "a/x/.thumbs"):
        (root / hidden).mkdir(parents=True)
    (root / "a/x/.hidden.png").touch()
    (root / ".DS_Store").touch()
    assert survey(root, tmp_path / "w")[0] == clean
    (root / "readme.txt").touch()
    (root / "a" / "stray.png").touch()
    (root / "a" / "x" / "notes.txt").touch()
    (root / "a" / "x" / "more").mkdir()
    listing, _ = survey(root, tmp_path / "w")
    assert listing.digest == clean.digest
    assert one_sentence(*listing.notes).startswith(f"4 entries of {root} are left out")


def test_gaps_are_told_and_kept_and_many_are_counted(tmp_path: Path) -> None:
    root = write_images(tmp_path / "r")
    for path in (root / "b" / "y").iterdir():
        path.unlink()
    (root / "a" / "z").mkdir()
    listing, lines = survey(root, tmp_path / "w")
    assert (listing.rows, listing.classes) == (9, ("x", "y"))
    unused, gap = map(one_sentence, listing.notes)
    assert unused == "no domain has images of class 'z', which is left out."
    assert "no images of class 'y' in 'b': that domain says nothing" in gap
    assert len(lines) == 9
    for i in range(5):
        write_images(tmp_path / "many", domains=(f"d{i}",), classes=(f"c{i}",), n=1)
    listing, _ = survey(tmp_path / "many", tmp_path / "w")
    assert "'c4' in 'd1' and 12 more: that domain" in one_sentence(*listing.notes)


NO_TAGS: dict[str, Any] = {"label": None, "domain": None}


def test_without_labels_a_folder_has_any_layout(tmp_path: Path) -> None:
    root = write_images(tmp_path / "r", n=1)
    (root / "b/x/0000.png").rename(root / "b/late.png")
    (root / "b/y/0000.png").rename(root / "top.PNG")
    (root / "a" / "up").symlink_to(root)  # which leads back
    (root / "notes.md").touch()
    listing, lines = survey(root, tmp_path / "w", **NO_TAGS)
    names = ["top.PNG", "a/x/0000.png", "a/y/0000.png", "b/late.png"]
    assert [line[0][0] for line in lines] == names
    assert (listing.rows, listing.classes, listing.domains) == (4, None, None)
    assert [one_sentence(note) for note in listing.notes] == [
        f"1 entry of {root} is left out: it is no image."
    ]
    (block,) = read(root, tmp_path / "w", **NO_TAGS)
    assert block.labels == block.domains == (None,) * 4
    assert [each.key for each in block.inputs] == names
    (block,) = read(root / "top.PNG", tmp_path / "w")
    assert [each.key for each in block.inputs] == ["top.PNG"] and block.labels == (None,)
    (tmp_path / "none" / "inside").mkdir(parents=True)
    with refused("holds no images: pass a folder with"):
        survey(tmp_path / "none", tmp_path / "w", **NO_TAGS)
    with refused(re.escape("(--unlabelled)")):
        survey(root / "b", tmp_path / "w")
    table = write_table(tmp_path / "t.csv", f"r/{FIRST}", "r/top.PNG", header="path")
    (block,) = read(table, tmp_path / "w", **NO_TAGS)
    assert [each.key for each in block.inputs] == [f"r/{FIRST}", "r/top.PNG"]


def touch(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.touch()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda root: None, "there is no folder or file"),
        (lambda root: root.touch(), "is neither a folder nor a .csv file"),
        (Path.mkdir, "is empty: arrange the folder as domain/class/file"),
        (lambda root: touch(root / "a.png"), "holds files where folders of domains should be"),
        (lambda root: touch(root / "a/a.png"), "holds files where folders of classes should be"),
        (lambda root: (root / "a").mkdir(parents=True), "a is empty"),
        (lambda root: (write_images(root, "a") / "b/x").mkdir(parents=True), "b holds no images"),
        (lambda root: os.makedirs(os.fsencode(root) + b"/a/\xff"), "half of a surrogate pair"),
    ],
)
def test_refused_folders(tmp_path: Path, make: Callable[[Path], None], message: str) -> None:
    make(tmp_path / "r")
    with refused(re.escape(message), (ValueError, FileNotFoundError)):
        survey(tmp_path / "r", tmp_path / "w")


def write_table(path: Path, *rows: str, header: str = HEADER) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_a_table_names_images_from_its_own_folder_on(tmp_path: Path) -> None:
    root = write_images(tmp_path / "r")
    table = write_table(
        tmp_path / "tables" / "t.csv",
        "dog,../r/b/y/0001.png,7,extra",
        f"cat,{root / 'a/x/0000.png'},5,extra",
        header="animal,file,year,more",
    )
    options = {"image": "file", "label": "animal", "domain": "year"}
    listing, lines = survey(table, tmp_path / "w", **options)
    assert [line[0][0] for line in lines] == ["../r/b/y/0001.png", "../r/a/x/0000.png"]
    assert (listing.classes, listing.domains) == (("cat", "dog"), (5, 7))
    (block,) = read(table, tmp_path / "w", **options)
    expected = [hashlib.sha256((root / p).read_bytes()) for p in ("b/y/0001.png", "a/x/0000.png")]
    assert [each.sha256 for each in block.inputs] == [each.hexdigest() for each in expected]
    assert block.labels == ("dog", "cat")


@pytest.mark.parametrize("is_written_through", ["real", "linked"])
def test_a_table_in_a_linked_folder(tmp_path: Path, is_written_through: str) -> None:
    """A step up from a link leads to where it points, not to where it lies."""
    root = write_images(tmp_path / "deep" / "real", n=1)
    (tmp_path / "linked").symlink_to(tmp_path / "deep" / "real")
    place = {"real": root, "linked": tmp_path / "linked"}[is_written_through] / FIRST
    for table, key in (("tables/t.csv", "../a/x/0000.png"), ("t.csv", "a/x/0000.png")):
        write_table(root / table, f"{place},x,a")
        (block,) = read(tmp_path / "linked" / table, tmp_path / "w")
        assert [(each.key, each.sha256) for each in block.inputs] == [
            (key, hashlib.sha256(place.read_bytes()).hexdigest())
        ]


def test_another_drive_keeps_its_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> str:
        raise ValueError("path is on mount 'c:', start on mount 'd:'")

    root = write_images(tmp_path / "r", n=1)
    table = write_table(tmp_path / "t.csv", f"{root / FIRST},x,a")
    monkeypatch.setattr(os.path, "relpath", refuse)
    (block,) = read(table, tmp_path / "w")
    assert [each.key for each in block.inputs] == [str(root / FIRST)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["path,label", f"r/{FIRST},x"], "no domain column 'domain' (it has 'path', 'label')"),
        ([HEADER, "none.png,x,a"], "row 1 (line 2) of"),
        ([HEADER, f"r/{FIRST}/z.png,x,a"], "does not exist: correct the path"),
        ([HEADER, f"r/{FIRST},,a"], "has no label (column 'label')"),
        ([HEADER, ",x,a"], "has no path (column 'path')"),
        ([HEADER], "has no rows"),
        ([HEADER, f"r/{FIRST},x,a,b"], "has 4 cells but the header has 3"),
        (["path,path,label,domain", "p,p,x,a"], "more than one column 'path'"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    write_images(tmp_path / "r")
    table = write_table(tmp_path / "t.csv", *lines[1:], header=lines[0])
    with refused(re.escape(message), (ValueError, FileNotFoundError)):
        survey(table, tmp_path / "w")


def test_blocks_hold_pixels_digests_and_names(tmp_path: Path) -> None:
    root = write_images(tmp_path / "r", n=40)
    blocks = read(root, tmp_path / "w")
    assert [len(block.inputs) for block in blocks] == [64, 64, 32]
    keys = [each.key for block in blocks for each in block.inputs]
    assert keys[:2] == ["a/x/0000.png", "a/x/0001.png"] and keys == sorted(keys)
    digests = [each.sha256 for block in blocks for each in block.inputs]
    assert digests == [hashlib.sha256((root / str(key)).read_bytes()).hexdigest() for key in keys]
    assert [name for block in blocks for name in block.domains] == ["a"] * 80 + ["b"] * 80
    assert blocks[0].content.shape == (64, 4, 4, 3)
    assert blocks[1].content[-1, 0, 0].tolist() == [47, 90, 7]  # the colour of b/y/0007
    later = read(root, tmp_path / "w", first=128)
    np.testing.assert_array_equal(later[0].content, blocks[2].content)
    assert len(later) == 1


def truncated(path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path, "PNG")
    path.write_bytes(path.read_bytes()[:3000])


def bomb(path: Path) -> None:
    """A header that promises more pixels than any machine should decode."""
    Image.new("L", (1, 1)).save(path, "PNG")
    content = bytearray(path.read_bytes())
    content[16:24] = (60_000).to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(bytes(content[12:29])).to_bytes(4, "big")
    path.write_bytes(content)


def broken_stream(path: Path) -> None:
    Image.new("RGB", (6, 5)).save(path, "PNG")
    content = bytearray(path.read_bytes())
    content[42] ^= 255  # of the compressed pixels
    path.write_bytes(content)


def unreadable(path: Path) -> None:
    Image.new("RGB", (6, 5)).save(path, "PNG")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")


BROKEN: list[tuple[Callable[[Path], None], str]] = [
    (truncated, "truncated"),
    (Path.touch, "it is empty"),
    (lambda path: path.write_text("no image"), "not an image of a known format"),
    (bomb, "decompression bomb"),
    (broken_stream, "broken data stream"),
    (Path.mkdir, "it is a folder"),
    (os.mkfifo, "it is not a file"),
    (lambda path: path.symlink_to("nowhere.png"), "no such file or directory"),
    (unreadable, "permission denied"),
]


@pytest.mark.parametrize(("spoil", "reason"), BROKEN)
def test_broken_images_are_told(tmp_path: Path, spoil: Callable[[Path], None], reason: str) -> None:
    root = write_images(tmp_path / "r", n=1)
    spoil(root / "a" / "x" / "bad.JPG")
    with refused(rf"{root}/a/x/bad\.JPG cannot be read.*{reason}.*--on-broken skip"):
        read(root, tmp_path / "w")
    with pytest.warns(UserWarning, match=reason) as warned:
        (block,) = read(root, tmp_path / "w", on_broken="skip")
    assert [str(each.message) for each in warned] == [
        f"{root}/a/x/bad.JPG is left out ({block.skipped[0].reason})."
    ]
    assert block.skipped[0].key == "a/x/bad.JPG"
    assert not re.search(r"0x|/", block.skipped[0].reason)  # the same in every run
    assert len(block.inputs) == len(block.content) == 4


def test_names_that_are_no_text_or_wrong_do_no_harm(tmp_path: Path) -> None:
    root = write_images(tmp_path / "r", n=1)
    bad = os.fsencode(root) + b"/a/x/\xff.png"
    os.rename(os.fsencode(root / FIRST), bad)
    (block,) = read(root, tmp_path / "w")
    assert os.fsencode(block.inputs[0].key) == b"a/x/\xff.png"
    assert block.inputs[0].line().isascii()
    with open(bad, "wb"):
        pass
    with refused(r"udcff\.png cannot be read") as caught:
        read(root, tmp_path / "w")
    str(caught.value).encode()
    root = write_images(tmp_path / "s", n=1)
    (root / "a/x/0000.png").rename(root / "a/x/0000.jpg")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (block,) = read(root, tmp_path / "w")
    assert block.inputs[0].key == "a/x/0000.jpg"


def test_what_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with refused("'ignore': choose from stop, skip"):
        ImageInputs(tmp_path, ToyImages().pixels, on_broken="ignore")
    root = write_images(tmp_path / "r")
    with refused("lies in the folder of images"):
        embed_images(root, ToyImages(), root / "bank")
    assert not (root / "bank").exists()


def test_blocks_that_are_read_elsewhere_are_the_same(tmp_path: Path) -> None:
    root = write_images(tmp_path / "r", n=20)
    (root / FIRST).write_bytes(b"no image")
    images = ImageInputs(root, ToyImages().pixels, on_broken="skip")
    images.survey(tmp_path)
    with pytest.warns(UserWarning, match="is left out"):
        here = list(images.blocks(tmp_path, 0))
    there = [images.read(part) for part in images.parts(tmp_path, 0)]
    for ours, theirs in zip(here, there, strict=True):
        assert (ours.content == theirs.content).all()
        assert (ours.inputs, ours.labels, ours.skipped) == (
            theirs.inputs,
            theirs.labels,
            theirs.skipped,
        )
    strict = ImageInputs(root, ToyImages().pixels)
    with refused("cannot be read as an image .* --on-broken skip"):
        strict.check(there[0])
    strict.check(there[1])
