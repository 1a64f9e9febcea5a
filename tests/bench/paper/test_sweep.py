"""Which records answer which runs, without any game."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from regraft.bench.paper.hparams import SPACES, draw_hparams
from regraft.bench.paper.sweep import PHASE_2, RANK_SWEEP, RANKS, BaselineRun, Run, Sweep

from regraft.bench.paper import sweep
from regraft.bench.paper.benchmark import IMAGE_BENCHMARKS
from regraft.bench.paper.phase1 import Job
from regraft.bench.protocol.seeds import job_seed

JOB = Job(test_env=2, trial=0)


class Game:
    """In place of a refinement: remembers what it was asked to play."""

    def __init__(self) -> None:
        self.played: list[tuple[dict[str, Any], int]] = []

    def run(self, hparams: Mapping[str, Any], seed: int = 0) -> dict[str, Any]:
        self.played.append((dict(hparams), seed))
        return {"env2_in_acc": 1 - len(self.played) / 100}

    def baselines(self) -> dict[str, dict[str, float]]:
        return {"ERM": {"env2_in_acc": 0.25}, "ERM, refitted": {"env2_in_acc": 0.5}}


def make(out: Path, **changes: Any) -> Sweep:
    return Sweep(
        out,
        **{"preset": "tiny", "family": "hull", "surrogate": "reweighted", "device": "cpu"}
        | changes,
    )


def perform(runs: list[Run]) -> Game:
    game = Game()
    for run in runs:
        assert not run.is_done
        run.perform(game)  # type: ignore[arg-type]
        assert run.is_done
    return game


def test_the_seed_of_a_record_is_the_one_that_was_played(tmp_path: Path) -> None:
    runs = make(tmp_path).runs(JOB, 3)
    game = perform(runs)
    seeds = [job_seed("ColoredMNIST", "CRO", [2], config, 0) for config in (0, 1, 2)]
    assert [seed for _, seed in game.played] == [*seeds, *[seeds[0]] * len(RANKS)]
    assert [run.args["seed"] for run in runs] == [seed for _, seed in game.played]
    assert {run.args["data_seed"] for run in runs} == {JOB.seed} == {seeds[0]}
    assert [run.hparams for run in runs] == [hparams for hparams, _ in game.played]


@pytest.mark.parametrize("family", ["hull", "free"])
def test_the_runs_of_a_job(tmp_path: Path, family: str) -> None:
    runs = make(tmp_path, family=family).runs(JOB, 2)
    assert [run.part for run in runs] == [PHASE_2] * 2 + [RANK_SWEEP] * len(RANKS)
    defaults = draw_hparams(family, 0, 0)  # type: ignore[arg-type]
    assert [run.hparams for run in runs[2:]] == [defaults | {"cro_rank": rank} for rank in RANKS]
    assert len({str(run.args) for run in runs}) == len(runs)
    assert all(("radius" in run.args) == (family == "hull") for run in runs)
    assert len(make(tmp_path).runs(Job(test_env=2, trial=1), 2)) == 2


def test_records_are_those_of_the_runs_asked_for(tmp_path: Path) -> None:
    known = make(tmp_path)
    other = Job(test_env=2, trial=1)
    perform([*known.runs(JOB, 3), *known.runs(other, 1)])
    again = make(tmp_path)
    runs = again.runs(JOB, 2)
    assert all(run.is_done for run in runs)
    assert [record["args"] for record in again.records(runs)] == [run.args for run in runs[:2]]
    ((env, curve),) = again.rank_curves(runs).items()
    assert env == 2 and [rank for rank, _ in curve] == list(RANKS)
    assert again.rank_curves(again.runs(other, 1)) == {}


@pytest.mark.parametrize(
    "change",
    [{"preset": "other"}, {"family": "free"}, {"surrogate": "relabelled"}],
    ids=["preset", "family", "surrogate"],
)
def test_other_sweeps_have_other_folders(tmp_path: Path, change: dict[str, str]) -> None:
    perform(make(tmp_path).runs(JOB, 1))
    other = make(tmp_path, **change)
    assert other.folder.parent == tmp_path and other.folder != make(tmp_path).folder
    perform(other.runs(JOB, 1))  # none of them is done
    assert other.records(other.runs(JOB, 1)) != make(tmp_path).records(make(tmp_path).runs(JOB, 1))


@pytest.mark.parametrize("change", ["device", "radius", "format", "space"])
def test_a_run_that_would_give_something_else_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    perform(make(tmp_path).runs(JOB, 2))
    if change == "radius":
        monkeypatch.setattr(sweep, "RADIUS", 4.0)
    elif change == "format":
        monkeypatch.setattr(sweep, "FORMAT", sweep.FORMAT + 1)
    elif change == "space":
        monkeypatch.setitem(SPACES["hull"], "ridge", (0.25, lambda state: 0.5))  # type: ignore[arg-type]
    now = make(tmp_path, device="cuda" if change == "device" else "cpu")
    runs = now.runs(JOB, 2)
    assert now.records(runs) == [] and now.rank_curves(runs) == {}
    perform(runs)
    assert [record["args"] for record in now.records(runs)] == [run.args for run in runs[:2]]
    assert [record["hparams"] for record in now.records(runs)] == [r.hparams for r in runs[:2]]


def test_images_have_erm_and_fixed_hyperparameters_but_no_ranks(tmp_path: Path) -> None:
    pacs = IMAGE_BENCHMARKS["pacs"]
    known = make(tmp_path, benchmark=pacs)
    job = Job(2, 0, "PACS")
    runs = known.runs(job, 2)
    assert [type(run) for run in runs] == [BaselineRun, BaselineRun, Run, Run]
    assert {run.part for run in runs} == {PHASE_2} and {r.args["radius"] for r in runs} == {8.0}
    expected = [draw_hparams("hull", config, 0) | dict(pacs.fixed) for config in (0, 1)]
    assert [run.hparams for run in runs[2:]] == expected
    game = perform(runs)
    assert [seed for _, seed in game.played] == [job_seed("PACS", "CRO", [2], c, 0) for c in (0, 1)]
    assert [record["args"] for record in known.records(runs)] == [run.args for run in runs[2:]]
    found = make(tmp_path, benchmark=pacs).baselines(runs)
    assert {head: records[0]["env2_in_acc"] for head, records in found.items()} == {
        "ERM": 0.25,
        "ERM, refitted": 0.5,
    }
    assert known.rank_curves(runs) == {} and known.baselines(known.runs(Job(1, 0, "PACS"), 1)) == {}
    free = make(tmp_path, family="free", surrogate="relabelled", benchmark=pacs).runs(job, 1)
    assert free[-1].hparams == draw_hparams("free", 0, 0) and "radius" not in free[-1].args
