"""Folders of images as datasets: their listing, their pixels and their random changes."""

import math
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft.bench.datasets import Environment, open_dataset
from regraft.bench.datasets.augmentation import Change, change_image, draw_change
from regraft.bench.datasets.folders import list_folders
from regraft.bench.protocol.spaces import draw_configuration
from tests.helpers.paths import SHARED

Image = pytest.importorskip("PIL.Image")

CPU = torch.device("cpu")
REAL = SHARED / "pacs" / "pacs160.zip"
MEAN, DEVIATION = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
PACS = ("art_painting", "cartoon", "photo", "sketch")
CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")


def picture(seed: int = 0, width: int = 30, height: int = 20) -> Any:
    """Colours that change smoothly, for what is compared is not the filter."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BILINEAR)


def pixels(x: torch.Tensor) -> np.ndarray:
    """Normalized inputs (3, 224, 224) as grey levels (224, 224, 3)."""
    return 255 * (x.permute(1, 2, 0).numpy() * DEVIATION + MEAN)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """PACS with two pictures in a class, in the order a.png and b.JPG, and something else."""
    for env in PACS:
        for label, name in enumerate(CLASSES):
            folder = tmp_path / "PACS" / env / name
            folder.mkdir(parents=True)
            picture(2 * label + 1).save(folder / "b.JPG", quality=100, subsampling=0)
            picture(2 * label).save(folder / "a.png")
            (folder / "notes.txt").write_text("no image")
    (tmp_path / "PACS" / ".hidden").mkdir()
    (tmp_path / "PACS" / "readme.txt").write_text("no environment")
    return tmp_path


def open_pacs(data: Path | None = None) -> Sequence[Environment]:
    return open_dataset("PACS", data).environments(0, CPU)


@pytest.mark.parametrize(
    ("name", "folder", "env_names", "n_classes"),
    [
        ("VLCS", "VLCS", "C L S V", 5),
        ("PACS", "PACS", "A C P S", 7),
        ("OfficeHome", "office_home", "A C P R", 65),
        ("TerraIncognita", "terra_incognita", "L100 L38 L43 L46", 10),
        ("DomainNet", "domain_net", "clip info paint quick real sketch", 345),
    ],
)
def test_all_is_known_before_files_are_needed(
    tmp_path: Path, name: str, folder: str, env_names: str, n_classes: int
) -> None:
    dataset = open_dataset(name, tmp_path)
    assert (dataset.name, " ".join(dataset.env_names)) == (name, env_names)
    assert (dataset.n_classes, dataset.input_shape) == (n_classes, (3, 224, 224))
    assert (dataset.group, dataset.steps) == ("images", 5001)
    assert dataset.checkpoint_freq == (1000 if name == "DomainNet" else 300)
    with pytest.raises(FileNotFoundError, match=f"no folder {tmp_path / folder}: .* --data"):
        dataset.environments(0, CPU)


def test_batches_of_domainnet_are_smaller() -> None:
    space = open_dataset("DomainNet").own_space
    sizes = [draw_configuration(space, seed, 0)["batch_size"] for seed in range(200)]
    assert sizes[0] == 32
    assert min(sizes) == 8 and 28 <= max(sizes) <= 32
    assert open_dataset("PACS").own_space == {}


def test_images_are_listed_by_class_and_name(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a folder REGRAFT_DATA names it, and without that it is the current one."""
    given = open_pacs(data)
    monkeypatch.setenv("REGRAFT_DATA", str(data))
    named = open_pacs()
    monkeypatch.delenv("REGRAFT_DATA")
    monkeypatch.chdir(data)
    for environments in (given, named, open_pacs()):
        assert len(environments) == 4
        for environment in environments:
            assert environment.y.tolist() == [label for label in range(7) for _ in range(2)]
    for file in (data / "PACS" / "photo" / "dog").iterdir():
        file.unlink()
    labels = [environment.y.unique().tolist() for environment in open_pacs(data)]
    assert labels == [[*range(7)], [*range(7)], [*range(1, 7)], [*range(7)]]


def test_pixels_are_normalized_or_changed_by_the_seed(data: Path) -> None:
    environment = open_pacs(data)[1]
    x = environment.inputs(torch.tensor([12, 0, 3]))
    assert x.shape == (3, 3, 224, 224)
    assert x.dtype == torch.float32
    for found, seed in zip(x, (12, 0, 3), strict=True):
        expected = np.asarray(picture(seed).resize((224, 224), Image.Resampling.BILINEAR))
        loss = 4 if seed % 2 else 0.01  # odd ones are JPEG files
        np.testing.assert_allclose(pixels(found), expected, atol=loss)
    folder = data / "PACS" / "photo" / "dog"
    Image.new("L", (9, 9), 100).save(folder / "a.png")
    Image.new("RGBA", (9, 9), (10, 20, 30, 0)).save(folder / "b.JPG", format="png")
    x = open_pacs(data)[2].inputs(torch.tensor([0, 1]))
    np.testing.assert_allclose(pixels(x[0]), np.full((224, 224, 3), 100), atol=0.01)
    np.testing.assert_allclose(pixels(x[1])[5, 5], (10, 20, 30), atol=0.01)
    environment = open_pacs(data)[0]
    rows = torch.tensor([4, 4, 9])
    state = torch.get_rng_state()
    first = environment.inputs(rows, augmentation=2**31 - 1)
    assert torch.equal(first, environment.inputs(rows, augmentation=2**31 - 1))
    assert torch.equal(first[:2], environment.inputs(rows[:2], augmentation=2**31 - 1))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, environment.inputs(rows, augmentation=0))
    assert not torch.equal(first, environment.inputs(rows))
    assert torch.equal(state, torch.get_rng_state())


