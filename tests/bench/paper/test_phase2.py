"""Games that several processes play side by side have the records of games played one by one."""

import json
import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from regraft.bench.algorithms.games import FoundHeads, GameFamily, PhaseOneResult, game_space
from regraft.bench.engines.local import Waiting, WorkerPool
from regraft.bench.paper import phase2
from regraft.bench.paper.phase2 import (
    PlannedRun,
    Players,
    choose_players,
    play_runs,
    start_players,
)
from regraft.bench.paper.trained_features import CRO, HEAD, KeptFeatures
from regraft.bench.protocol.cache import write_cache
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.spaces import draw_configuration
from regraft.bench.protocol.worker import Assignment, Outcome
from tests.helpers.toy_sweep import CLOCKS

N, D = 200, 6


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> list[KeptFeatures]:
    """Features of two trials, as Phase 1 leaves them."""
    folder = tmp_path_factory.mktemp("features")
    return [_keep(folder, trial) for trial in range(2)]


def _keep(folder: Path, trial: int) -> KeptFeatures:
    generator = torch.Generator().manual_seed(trial)
    tensors = {HEAD: torch.zeros(2, D + 1)}
    for env in range(3):
        y = torch.randint(2, (N,), generator=generator)
        X = torch.randn(N, D, generator=generator)
        X[:, 0] += y
        X[:, 1] += 2 * torch.where(torch.rand(N, generator=generator) < 0.1 + 0.1 * env, 1 - y, y)
        tensors |= {f"X{env}": X, f"y{env}": y}
    path, key = folder / f"{trial}.safetensors", {"trial": trial}
    write_cache(path, key, tensors)
    return KeptFeatures(
        Job("ColoredMNIST", CRO, (2,), trial), ("a", "b", "c"), path, json.dumps(key)
    )


def _plan(kept: Sequence[KeptFeatures], out: Path) -> dict[KeptFeatures, list[PlannedRun]]:
    space = game_space("hull", None, 2, "ColoredMNIST")
    plan = {}
    for features in kept:
        trial = features.job.trial_seed
        jobs = [
            Job(
                "ColoredMNIST", CRO, (2,), trial, i, json.dumps(draw_configuration(space, i, trial))
            )
            for i in range(2)
        ]
        plan[features] = [PlannedRun("games", Assignment((job,), out)) for job in jobs]
    return plan


def _play(plan: dict[KeptFeatures, list[PlannedRun]], players: Players) -> list[Outcome]:
    with (
        closing(WorkerPool(torch.device("cpu"))) as pool,
        closing(play_runs(plan, players, pool)) as outcomes,
    ):
        return list(outcomes)


def _records(plan: dict[KeptFeatures, list[PlannedRun]]) -> Iterator[dict[str, Any]]:
    for run in (run for runs in plan.values() for run in runs):
        (record,) = run.folder.records()
        yield {name: record[name] for name in record if name not in CLOCKS}


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As in a worker, so that sums have the same bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_workers_write_what_one_process_writes(kept: list[KeptFeatures], tmp_path: Path) -> None:
    alone, together = _plan(kept, tmp_path / "alone"), _plan(kept, tmp_path / "together")
    assert [outcome.state for outcome in _play(alone, Players("cpu"))] == ["done"] * 4
    assert [outcome.state for outcome in _play(together, Players("cpu", 2))] == ["done"] * 4
    assert list(_records(together)) == list(_records(alone))


@pytest.mark.parametrize("workers", [1, 2])
def test_features_without_runs_are_left_alone(
    kept: list[KeptFeatures], tmp_path: Path, workers: int
) -> None:
    plan = _plan(kept[:1], tmp_path) | {kept[1]: []}
    assert [outcome.state for outcome in _play(plan, Players("cpu", workers))] == ["done"] * 2
    assert _play({kept[1]: []}, Players("cpu", workers)) == []


