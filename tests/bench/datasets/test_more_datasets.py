"""SVIRO, Spawrious and WILDS, as small folders in the layout of their archives."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from regraft.bench.datasets import open_dataset, spawrious
from regraft.bench.datasets.augmentation import (
    SIZE,
    Change,
    Style,
    change_image,
    draw_change,
    prepare_image,
    resize,
)
from tests.helpers.commands import hide_packages, run_apart
from tests.helpers.errors import refused

Image = pytest.importorskip("PIL.Image")
CPU = torch.device("cpu")
BREEDS = ("bulldog", "corgi", "dachshund", "labrador")
ORDER = ("bulldog", "dachshund", "labrador", "corgi")
BACKGROUNDS = ("beach", "desert", "dirt", "jungle", "mountain", "snow")
ONE_TO_ONE = ("SpawriousO2O_easy", "SpawriousO2O_medium", "SpawriousO2O_hard")
MANY_TO_MANY = ("SpawriousM2M_easy", "SpawriousM2M_medium", "SpawriousM2M_hard")


def save(path: Path, colour: tuple[int, int, int] = (9, 9, 9), size: int = 8) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (size, size), colour).save(path)


def test_sviro(tmp_path: Path) -> None:
    cars = ["aclass", "escape", "hilux", "i3", "lexus", "tesla", "tiguan", "tucson", "x5", "zoe"]
    for car in cars:
        for label in range(7):
            save(tmp_path / "sviro" / car / str(label) / "a.png")
    dataset = open_dataset("SVIRO", tmp_path)
    dataset.check()
    assert dataset.env_names == tuple(cars) and dataset.n_classes == 7
    assert (dataset.steps, dataset.checkpoint_freq) == (5001, 300)
    environments = dataset.environments(0, CPU)
    assert [environment.y.tolist() for environment in environments] == [list(range(7))] * 10


@pytest.fixture
def dogs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten images of each breed on each background, twice."""
    monkeypatch.setattr(spawrious, "_TOTAL", 10)
    for folder in "01":
        for background in BACKGROUNDS:
            for breed in BREEDS:
                for i in range(10):
                    save(tmp_path / "spawrious224" / folder / background / breed / f"{i}.png")
    return tmp_path


def parts(listing: spawrious.Listing) -> Counter[tuple[str, ...]]:
    """How many images there are of each folder, background and breed."""
    return Counter(Path(path).parts[-4:-1] for path in listing.paths)


def open_dogs(name: str, data: Path) -> spawrious.Spawrious:
    dataset = open_dataset(name, data)
    assert isinstance(dataset, spawrious.Spawrious)
    return dataset


@pytest.mark.parametrize("name", [*ONE_TO_ONE, *MANY_TO_MANY])
def test_spawrious(name: str, dogs: Path) -> None:
    dataset = open_dogs(name, dogs)
    dataset.check()
    assert dataset.env_names == ("Test", "SC_group_1", "SC_group_2")
    assert (dataset.n_classes, dataset.checkpoint_freq) == (4, 100)
    test, first, second = dataset.listings
    assert len(test.paths) == 80 and len(first.paths) == len(second.paths)
    for listing in (test, first, second):
        breeds = [Path(path).parts[-2] for path in listing.paths]
        assert [BREEDS[label] for label in listing.labels] == breeds
    # No breed is tested on a background that is its own in training.
    own = {key[1:] for each in (first, second) for key, n in parts(each).items() if n > 4}
    assert {key[1:] for key in parts(test)} & own == set()


def test_spawrious_one_to_one(dogs: Path) -> None:
    _, first, second = open_dogs("SpawriousO2O_easy", dogs).listings
    on = dict(zip(ORDER, ("desert", "jungle", "dirt", "snow"), strict=True))
    expected = {("0", on[breed], breed): 9 for breed in BREEDS}
    assert parts(first) == expected | {("0", "beach", breed): 1 for breed in BREEDS}
    expected = {("1", on[breed], breed): 8 for breed in BREEDS}
    assert parts(second) == expected | {("1", "beach", breed): 2 for breed in BREEDS}


def test_spawrious_many_to_many(dogs: Path) -> None:
    test, first, second = open_dogs("SpawriousM2M_hard", dogs).listings
    for listing, backgrounds in (
        (first, ("dirt", "jungle", "snow", "beach")),
        (second, ("jungle", "dirt", "beach", "snow")),
    ):
        pairs = zip(backgrounds, ORDER, strict=True)
        assert parts(listing) == {("0", background, breed): 10 for background, breed in pairs}
    on = {breed: {key[1] for key in parts(test) if key[2] == breed} for breed in ORDER}
    assert on["bulldog"] == on["dachshund"] == {"snow", "beach"}
    assert on["labrador"] == on["corgi"] == {"dirt", "jungle"}


def test_spawrious_is_found_in_its_folder_and_missed_in_a_sentence(dogs: Path) -> None:
    inside = open_dogs("SpawriousM2M_easy", dogs / "spawrious224").listings
    assert inside == open_dogs("SpawriousM2M_easy", dogs).listings
    with refused("name the folder that holds spawrious224", FileNotFoundError, dogs / "none"):
        open_dataset("SpawriousM2M_easy", dogs / "none").check()


