"""Phase 1 on images and its files: what is trained on what, and that a kill loses little."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch

from regraft.bench.paper.benchmark import IMAGE_BENCHMARKS
from regraft.bench.paper.fine_tuning import Recipe
from regraft.bench.paper.image_phase1 import ImageTrainer, make_pool
from regraft.bench.paper.image_reproduction import list_images
from regraft.bench.paper.phase1 import PhaseOne
from regraft.bench.paper.picture_store import Pictures, fingerprint, load_pictures
from regraft.bench.protocol.jobs import Job
from tests.helpers.paths import ROOT, SOURCE
from tests.helpers.small_pictures import small_featurizer, write_pacs

PACS = IMAGE_BENCHMARKS["pacs"]
JOBS = [Job("PACS", "CRO", (3,), trial) for trial in (0, 1)]
NAME = "PACS-3-0-toy-32px-30-cpu.safetensors"


def make(data: Path, folder: Path, steps: int = 30, save_every: float = 60.0) -> PhaseOne:
    listings = list_images(PACS, data)
    files = fingerprint(listings)
    trainer = ImageTrainer(
        make_pool(
            load_pictures(listings, files, 32, folder / "pictures", lambda _: None),
            torch.device("cpu"),
        ),
        tuple(len(listing.labels) for listing in listings),
        PACS.n_classes,
        small_featurizer(),
        Recipe("toy", "", steps=steps, size=32, batch=2),
        save_every,
    )
    return PhaseOne(PACS, trainer, files, folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pacs(tmp_path_factory.mktemp("data"), each=3)


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training that nobody stopped."""
    out = tmp_path_factory.mktemp("finished")
    make(data, out).checkpoints(JOBS[:1], lambda _: None)
    return out


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(folder / "phase1" / NAME)


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    assert first.keys() == second.keys()
    return all(torch.equal(first[name], second[name]) for name in first)


def test_a_pool_has_the_environments_in_turn_and_takes_them_from_the_list() -> None:
    generator = torch.Generator().manual_seed(0)
    pictures = [
        Pictures(
            torch.randint(256, (n, 3, 4, 4), generator=generator).to(torch.uint8),
            torch.full((n,), n),
            torch.rand(n, generator=generator),
        )
        for n in (2, 1, 3)
    ]
    whole = [torch.cat([getattr(p, name) for p in pictures]) for name in ("pixels", "y", "aspects")]
    pool = make_pool(pictures, torch.device("cpu"))
    assert pictures == []
    for made, expected in zip((pool.pixels, pool.y, pool.aspects), whole, strict=True):
        assert torch.equal(made, expected)


def test_sources_are_trained_on_and_the_target_is_not(data: Path, tmp_path: Path) -> None:
    trainer = make(data, tmp_path, steps=1).trainer
    assert isinstance(trainer, ImageTrainer)
    seen = trainer.task(JOBS[0])
    sizes = [21] * 4
    assert [len(rows) for rows in seen.rows] == [21 - 4] * 3
    for env, rows in enumerate(seen.rows):
        expected = sum(sizes[:env]) + JOBS[0].split(env, 21)[0]
        assert torch.equal(rows, expected)
    assert seen.n_classes == 7 and seen.seed == JOBS[0].seed != JOBS[1].seed


def test_features_are_those_of_their_checkpoint(data: Path, tmp_path: Path) -> None:
    phase1 = make(data, tmp_path, steps=1)
    told: list[str] = []
    checkpoints = phase1.checkpoints(JOBS, told.append)
    assert told[-1] == "Phase 1, steps: 2 of 2"
    first = phase1.features(JOBS[0], checkpoints[JOBS[0]])
    assert [X.shape for X in first.X] == [(21, 8)] * 4 and first.head.shape == (7, 9)
    assert first.test_env == 3 and first.sources == [0, 1, 2]
    assert all(y.tolist() == [label for label in range(7) for _ in range(3)] for y in first.y)
    other = phase1.features(JOBS[1], checkpoints[JOBS[1]])
    assert not torch.equal(other.rows_in[0], first.rows_in[0])  # another trial, another split
    assert not torch.equal(other.X[0], first.X[0])
    written = (tmp_path / "features").stat().st_mtime_ns
    again = make(data, tmp_path, steps=1).features(JOBS[0], checkpoints[JOBS[0]])
    assert torch.equal(again.X[2], first.X[2])
    assert (tmp_path / "features").stat().st_mtime_ns == written


def test_finished_trainings_are_not_repeated(data: Path, finished: Path) -> None:
    before = (finished / "phase1" / NAME).stat().st_mtime_ns
    told: list[str] = []
    make(data, finished).checkpoints(JOBS[:1], told.append)
    assert told == [] and (finished / "phase1" / NAME).stat().st_mtime_ns == before
    assert list((finished / "under-way").glob("*")) == []


class Stop(Exception):
    """In place of an interrupt."""


def test_an_interrupted_training_goes_on_with_the_same_bits(
    data: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = make(data, tmp_path, save_every=0)
    monkeypatch.setattr("regraft.bench.paper.fine_tuning._TELL_EVERY", 0.0)

    def stop(text: str) -> None:
        if text.startswith("Phase 1, steps: 11 of"):
            raise Stop

    with pytest.raises(Stop):
        stopped.checkpoints(JOBS[:1], stop)
    assert [path.name for path in (tmp_path / "under-way").iterdir()] == [NAME]
    told: list[str] = []
    make(data, tmp_path).checkpoints(JOBS[:1], told.append)
    assert told[0].startswith("Phase 1, steps: 11 of 30")  # ten were kept
    assert same(weights(tmp_path), weights(finished))
    assert list((tmp_path / "under-way").iterdir()) == []


def test_the_state_of_another_training_is_not_gone_on_from(data: Path, tmp_path: Path) -> None:
    first, other = make(data, tmp_path), make(data, tmp_path, steps=29)
    assert first._path("under-way", JOBS[0]) != other._path("under-way", JOBS[0])
    assert first._key(JOBS[0]) != first._key(JOBS[1])
    other._path("under-way", JOBS[0]).parent.mkdir()
    other._path("under-way", JOBS[0]).write_bytes(b"torn")
    with pytest.warns(UserWarning, match="is damaged and is made again"):
        other.checkpoints(JOBS[:1], lambda _: None)


PROGRAM = """
import sys
from pathlib import Path
import torch
sys.path.insert(0, sys.argv[1])
from tests.bench.paper.test_image_phase1 import JOBS, make
torch.set_num_threads(1)
phase1 = make(Path(sys.argv[2]), Path(sys.argv[3]), save_every=0)
phase1.remove_unfinished()
phase1.checkpoints(JOBS[:1], lambda _: None)
"""


@pytest.mark.slow
def test_kills_at_any_moment_change_nothing(data: Path, finished: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(ROOT), str(data), str(tmp_path)]
    path = os.pathsep.join([str(SOURCE), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    under_way = tmp_path / "under-way" / NAME
    with subprocess.Popen(command, env=environment) as process:
        while process.poll() is None and not under_way.exists():
            time.sleep(0.001)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "phase1" / NAME).exists()
    subprocess.run(command, env=environment, check=True)
    assert same(weights(tmp_path), weights(finished))
    assert list((tmp_path / "under-way").iterdir()) == []