def test_a_worker_stays_with_its_features_and_then_goes_where_most_wait(
    kept: list[KeptFeatures], tmp_path: Path
) -> None:
    first, second = kept
    assignments = [
        Assignment((features.job,), tmp_path / str(i), source=features)
        for i, features in enumerate([first] * 4 + [second] * 2)
    ]
    waiting = Waiting(assignments)
    assert waiting.take(None, []) is assignments[0]
    assert waiting.take(None, [first]) is assignments[4]  # 3 / 2 against 2 / 1
    assert waiting.take(None, [first, second]) is assignments[1]
    assert waiting.take(second, [first, first]) is assignments[5]
    assert waiting.take(second, [first, first]) is assignments[2]
    assert len(waiting) == 1
    assert waiting.take(first, [first, first]) is assignments[3]
    assert not waiting


def test_a_game_that_differs_in_its_rank_by_name_only_is_played_once(
    kept: list[KeptFeatures],
) -> None:
    features = kept[0].open()
    phase1 = PhaseOneResult(features.domains(), features.head)
    hparams = draw_configuration(game_space("hull", None, 2, "ColoredMNIST"), 0, 0)

    def play(rank: int) -> FoundHeads:
        return phase1.play_hull({**hparams, "cro_rank": rank}, 0)

    found = play(1)
    assert play(D - 1) is found
    assert play(D) is not found
    assert torch.equal(play(D).heads[-1], found.heads[0])  # only the pool is left
    assert torch.equal(play(2).heads, found.heads)
    assert phase1.play_hull({**hparams, "ridge": 1.0}, 0).summary() != found.summary()


def test_features_that_have_changed_are_told(tmp_path: Path) -> None:
    features = _keep(tmp_path, 0)
    features.path.write_bytes(b"")
    with pytest.warns(UserWarning, match="damaged"):
        outcomes = _play(_plan([features], tmp_path), Players("cpu"))
    assert {outcome.state for outcome in outcomes} == {"failed"}
    assert "has changed since it was written" in outcomes[0].message


@pytest.mark.parametrize(
    ("family", "device", "games", "numbers", "expected"),
    [
        ("hull", "cpu", 19, 1, Players("cpu")),  # a worker takes longer to start
        ("hull", "cpu", 30, 1, Players("cpu", 3)),
        ("hull", "cpu", 180, 10**8, Players("cpu", 4)),
        ("latent", "cuda", 180, 10**6, Players("cuda")),
        ("hull", "cuda", 180, 10**8, Players("cuda")),
        ("free", "cpu", 3, 10**6, Players("cpu", 3)),
        ("free", "cuda", 3, 10**6, Players("cpu", 3)),
        ("free", "cuda", 1, 10**6, Players("cuda")),
        ("free", "cuda", 180, 10**8, Players("cuda")),  # a GPU is faster on many rows
    ],
)
def test_who_plays(
    monkeypatch: pytest.MonkeyPatch,
    family: GameFamily,
    device: str,
    games: int,
    numbers: int,
    expected: Players,
) -> None:
    monkeypatch.setattr(phase2, "count_cores", lambda: 4)
    assert choose_players(family, device, games, numbers) == expected


@pytest.mark.slow
def test_players_that_are_ready_are_those_that_play(
    monkeypatch: pytest.MonkeyPatch, kept: list[KeptFeatures], tmp_path: Path
) -> None:
    monkeypatch.setattr(phase2, "count_cores", lambda: 2)
    with closing(WorkerPool(torch.device("cpu"))) as pool:
        start_players("hull", "cuda", 60, 60, pool)
        assert not multiprocessing.active_children()  # a GPU plays them itself
        start_players("free", "cuda", 60, 1, pool)
        assert len(multiprocessing.active_children()) == 1
        start_players("free", "cuda", 60, 60, pool)
        ready = {child.pid for child in multiprocessing.active_children()}
        assert len(ready) == 2
        for part in ("first", "second"):
            with closing(play_runs(_plan(kept, tmp_path / part), Players("cpu", 2), pool)) as ended:
                assert [outcome.state for outcome in ended] == ["done"] * 4
            assert {child.pid for child in multiprocessing.active_children()} == ready
        for child in multiprocessing.active_children():
            child.kill()
            child.join()
        plan = _plan(kept, tmp_path / "third")
        with closing(play_runs(plan, Players("cpu", 2), pool)) as ended:  # by others
            assert [outcome.state for outcome in ended] == ["done"] * 4
    assert not multiprocessing.active_children()
