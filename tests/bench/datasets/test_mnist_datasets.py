"""Colored and Rotated MNIST as datasets: their rows, and their pixels against Pillow's."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from regraft.bench.datasets import colored_mnist, mnist, open_dataset
from regraft.bench.datasets.rotated_mnist import ANGLES, make_environments, rotate
from tests.helpers.idx_files import write_mnist
from tests.helpers.paths import SHARED

CPU = torch.device("cpu")
REAL = SHARED / "mnist"
Digits = tuple[NDArray[np.uint8], NDArray[np.uint8]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: Digits) -> Path:
    """MNIST's four files with other images in them."""
    monkeypatch.setattr(mnist, "CHECKSUMS", write_mnist(tmp_path, *blobs))
    return tmp_path


def random_images(n: int, height: int = 28, width: int = 28) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (n, height, width), generator=generator, dtype=torch.uint8)


@pytest.mark.parametrize("place", ["mnist", "MNIST/raw", "MNIST/MNIST/raw"])
def test_files_are_found_where_domainbeds_scripts_leave_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: Digits, place: str
) -> None:
    (tmp_path / place).mkdir(parents=True)
    monkeypatch.setattr(mnist, "CHECKSUMS", write_mnist(tmp_path / place, *blobs))
    open_dataset("ColoredMNIST", tmp_path).check()


def test_making_one_reads_nothing(tmp_path: Path) -> None:
    for name, n_envs in (("ColoredMNIST", 3), ("RotatedMNIST", 6)):
        made = open_dataset(name, tmp_path / "absent")
        assert (made.name, len(made.env_names), made.group) == (name, n_envs, "small images")
        with pytest.raises(FileNotFoundError, match="absent"):
            made.environments(0, CPU)


@pytest.mark.parametrize("name", ["ColoredMNIST", "RotatedMNIST"])
def test_environments_are_as_promised_and_follow_the_seed(folder: Path, name: str) -> None:
    dataset = open_dataset(name, folder)
    environments = dataset.environments(0, CPU)
    assert len(environments) == len(dataset.env_names)
    assert sum(map(len, environments)) == 600
    for environment in environments:
        x = environment.inputs(torch.tensor([3, 0]))
        assert x.shape == (2, *dataset.input_shape)
        assert x.dtype == torch.float32
        assert 0 <= float(x.min()) < float(x.max()) <= 1
        assert environment.y.dtype == torch.int64
        assert set(environment.y.tolist()) == set(range(dataset.n_classes))
        assert torch.equal(environment.inputs(torch.tensor([0, 3]), augmentation=1), x.flip(0))
    first, again, other = (
        [env.inputs(torch.arange(len(env))) for env in dataset.environments(seed, CPU)]
        for seed in (1, 1, 2)
    )
    assert all(map(torch.equal, first, again))
    assert not any(map(torch.equal, first, other))


def test_colours_and_shuffles_are_those_of_the_protocol(folder: Path, blobs: Digits) -> None:
    expected = colored_mnist.make_environments(*blobs, seed=7)
    found = open_dataset("ColoredMNIST", folder).environments(7, CPU)
    for one, other in zip(expected, found, strict=True):
        rows = torch.arange(len(one))
        assert torch.equal(one.y, other.y)
        assert torch.equal(one.inputs(rows), other.inputs(rows))
    torch.manual_seed(5)
    order = torch.randperm(600)
    images, digits = map(torch.from_numpy, blobs)
    environments = open_dataset("RotatedMNIST", folder).environments(5, CPU)
    for i, (environment, angle) in enumerate(zip(environments, ANGLES, strict=True)):
        rows = order[i::6]
        assert torch.equal(environment.y, digits[rows].long())
        expected = rotate(images[rows], angle)[:, None].float() / 255
        assert torch.equal(environment.inputs(torch.arange(100)), expected)


def test_chunks_do_not_show_and_a_quarter_turn_is_counter_clockwise() -> None:
    images = random_images(6 * 2100).numpy()
    digits = np.arange(len(images)).astype(np.uint8)
    torch.manual_seed(0)
    rows = torch.randperm(len(images))[1::6]
    turned = make_environments(images, digits, 0, CPU)[1].inputs(torch.tensor([2047, 2048, 2099]))
    expected = rotate(torch.from_numpy(images)[rows[[2047, 2048, 2099]]], 15)[:, None]
    assert torch.equal(turned, expected.float() / 255)
    images = random_images(3)
    assert torch.equal(rotate(images, 90), torch.rot90(images, 1, (1, 2)))
    assert torch.equal(rotate(images, 0), images)


@pytest.mark.parametrize("angle", [*ANGLES, -33, 400])
@pytest.mark.parametrize("size", [(28, 28), (7, 12)])
def test_pixels_are_pillows(angle: int, size: tuple[int, int]) -> None:
    """Counter-clockwise, about the same centre, with the same edges and rounding."""
    pillow = pytest.importorskip("PIL.Image")
    images = random_images(400, *size)
    turned = rotate(images, angle).numpy()
    bilinear = pillow.Resampling.BILINEAR
    expected = [pillow.fromarray(image).rotate(angle, bilinear) for image in images.numpy()]
    np.testing.assert_array_equal(turned, np.stack(expected))


@given(st.floats(-360, 360), st.integers(0, 255))
def test_a_grey_disc_stays_grey(angle: float, level: int) -> None:
    """Rounding down takes nothing away where neighbours are equal."""
    images = torch.full((1, 28, 28), level, dtype=torch.uint8)
    middle = rotate(images, angle)[:, 6:22, 6:22]
    assert set(middle.flatten().tolist()) == {level}


@pytest.mark.skipif(not REAL.is_dir(), reason="the original MNIST is not beside the project")
def test_the_real_images() -> None:
    environments = open_dataset("RotatedMNIST", REAL).environments(0, CPU)
    assert [len(environment) for environment in environments] == [11667] * 4 + [11666] * 2
    counts = sum(environment.y.bincount() for environment in environments)
    assert counts.tolist() == [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]
    upright, turned = (environments[i].inputs(torch.arange(2000)).mean((0, 1)) for i in (0, 3))
    # Turned back, the mean digit is the upright one again, but for the blur of two turns.
    back = rotate((255 * turned).to(torch.uint8)[None], -45)[0].float() / 255
    assert torch.corrcoef(torch.stack([back.flatten(), upright.flatten()]))[0, 1] > 0.99
