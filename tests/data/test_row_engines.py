"""Actors of a real Ray cluster give the sums of one process, also when they are killed."""

import os
import signal
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft import CROClassifier, make_confounded_domains
from regraft.core.row_sums import BLOCK_ROWS, RowChunk, RowFunction, Sums
from regraft.data import row_shards
from regraft.data.banks import write_bank
from regraft.data.columns import ColumnChoice
from regraft.data.row_engines import (
    LocalShard,
    RayShards,
    open_engine,
    open_large_table,
    open_target,
)
from regraft.data.row_files import RowFiles, open_row_files
from regraft.data.row_shards import RowPlan
from regraft.estimators.streamed import fit_on_rows
from regraft.estimators.streamed_audit import audit_rows
from regraft.estimators.streamed_place import compared_step, place_rows
from regraft.support.ray_clusters import import_ray

N = BLOCK_ROWS + 1000  # two blocks


def _write(folder: Path, seed: int) -> RowFiles:
    drawn = make_confounded_domains(N // 2, strengths=(0.95, 0.7), n_features=4, random_state=seed)
    write_bank(folder, drawn.X.astype(np.float32), drawn.y, drawn.sample_domain)
    return open_row_files(folder, "label", "domain")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> RowFiles:
    return _write(tmp_path_factory.mktemp("rows") / "bank", 0)


def dying_sums(chunk: RowChunk, marker: str, function: RowFunction, *arguments: Any) -> Sums:
    """Return what ``function`` returns, but the first process that asks is killed by then."""
    sums = function(chunk, *arguments)
    if not os.path.exists(marker):
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return sums


class KilledShards(RayShards):
    """Actors of which one is killed in the middle of the third step."""

    steps = 0
    marker = ""

    def sum(self, plan: RowPlan, function: RowFunction, arguments: tuple[Any, ...]) -> Sums:
        self.steps += 1
        if self.steps == 3:
            return super().sum(plan, dying_sums, (self.marker, function, *arguments))
        return super().sum(plan, function, arguments)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    ray = import_ray()
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_fit_whose_worker_is_killed_is_the_fit_of_one_process(
    files: RowFiles, tmp_path: Path
) -> None:
    local, actors = LocalShard(files), KilledShards(files, workers=2)
    actors.marker = str(tmp_path / "killed")
    assert len(actors.actors) == 2
    models = []
    for engine in (local, actors):
        large = open_large_table(engine, ColumnChoice(), most=2000)
        models.append(fit_on_rows(CROClassifier(), large.sample, large.rows, large.counts))
    assert Path(actors.marker).exists()
    assert models[0].certificate_.reason == ""
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, atol=1e-9)
    assert models[0].certificate_ == models[1].certificate_
    # Nothing but sums came back: far less than the rows.
    assert 0 < actors.bytes_received < 100 * 1024 < files.n_bytes


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_checks_whose_worker_is_killed_are_those_of_one_process(tmp_path: Path) -> None:
    drawn = make_confounded_domains(300, strengths=(0.95, 0.7), n_features=4, random_state=1)
    model = CROClassifier().fit(drawn.X, drawn.y, drawn.sample_domain)
    files = _write(tmp_path / "bank", 2)
    audits, places = [], []
    for engine in (LocalShard(files), KilledShards(files, workers=2)):
        if isinstance(engine, KilledShards):
            engine.marker = str(tmp_path / "killed")
        large = open_large_table(engine, ColumnChoice(), 2000, model)
        audits.append(audit_rows(model, large.sample, large.rows, large.counts))
        found = open_target(engine, files.n_rows, compared_step(files.n_rows), model)
        places.append(place_rows(model, found.rows, found.X))
    assert (tmp_path / "killed").exists()
    assert audits[0] == audits[1] and audits[0].n_groups == 2
    assert places[0] == places[1] and places[0].rows == files.n_rows


def test_looking_at_labels_and_domains_takes_no_memory_for_each_row_but_theirs(
    files: RowFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = {(f"source {d}", c): 0.01 * (1 + d + c) for d in range(2) for c in range(2)}

    def look() -> tuple[Any, ...]:
        shard = LocalShard(files)
        [counted], [drawn], [taken] = shard.survey(), shard.draw(rates), shard.take(999)
        return counted, drawn.numbers.tolist(), drawn.labels, taken.numbers.tolist()

    at_once = look()
    monkeypatch.setattr(row_shards, "_ROWS_AT_ONCE", 1000)
    tracemalloc.start()
    try:
        assert look() == at_once
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(at_once[0].values()) == N and 0 < len(at_once[1]) < N / 10
    assert at_once[3] == list(range(0, N, 999))
    # The codes of labels and domains take 8 bytes a row, and whether a row is drawn one.
    assert peak < 16 * N


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_cluster_without_gpus_is_not_waited_for(files: RowFiles) -> None:
    with pytest.raises(ValueError, match="the Ray cluster has no GPU: pass --device cpu"):
        RayShards(files, device="cuda")


def test_unknown_engines_are_refused(files: RowFiles) -> None:
    with (
        pytest.raises(ValueError, match="engine is 'spark': pass local or ray"),
        open_engine("spark", files, memory=None, address=None, workers=None),
    ):
        pass
