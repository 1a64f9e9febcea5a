"""Folders of images as tensors: which pixels, which files, and when they are made again."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regraft.bench.datasets.folders import Listing
from regraft.bench.paper.picture_store import Pictures, fingerprint, load_pictures
from tests.helpers.errors import refused


def save(path: Path, width: int, height: int, seed: int = 0, mode: str = "RGB") -> str:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    return str(path)


@pytest.fixture
def listings(tmp_path: Path) -> list[Listing]:
    """Two environments, of three images and one."""
    (tmp_path / "data").mkdir()
    folder = tmp_path / "data"
    first = [save(folder / f"{i}.png", 20, 20, seed=i) for i in range(2)]
    grey = save(folder / "grey.png", 20, 20, seed=7, mode="L")
    return [Listing((*first, grey), (0, 1, 1)), Listing((save(folder / "x.png", 10, 20),), (1,))]


def load(listings: list[Listing], folder: Path, size: int = 64) -> tuple[list[Pictures], list[str]]:
    told: list[str] = []
    return load_pictures(listings, fingerprint(listings), size, folder, told.append), told


def test_images_are_kept_as_they_are_or_stored_a_little_larger_than_needed(
    listings: list[Listing], tmp_path: Path
) -> None:
    (first, second), told = load(listings, tmp_path / "store")
    assert first.pixels.shape == (3, 3, 20, 20) and first.pixels.dtype == torch.uint8
    for i, path in enumerate(listings[0].paths):
        pixels = np.asarray(Image.open(path).convert("RGB"))
        assert np.array_equal(first.pixels[i].permute(1, 2, 0).numpy(), pixels)
    assert first.y.tolist() == [0, 1, 1] and second.y.tolist() == [1]
    assert first.aspects.tolist() == [1, 1, 1] and second.aspects.tolist() == [0.5]
    stretched = Image.open(listings[1].paths[0]).resize((20, 20), Image.Resampling.BILINEAR)
    assert np.array_equal(second.pixels[0].permute(1, 2, 0).numpy(), np.asarray(stretched))
    assert [text.split(",")[0] for text in told] == ["images: 3 of 4", "images: 4 of 4"]
    (first, second), _ = load(listings, tmp_path / "store", size=14)
    assert first.pixels.shape[2:] == second.pixels.shape[2:] == (16, 16)


def test_only_lost_or_changed_parts_are_decoded(listings: list[Listing], tmp_path: Path) -> None:
    before, _ = load(listings, tmp_path / "store")
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").iterdir()}
    after, told = load(listings, tmp_path / "store")
    assert told == []
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "store").iterdir()} == written
    for old, new in zip(before, after, strict=True):
        assert torch.equal(old.pixels, new.pixels) and torch.equal(old.aspects, new.aspects)
    (tmp_path / "store" / "1.safetensors").unlink()
    after, told = load(listings, tmp_path / "store")
    assert told == ["images: 4 of 4"]
    assert torch.equal(before[1].pixels, after[1].pixels)
    save(Path(listings[0].paths[0]), 20, 20, seed=9)
    (first, _), told = load(listings, tmp_path / "store")
    assert len(told) == 2
    new = np.asarray(Image.open(listings[0].paths[0]))
    assert np.array_equal(first.pixels[0].permute(1, 2, 0).numpy(), new)
    assert load(listings, tmp_path / "store", size=14)[0][0].pixels.shape[2] == 16


def test_the_fingerprint_is_of_content_and_order(listings: list[Listing], tmp_path: Path) -> None:
    usual = fingerprint(listings)
    first, second = listings
    moved = tmp_path / "moved.png"
    moved.write_bytes(Path(first.paths[0]).read_bytes())
    elsewhere = Listing((str(moved), *first.paths[1:]), first.labels)
    assert fingerprint([elsewhere, second]) == usual
    assert fingerprint([second, first]) != usual
    assert fingerprint([Listing(first.paths, (1, 1, 1)), second]) != usual
    assert fingerprint([Listing(first.paths[::-1], first.labels), second]) != usual
    moved.write_bytes(moved.read_bytes() + b" ")
    assert fingerprint([elsewhere, second]) != usual


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n", None])
def test_a_file_that_is_no_image_or_cut_off_is_named(
    listings: list[Listing], tmp_path: Path, content: bytes | None
) -> None:
    path = Path(listings[0].paths[1])
    path.write_bytes(path.read_bytes()[:-200] if content is None else content)
    with refused(r"1\.png cannot be read as an image.*replace or remove it\.$"):
        load(listings, tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_large_jpegs_are_read_at_about_the_size_asked_for(tmp_path: Path) -> None:
    smooth = Image.fromarray(np.arange(12, dtype=np.uint8).reshape(2, 2, 3) * 20)
    smooth.resize((900, 700), Image.Resampling.BILINEAR).save(tmp_path / "big.jpg", quality=95)
    listing = Listing((str(tmp_path / "big.jpg"),), (0,))
    ((big,), _) = load([listing], tmp_path / "store", size=56)
    assert big.aspects.item() == pytest.approx(9 / 7)
    wanted = Image.open(tmp_path / "big.jpg").resize((64, 64), Image.Resampling.BILINEAR)
    difference = big.pixels[0].permute(1, 2, 0).numpy().astype(int) - np.asarray(wanted)
    assert abs(difference).max() <= 4
