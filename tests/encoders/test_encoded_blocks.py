"""Encoding on workers of a Ray cluster: the same bank, whoever dies on the way."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from regraft.encoders.embedding import embed_images, embed_texts
from regraft.encoders.encoded_blocks import RayWorkers
from regraft.support.ray_clusters import count_workers, import_ray
from tests.helpers.toy_encoders import ToyImages, ToyTexts, contents, write_images

pytestmark = pytest.mark.slow

if find_spec("ray") is None:
    pytest.skip("the extra ray is not installed", allow_module_level=True)


class Mortal(ToyImages):
    """An encoder whose process is killed at its second block, once for every mark."""

    def __init__(self, marks: Path) -> None:
        super().__init__()
        self.marks = marks

    def encode(self, inputs: NDArray[np.uint8], /) -> NDArray[np.float32]:
        for mark in self.marks.glob("*"):
            if self.calls == 1:
                mark.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().encode(inputs)


class Failing(ToyTexts):
    """An encoder that fails at the last, smaller block."""

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        if len(texts) < 1024:
            raise RuntimeError("out of memory")
        return super().encode(texts)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Ray on this machine, for all tests of this file."""
    with pytest.MonkeyPatch.context() as patch:
        # Workers find the encoders of these tests where this process found them.
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        ray = import_ray()
        ray.init(
            "local",
            num_cpus=2,
            object_store_memory=80 * 2**20,
            include_dashboard=False,
            log_to_driver=False,
        )
        yield
        ray.shutdown()


def test_workers_that_are_killed_change_nothing(tmp_path: Path) -> None:
    images, marks = write_images(tmp_path / "images", n=100), tmp_path / "marks"
    marks.mkdir()
    (marks / "mark").touch()
    embed_images(images, ToyImages(), tmp_path / "here")
    counts: list[int] = []
    embed_images(
        images,
        Mortal(marks),
        tmp_path / "there",
        workers=RayWorkers(number=1),
        on_count=lambda done, _: counts.append(done),
    )
    assert not list(marks.iterdir())  # one was killed
    assert counts == [0, 64, 128, 192, 256, 320, 384, 400]
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_what_goes_wrong_on_a_worker_is_said_here_and_what_was_done_stays(tmp_path: Path) -> None:
    table = tmp_path / "texts.csv"
    rows = [f"text {i},{'xy'[i % 2]},{'abc'[i % 3]}" for i in range(3000)]
    table.write_text("\n".join(["text,label,domain", *rows]))
    embed_texts(table, ToyTexts(), tmp_path / "here")
    out, workers = tmp_path / "there", RayWorkers(number=1)
    with pytest.raises(RuntimeError, match=r"^out of memory$"):
        embed_texts(table, Failing(), out, workers=workers)
    counts: list[int] = []
    embed_texts(
        table, ToyTexts(), out, workers=workers, on_count=lambda done, _: counts.append(done)
    )
    assert counts == [2048, 3000]
    assert contents(out) == contents(tmp_path / "here")


def test_no_more_workers_are_started_than_there_is_room_for() -> None:
    assert (count_workers(None), count_workers(1), count_workers(5)) == (2, 1, 2)