def test_files_and_folders_that_do_not_fit_are_refused(data: Path) -> None:
    folder = data / "PACS" / "sketch" / "horse"
    (folder / "a.png").write_text("not an image")
    environment = open_pacs(data)[3]
    with pytest.raises(ValueError, match=r"a\.png cannot be read as an image") as caught:
        environment.inputs(torch.tensor([0, 8, 1]))
    assert "\n" not in str(caught.value)
    assert len(environment.inputs(torch.tensor([0, 1]))) == 2
    root = data / "PACS"
    (root / "art_painting" / "extra").mkdir()
    with pytest.raises(ValueError, match=r"PACS has 7 classes but .*PACS has folders for 8"):
        open_pacs(data)
    (root / "art_painting" / "extra").rename(root / "extra")
    with pytest.raises(ValueError, match=r"PACS has 4 environments but .* has folders for 5"):
        open_pacs(data)
    (root / "extra").rmdir()
    assert len(open_pacs(data)) == 4
    for file in root.glob("photo/*/*"):
        file.unlink()
    with pytest.raises(ValueError, match="photo holds no images"):
        open_pacs(data)


def test_images_that_end_too_early_are_taken_as_far_as_they_go_and_counted(data: Path) -> None:
    """With the very pixels that Pillow gives where it is told to take such files."""
    files = pytest.importorskip("PIL.ImageFile")
    folder = data / "PACS" / "sketch" / "horse"
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 90, 3), np.uint8))
    for name in ("a.png", "b.JPG"):
        image.save(folder / name, format=None if name == "a.png" else "jpeg", quality=100)
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: len(whole) // 2])
    environment = open_pacs(data)[3]
    with pytest.warns(UserWarning, match=r"horse/a\.png ends too early") as told:
        x = environment.inputs(torch.tensor([0, 8, 9]))
        environment.inputs(torch.tensor([8]))
    assert len(told) == 1 and environment.cut_off == 2
    files.LOAD_TRUNCATED_IMAGES = True
    try:
        for found, name in zip(x[1:], ("a.png", "b.JPG"), strict=True):
            with Image.open(folder / name) as file:
                expected = file.convert("RGB").resize((224, 224), Image.Resampling.BILINEAR)
            np.testing.assert_allclose(pixels(found), np.asarray(expected), atol=0.01)
    finally:
        files.LOAD_TRUNCATED_IMAGES = False


def test_folders_in_class_folders_and_classes_that_an_environment_lacks(data: Path) -> None:
    dog = data / "PACS" / "photo" / "dog"
    (dog / "deep" / "er").mkdir(parents=True)
    for name in ("deep/er/c.tif", "deep/d.pgm", "deep/e.tiff"):
        Image.new("L", (4, 4), 50).save(dog / name)
    for file in (data / "PACS" / "cartoon" / "dog").iterdir():
        file.unlink()
    (data / "PACS" / "cartoon" / "dog").rmdir()
    environments = open_pacs(data)
    assert environments[2].y.tolist()[:6] == [0, 0, 0, 0, 0, 1]
    np.testing.assert_allclose(pixels(environments[2].inputs(torch.tensor([3]))[0]), 50, atol=0.01)
    # Labels are those of all environments' classes: elephants are still of class 1.
    assert environments[1].y.tolist() == [label for label in range(1, 7) for _ in range(2)]


def test_any_folder_of_images_is_a_dataset_by_its_name(data: Path) -> None:
    (data / "PACS").rename(data / "mine")
    dataset = open_dataset("mine", data)
    assert (dataset.name, dataset.env_names, dataset.n_classes) == ("mine", PACS, 7)
    assert (dataset.group, dataset.checkpoint_freq) == ("images", 300)
    assert [len(environment) for environment in dataset.environments(0, CPU)] == [14] * 4
    (data / "mine" / "photo" / "dog" / "a.png").unlink()
    assert open_dataset("mine", data).fingerprint != dataset.fingerprint
    with pytest.raises(ValueError, match=r"dataset is 'sketch': choose from .* in --data\.$"):
        open_dataset("sketch", data / "mine")  # its folders hold no folders


def test_a_wrong_name_is_answered_with_the_folders_of_images(data: Path) -> None:
    (data / "PACS").rename(data / "mine")
    for name in ("a/x", "b/x"):
        (data / "no_images" / name).mkdir(parents=True)
    assert list_folders(data) == ["mine"] and list_folders(data / "absent") == []
    with pytest.raises(ValueError, match=r"dataset is 'nosuch': choose from .*, mine, or name a"):
        open_dataset("nosuch", data)