def test_the_test_environment_of_spawrious_is_never_changed(dogs: Path) -> None:
    test, group, _ = open_dogs("SpawriousO2O_hard", dogs).environments(0, CPU)
    rows = torch.arange(4)
    assert torch.equal(test.inputs(rows, 7), test.inputs(rows))
    assert not torch.equal(group.inputs(rows, 7), group.inputs(rows))


def test_styles_of_change() -> None:
    coarse = np.random.default_rng(0).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    image = Image.fromarray(coarse).resize((30, 20))
    full = resize(image)

    def draw(width: int, height: int) -> Change:
        return draw_change(np.random.default_rng((1, 2)), width, height)

    expected = {
        "never": full,
        "crop": change_image(image, draw(30, 20)),
        "resize and crop": change_image(full, draw(SIZE, SIZE)),
        "resize": change_image(full, replace(draw(SIZE, SIZE), box=(0, 0, SIZE, SIZE))),
    }
    found = {style: prepare_image(image, (1, 2), style) for style in get_args(Style)}
    assert {style: each.tobytes() for style, each in found.items()} == {
        style: each.tobytes() for style, each in expected.items()
    }
    assert len({each.tobytes() for each in found.values()}) == 4


def write_camelyon(data: Path, hospitals: int = 5) -> None:
    root = data / "camelyon17_v1.0"
    lines = [",patient,node,x_coord,y_coord,tumor,slide,center,split"]
    for i in range(4 * hospitals):
        patient, center, tumor = f"{i // 4:03}", i // 4, i % 2
        lines.append(f"{i},{patient},2,{i},{i + 1},{tumor},{center},{center},0")
        folder = root / "patches" / f"patient_{patient}_node_2"
        name = f"patch_patient_{patient}_node_2_x_{i}_y_{i + 1}.png"
        save(folder / name, (255 * tumor, 0, 0), 96)
    (root / "metadata.csv").write_text("\n".join(lines) + "\n")
    (root / "RELEASE_v1.0.txt").touch()


def test_camelyon(tmp_path: Path) -> None:
    with refused("see regraft download WILDSCamelyon", FileNotFoundError, tmp_path):
        open_dataset("WILDSCamelyon", tmp_path).check()
    pytest.importorskip("wilds", reason="wilds is not installed", exc_type=ImportError)
    write_camelyon(tmp_path)
    dataset = open_dataset("WILDSCamelyon", tmp_path)
    assert dataset.env_names[0] == "hospital_0" and len(dataset.env_names) == 5
    environments = dataset.environments(0, CPU)
    assert [environment.y.tolist() for environment in environments] == [[0, 1, 0, 1]] * 5
    red = environments[3].inputs(torch.arange(4))[:, 0].mean(dim=(1, 2))
    assert (red > 0).tolist() == [False, True, False, True]
    (tmp_path / "less").mkdir()
    write_camelyon(tmp_path / "less", hospitals=4)
    with refused("has 4 values of hospital, where WILDSCamelyon has 5", path=tmp_path / "less"):
        open_dataset("WILDSCamelyon", tmp_path / "less").environments(0, CPU)


def test_fmow(tmp_path: Path) -> None:
    pytest.importorskip("wilds", reason="wilds is not installed", exc_type=ImportError)
    root = tmp_path / "fmow_v1.1"
    countries = {"FRA": "Europe", "CHN": "Asia", "EGY": "Africa", "USA": "Americas"}
    countries |= {"AUS": "Oceania", "XXX": "Other"}
    lines = ["split,category,country_code,timestamp"]
    for i in range(18):
        split = ("train", "seq", "test")[i // 6]
        country, category = [*countries][i % 6], ("airport", "zoo")[i % 2]
        lines.append(f"{split},{category},{country},2010-0{1 + i % 6}-03T10:11:12Z")
        save(root / "images" / f"rgb_img_{i}.png", (10 * i, 0, 0))
    (root / "rgb_metadata.csv").write_text("\n".join(lines) + "\n")
    known = [f"{code},{region}" for code, region in countries.items() if code != "XXX"]
    (root / "country_code_mapping.csv").write_text("\n".join(["alpha-3,region", *known]) + "\n")
    (root / "RELEASE_v1.1.txt").touch()
    dataset = open_dataset("WILDSFMoW", tmp_path)
    assert dataset.env_names == tuple(f"region_{i}" for i in range(6)) and dataset.n_classes == 62
    environments = dataset.environments(0, CPU)
    # Two of three images of a region: those that the contest kept secret are left out.
    assert [environment.y.tolist() for environment in environments] == [[0, 0], [61, 61]] * 3
    red = environments[1].inputs(torch.arange(2))[:, 0, 0, 0] * 0.229 + 0.485
    assert (red * 255).round().tolist() == [10, 130]


def test_without_the_package_of_wilds(tmp_path: Path) -> None:
    write_camelyon(tmp_path)
    hidden = hide_packages(tmp_path / "hidden", "wilds")
    code = "from regraft.bench.datasets import open_dataset; open_dataset('WILDSCamelyon').check()"
    ran = run_apart(code=code, path=[hidden], REGRAFT_DATA=str(tmp_path))
    assert 'wilds is not installed: run pip install "regraft[wilds]".' in ran.err
