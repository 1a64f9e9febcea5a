"""Which runs of the protocol an experiment consists of, without any training or game."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from regraft.bench.algorithms import games
from regraft.bench.algorithms.games import game_space
from regraft.bench.paper.benchmark import COLORED_MNIST, IMAGE_BENCHMARKS
from regraft.bench.paper.experiment import PHASE_2, RANK_SWEEP, RANKS, ExperimentPlan, PlannedRun
from regraft.bench.protocol import jobs
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.seeds import job_seed
from regraft.bench.protocol.spaces import constant, draw_configuration
from tests.helpers.errors import refused

PLAN = ExperimentPlan(COLORED_MNIST, "tiny", Path("out"), (2,), 2, 3, surrogate="reweighted")
JOB = Job("ColoredMNIST", "CRO", (2,))


def hparams(run: PlannedRun) -> dict[str, Any]:
    return dict(json.loads(run.job.overrides))


def test_seeds_are_the_protocols() -> None:
    """The data has the default configuration's, and every game its own."""
    seeds = [job_seed("ColoredMNIST", "CRO", [2], config, 0) for config in (0, 1, 2)]
    runs = PLAN.runs(JOB)
    assert [run.job.seed for run in runs] == [*seeds, *[seeds[0]] * len(RANKS)]
    assert JOB.seed == seeds[0]


@pytest.mark.parametrize("family", ["hull", "free"])
def test_the_runs_of_a_job(family: Any) -> None:
    plan = replace(PLAN, family=family, configs=2)
    runs = plan.runs(JOB)
    assert [run.part for run in runs] == [PHASE_2] * 2 + [RANK_SWEEP] * len(RANKS)
    space = game_space(family, "reweighted", 2, "ColoredMNIST")
    drawn = [draw_configuration(space, config, 0) for config in (0, 1)]
    ranked = [drawn[0] | {"cro_rank": rank} for rank in RANKS]
    assert [hparams(run) for run in runs] == [*drawn, *ranked]
    assert len({run.folder.path for run in runs}) == len(runs)
    assert len(plan.runs(replace(JOB, trial_seed=1))) == 2  # ranks are of the first trial
    # Of one trial, test environment and configuration no table's folder has two runs.
    assert {run.folder.path.parent.name for run in runs[:2]} == {"cpu"}
    assert {run.folder.path.parent.name for run in runs[2:]} == {"cpu-ranks"}


def test_the_latent_family_has_no_ranks_and_one_surrogate() -> None:
    plan = replace(PLAN, family="latent", configs=2)
    assert plan.label == "CRO, latent (regraft, preset tiny)"
    assert plan.folder.name == "tiny-latent-reweighted"
    runs = plan.runs(JOB)
    assert [run.part for run in runs] == [PHASE_2] * 2
    space = game_space("latent", None, 2, "ColoredMNIST")
    assert [hparams(run) for run in runs] == [draw_configuration(space, i, 0) for i in (0, 1)]
    plan.check()
    with refused("surrogate is 'relabelled', and the latent family has reweighted rows only"):
        replace(plan, surrogate="relabelled").check()


@pytest.mark.parametrize(
    "change",
    [
        {"preset": "other"},
        {"family": "free"},
        {"family": "latent"},
        {"surrogate": "relabelled"},
        {"device": "cuda"},
    ],
    ids=str,
)
def test_other_sweeps_have_other_folders(change: dict[str, Any]) -> None:
    folders = [{run.folder.path.parent for run in plan.runs(JOB)} for plan in (
        PLAN, replace(PLAN, **change))]  # fmt: skip
    assert not folders[0] & folders[1]
    assert all(folder.parent.parent == Path("out") for both in folders for folder in both)


@pytest.mark.parametrize("change", ["data", "radius", "format", "space"])
def test_a_run_that_would_give_something_else_has_another_folder(
    monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    before = {run.folder.path for run in PLAN.runs(JOB)}
    if change == "radius":
        monkeypatch.setattr(games, "RADIUS", 4.0)
    elif change == "format":
        monkeypatch.setattr(jobs, "FORMAT", jobs.FORMAT + 1)
    elif change == "space":
        monkeypatch.setitem(games.HULL_SPACE, "ridge", constant(0.25))  # type: ignore[arg-type]
    job = replace(JOB, fingerprint="other") if change == "data" else JOB
    assert not before & {run.folder.path for run in PLAN.runs(job)}


def test_images_have_erm_and_all_of_the_hull_but_no_ranks() -> None:
    plan = replace(PLAN, benchmark=IMAGE_BENCHMARKS["pacs"], configs=2)
    runs = plan.runs(Job("PACS", "CRO", (2,)))
    assert [run.job.algorithm for run in runs] == ["ERM", "ERM, refitted", "CRO", "CRO"]
    assert {run.part for run in runs} == {PHASE_2}
    assert [hparams(run) for run in runs[:2]] == [{}, {}]
    assert {(hparams(run)["cro_rank"], hparams(run)["cro_radius"]) for run in runs[2:]} == {(6, 8)}
    seeds = [job_seed("PACS", "CRO", [2], config, 0) for config in (0, 1)]
    assert [run.job.seed for run in runs[2:]] == seeds
    free = replace(plan, family="free", surrogate="relabelled").runs(JOB)[-1]
    assert "cro_radius" not in hparams(free)
