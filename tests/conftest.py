"""Small confounded problems that every test may share."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from hypothesis import settings
from numpy.typing import NDArray

from regraft.cli import app
from regraft.extras import mend_torchvision
from regraft.runs import Run

settings.register_profile("regraft", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("regraft")
mend_torchvision()  # before tests ask whether timm can be imported


@dataclass(frozen=True)
class Problem:
    X: NDArray[np.float64]
    y: NDArray[np.int64]
    domain: NDArray[np.str_]


def make_problem(
    seed: int = 0, n: int = 300, d: int = 6, classes: int = 2, sources: int = 2
) -> Problem:
    """A cause in one direction, a confounder in another whose strength differs by domain."""
    rng = np.random.default_rng(seed)
    blocks, labels, names = [], [], []
    codes = rng.standard_normal((2, classes, d))
    for s in range(sources):
        y = np.concatenate([np.arange(classes), rng.integers(classes, size=n - classes)])
        agrees = rng.random(n) < 0.95 - 0.15 * s
        confounder = np.where(agrees, y, rng.integers(classes, size=n))
        X = codes[0, y] + 1.5 * codes[1, confounder] + rng.standard_normal((n, d))
        blocks.append(X)
        labels.append(y)
        names.append(np.full(n, f"source {s}"))
    return Problem(np.concatenate(blocks), np.concatenate(labels), np.concatenate(names))


@pytest.fixture(scope="session")
def problem() -> Problem:
    return make_problem()


@pytest.fixture(scope="session")
def three_sources() -> Problem:
    return make_problem(seed=1, classes=3, sources=3)


Digits = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def draw_blobs(n: int = 600, seed: int = 0) -> Digits:
    """Images (n, 28, 28) with a bright square whose place is the digit's own, and noise."""
    rng = np.random.default_rng(seed)
    digits = rng.integers(0, 10, size=n, dtype=np.uint8)
    images = rng.integers(0, 40, size=(n, 28, 28), dtype=np.uint8)
    for image, digit in zip(images, digits, strict=True):
        top, left = 2 + 9 * (digit // 4), 2 + 6 * (digit % 4)
        image[top : top + 6, left : left + 5] += 180
    return images, digits


@pytest.fixture(scope="session")
def blobs() -> Digits:
    return draw_blobs()


@pytest.fixture(scope="session")
def once(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, Callable[[Path], None]], Path]:
    """Make a folder by name, one time for all processes that run tests."""
    own = tmp_path_factory.getbasetemp()
    common = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def folder(name: str, make: Callable[[Path], None]) -> Path:
        done = common / f"{name}.done"
        with FileLock(common / f"{name}.lock"):
            if not done.exists():
                make(common / name)
                done.touch()
        return common / name

    return folder


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    # Tests run in several processes; threads inside each would fight for the cores.
    torch.set_num_threads(1)


def make_run(out: Path | None = None) -> Run:
    """What a command hands on, for those tests that leave out the command line."""
    return Run("test", ("regraft", "test"), {}, (), out, html=False, start=0.0, warnings=[])


@dataclass(frozen=True)
class Ran:
    """What a command of the command line did."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Call ``regraft`` with these arguments, in this process."""

    def invoke(*arguments: object) -> Ran:
        with pytest.raises(SystemExit) as ended:
            app([str(argument) for argument in arguments], prog_name="regraft")
        captured = capsys.readouterr()
        return Ran(int(ended.value.code or 0), captured.out, captured.err)

    return invoke