@given(st.integers(0, 2**31), st.integers(1, 500), st.integers(1, 500))
def test_crops_lie_in_the_image(seed: int, width: int, height: int) -> None:
    left, top, right, bottom = draw_change(np.random.default_rng(seed), width, height).box
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    w, h = right - left, bottom - top
    # Sides are rounded to pixels; an image much too long keeps its middle.
    if max(width, height) / min(width, height) < 4 / 3:
        assert (w + 0.5) * (h + 0.5) > 0.7 * width * height
    assert (w - 1) / (h + 1) <= 4 / 3 and (h - 1) / (w + 1) <= 4 / 3


def test_no_change_only_resizes_and_long_images_keep_their_middle() -> None:
    unchanged = Change((0, 0, 30, 20), is_flipped=False, jitters=(), is_grey=False)
    expected = picture().resize((224, 224), Image.Resampling.BILINEAR)
    assert change_image(picture(), unchanged).tobytes() == expected.tobytes()
    rng = np.random.default_rng(0)
    assert draw_change(rng, 100, 10).box == (43, 0, 56, 10)
    assert draw_change(rng, 10, 100).box == (0, 43, 10, 56)


def test_changes_have_the_right_frequencies() -> None:
    """Over 4,000 draws every mean is within four standard errors of its expectation."""
    n = 4000
    drawn = [draw_change(np.random.default_rng([seed, 0]), 300, 300) for seed in range(n)]
    for p, values in (
        (0.5, [c.is_flipped for c in drawn]),
        (0.1, [c.is_grey for c in drawn]),
        (0.25, [c.jitters[0][0] == "hue" for c in drawn]),
    ):
        assert abs(np.mean(values) - p) < 4 * math.sqrt(p * (1 - p) / n)
    assert len({tuple(name for name, _ in c.jitters) for c in drawn}) == 24
    for name, centre in (("Brightness", 1), ("Contrast", 1), ("Color", 1), ("hue", 0)):
        amounts = [dict(c.jitters)[name] for c in drawn]
        assert abs(np.mean(amounts) - centre) < 4 * 0.3 / math.sqrt(3 * n)
        assert centre - 0.3 <= min(amounts) < centre - 0.29
        assert centre + 0.29 < max(amounts) <= centre + 0.3
    areas = [(c.box[2] - c.box[0]) * (c.box[3] - c.box[1]) / 300**2 for c in drawn]
    assert 0.69 < min(areas) < 0.71 and 0.98 < max(areas) <= 1
    lefts = [c.box[0] / (300 - (c.box[2] - c.box[0])) for c in drawn if c.box[2] - c.box[0] < 290]
    assert abs(np.mean(lefts) - 0.5) < 0.03


@pytest.mark.parametrize("seed", range(20))
def test_changes_are_those_of_torchvision(seed: int) -> None:
    functional = pytest.importorskip("torchvision.transforms.functional")
    by_name = {
        "Brightness": functional.adjust_brightness,
        "Contrast": functional.adjust_contrast,
        "Color": functional.adjust_saturation,
        "hue": functional.adjust_hue,
    }
    image = picture(seed)
    change = draw_change(np.random.default_rng(seed), *image.size)
    left, top, right, bottom = change.box
    expected = functional.resized_crop(image, top, left, bottom - top, right - left, [224, 224])
    if change.is_flipped:
        expected = functional.hflip(expected)
    for name, amount in change.jitters:
        expected = by_name[name](expected, amount)
    if change.is_grey:
        expected = functional.to_grayscale(expected, num_output_channels=3)
    found = np.asarray(change_image(image, change))
    np.testing.assert_array_equal(found, np.asarray(expected))


@pytest.mark.skipif(not REAL.is_file(), reason="the images of PACS are not beside the project")
def test_the_real_images_of_pacs(tmp_path: Path) -> None:
    with zipfile.ZipFile(REAL) as archive:
        names = [name for name in archive.namelist() if name.endswith(".jpg")]
        sizes = Counter(name.split("/")[0] for name in names)
        assert sizes == dict(zip(PACS, (2048, 2344, 1670, 3929), strict=True))
        seen: Counter[str] = Counter()
        for name in names:
            folder = name.rpartition("/")[0]
            seen[folder] += 1
            if seen[folder] <= 3:
                archive.extract(name, tmp_path / "PACS")
    environments = open_pacs(tmp_path)
    assert [len(environment) for environment in environments] == [21] * 4
    rows = torch.arange(21)
    for augmentation in (None, 5):
        x = torch.cat([environment.inputs(rows, augmentation) for environment in environments])
        assert x.shape == (84, 3, 224, 224)
        assert torch.isfinite(x).all() and -2.2 < float(x.min()) < float(x.max()) < 2.7
    sketches, photos = environments[3].inputs(rows), environments[2].inputs(rows)
    # Sketches are black on white: bright, and without colour.
    assert sketches.mean() > photos.mean() + 1
    assert pixels(sketches[0]).std(axis=2).mean() < 2 < pixels(photos[0]).std(axis=2).mean()
