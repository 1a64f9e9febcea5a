"""Workers of a Ray cluster killed at every call: the result is that of one process, to the bit.

``make attack N=…`` kills at N calls of each command, or all. In CI other tests kill one worker of
each.
"""

import os
import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from regraft import CROClassifier, make_confounded_domains
from regraft.core.row_sums import BLOCK_ROWS
from regraft.data import row_engines
from regraft.data.banks import write_bank
from regraft.data.columns import ColumnChoice
from regraft.data.row_engines import LocalShard, RayShards, RowEngine, open_large_table
from regraft.data.row_files import RowFiles, open_row_files
from regraft.data.row_shards import RowShard
from regraft.encoders.embedding import embed_images
from regraft.encoders.encoded_blocks import RayWorkers
from regraft.estimators.streamed import fit_on_rows
from regraft.support.ray_clusters import import_ray
from tests.helpers.commands import kill_when
from tests.helpers.fate import Fate
from tests.helpers.paths import ROOT
from tests.helpers.toy_encoders import ToyImages, contents, write_images

pytest.importorskip("ray", reason="the extra ray is not installed")

pytestmark = pytest.mark.slow
# Blocks of half a second, encoded by one worker of a Ray that this process starts.
SLOW = """
import sys
from regraft.encoders.embedding import embed_images
from regraft.encoders.encoded_blocks import RayWorkers
from tests.helpers.toy_encoders import ToyImages
embed_images(sys.argv[1], ToyImages(delay=0.5), sys.argv[2], workers=RayWorkers(number=1))
"""
CALLS = "survey", "draw", "take", "unknown", "sums"


@pytest.fixture(scope="module")
def number(request: pytest.FixtureRequest) -> int:
    """How many points of each command to kill at."""
    # The option is there only if this folder is named on the command line.
    asked: int | None = request.config.getoption("--attack-number", default=None)
    if not asked:
        pytest.skip("make attack runs this")
    return asked


@pytest.fixture(scope="module")
def cluster(number: int) -> Iterator[None]:
    """Ray on this machine, whose workers find what this process finds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        ray = import_ray()
        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()


def _choose(number: int, n_calls: int) -> list[tuple[int, bool]]:
    """Draw calls, each with whether its work is done before the kill."""
    every = [(call, is_late) for call in range(n_calls) for is_late in (False, True)]
    return sorted(random.Random(1).sample(every, min(number, len(every))))


def _doomed(fate: Fate) -> type[RowShard]:
    """Make shards whose calls are counted."""

    def counted(name: str) -> Any:
        def call(self: RowShard, *arguments: Any) -> Any:
            return fate.call(lambda: getattr(RowShard, name)(self, *arguments))

        return call

    return type("Doomed", (RowShard,), {name: counted(name) for name in CALLS})


def _fit(engine: RowEngine) -> tuple[NDArray[Any], Any]:
    large = open_large_table(engine, ColumnChoice(), most=2000)
    model = fit_on_rows(CROClassifier(), large.sample, large.rows, large.counts)
    return model.coef_, model.certificate_


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> RowFiles:
    """Rows of two blocks, so that there are two workers."""
    folder, n = tmp_path_factory.mktemp("rows") / "bank", BLOCK_ROWS + 1000
    drawn = make_confounded_domains(n // 2, strengths=(0.95, 0.7), n_features=4, random_state=0)
    write_bank(folder, drawn.X.astype(np.float32), drawn.y, drawn.sample_domain)
    return open_row_files(folder, "label", "domain")


@pytest.mark.usefixtures("cluster")
def test_a_fit_survives_the_death_of_a_worker_at_any_call(
    files: RowFiles, number: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    coefficients, certificate = _fit(LocalShard(files))

    def fit_with(fate: Fate) -> None:
        fate.folder.mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(row_engines, "RowShard", _doomed(fate))
            found, certified = _fit(RayShards(files, workers=2))
        assert np.array_equal(found, coefficients), fate
        assert certified == certificate, fate

    whole = Fate(tmp_path / "whole")
    fit_with(whole)
    chosen = _choose(number, whole.n_calls)
    for call, is_late in chosen:
        fate = Fate(tmp_path / f"{call} {is_late}", call, is_late)
        fit_with(fate)
        assert fate.n_calls > whole.n_calls  # one of them was repeated
    print(f"fit: killed at {len(chosen)} of {2 * whole.n_calls} points")


class Doomed(ToyImages):
    """An encoder whose calls are counted."""

    def __init__(self, fate: Fate) -> None:
        super().__init__()
        self.fate = fate

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        return self.fate.call(lambda: super(Doomed, self).encode(pixels))


@pytest.mark.usefixtures("cluster")
def test_an_embedding_survives_the_death_of_a_worker_at_any_block(
    number: int, tmp_path: Path
) -> None:
    images = write_images(tmp_path / "images", n=100)
    embed_images(images, ToyImages(), tmp_path / "here")

    def embed_with(fate: Fate) -> None:
        fate.folder.mkdir()
        out = fate.folder.with_name(f"{fate.folder.name} bank")
        embed_images(images, Doomed(fate), out, workers=RayWorkers(number=2))
        assert contents(out) == contents(tmp_path / "here"), fate

    whole = Fate(tmp_path / "whole")
    embed_with(whole)
    chosen = _choose(number, whole.n_calls)
    for call, is_late in chosen:
        fate = Fate(tmp_path / f"{call} {is_late}", call, is_late)
        embed_with(fate)
        assert fate.n_calls > whole.n_calls
    print(f"embed: killed at {len(chosen)} of {2 * whole.n_calls} points")


def test_an_embedding_whose_driver_is_killed_goes_on(number: int, tmp_path: Path) -> None:
    images, out = write_images(tmp_path / "images", n=100), tmp_path / "there"
    embed_images(images, ToyImages(), tmp_path / "here")
    journal = out / ".unfinished" / "journal.jsonl"

    def has(blocks: int) -> bool:
        return journal.exists() and journal.read_bytes().count(b"\n") >= blocks

    moments = [1, 2, 3, 5, 6][:number]  # of 7 blocks
    for blocks in moments:
        kill_when(partial(has, blocks), images, out, code=SLOW, path=[ROOT])
        assert not has(7)
    encoder = ToyImages()
    embed_images(images, encoder, out)
    assert encoder.calls <= 7 - moments[-1]  # what was done is not done again
    assert contents(out) == contents(tmp_path / "here")
    print(f"embed, its driver: killed after {moments} of 7 blocks")
