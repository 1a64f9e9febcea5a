"""Games and other heads on features with a shape, a colour and noise: Colored MNIST in small."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from regraft.bench.algorithms import games
from regraft.bench.algorithms.games import GameFamily, default_surrogate, game_space
from regraft.bench.paper.trained_features import CRO, ERM, REFITTED, TrainedFeatures
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.spaces import draw_configuration
from regraft.bench.protocol.worker import Assignment, perform
from regraft.core.surrogates import SurrogateKind
from tests.helpers.toy_sweep import CLOCKS

D, TRIAL = 6, 1
families = pytest.mark.parametrize("family", get_args(GameFamily))
surrogates = pytest.mark.parametrize("surrogate", get_args(SurrogateKind))
FLIPS = (0.1, 0.2, 0.9)  # how often colour and label differ, by environment
# The free adversary's defaults, at a rank and an amount of work that suit small features.
SMALL: dict[str, Any] = {"cro_rank": 3, "cro_max_outer_iters": 3, "cro_adv_epochs": 2}


def _environment(
    rng: np.random.Generator, flip: float, n: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    shape = rng.integers(2, size=n)
    y = np.where(rng.random(n) < 0.25, 1 - shape, shape)
    colour = np.where(rng.random(n) < flip, 1 - y, y)
    X = 0.3 * rng.standard_normal((n, D))
    X[:, 0] += 2 * shape - 1
    X[:, 1] += 2 * colour - 1
    return X @ np.linalg.qr(np.random.default_rng(9).standard_normal((D, D)))[0], y


@cache
def _features(test_env: int = 2, family: GameFamily = "hull") -> TrainedFeatures:
    rng = np.random.default_rng(0)
    data = [_environment(rng, flip, n) for flip, n in zip(FLIPS, (600, 560, 640), strict=True)]
    X = [torch.from_numpy(x).half() for x, _ in data]
    y = [torch.from_numpy(labels) for _, labels in data]
    job = Job("ColoredMNIST", CRO, (test_env,), TRIAL)
    sources = [env for env in range(3) if env != test_env]
    rows_in = [job.split(env, len(y[env]))[0] for env in range(3)]
    erm = LogisticRegression().fit(
        np.concatenate([X[i][rows_in[i]].double().numpy() for i in sources]),
        np.concatenate([y[i][rows_in[i]].numpy() for i in sources]),
    )
    row = torch.from_numpy(np.append(erm.coef_[0], erm.intercept_[0])).float()
    return TrainedFeatures(job, "012", X, y, torch.stack([-row / 2, row / 2]), family=family)


def _record(features: TrainedFeatures, algorithm: str = CRO, **job: Any) -> dict[str, Any]:
    """What a run of the protocol writes, less its clocks and arguments."""
    run = Job(features.name, algorithm, (features.test_env,), TRIAL, **job)
    with TemporaryDirectory() as folder:
        assignment = Assignment((run,), Path(folder))
        (outcome,) = perform(assignment, dataset=features)
        assert outcome.state == "done", outcome.message
        (record,) = assignment.folder(run).records()
    return {k: v for k, v in record.items() if k not in (*CLOCKS, "args", "hparams")}


def _hparams(family: GameFamily, surrogate: SurrogateKind | None = None, **changes: Any) -> str:
    small = SMALL if family == "free" else {}
    drawn = draw_configuration(game_space(family, surrogate, 2, "ColoredMNIST"), 0, 0)
    return json.dumps({**drawn, **small, **changes})


def _run(
    family: GameFamily, surrogate: SurrogateKind | None = None, test_env: int = 2, **changes: Any
) -> dict[str, Any]:
    return _record(_features(test_env, family), overrides=_hparams(family, surrogate, **changes))


def _accuracy(head: Tensor, env: int, rows: Tensor) -> float:
    X, y = _features().X[env][rows].double(), _features().y[env][rows]
    logits = X @ head[:, :-1].double().T + head[:, -1].double()
    return float((logits.argmax(dim=1) == y).double().mean())


@pytest.mark.parametrize("test_env", [0, 1, 2])
def test_the_game_holds_where_the_colour_is_reversed(test_env: int) -> None:
    """Of sources that disagree by a reversal, the answer looks at the shape alone."""
    record = _run("hull", "reweighted", test_env)
    assert record[f"env{test_env}_in_acc"] > 0.65
    names = {f"env{env}_{part}_acc" for env in range(3) for part in ("in", "out")}
    assert {name for name in record if name.endswith("_acc")} == names
    assert all(0 <= record[name] <= 1 for name in names)
    if test_env == 2:
        assert 1 - record["checkpoints"][0]["target_risk"] < 0.4  # ERM
        assert record["env2_out_acc"] > 0.6
        assert record["converged"]


@pytest.mark.parametrize("test_env", [0, 2])
def test_the_latent_game_finds_the_colour_and_leaves_it(test_env: int) -> None:
    record = _run("latent", test_env=test_env)
    assert record[f"env{test_env}_in_acc"] > 0.65
    assert record["converged"] and record["rounds"] >= 2
    assert 1 - record["checkpoints"][-1]["target_risk"] == record[f"env{test_env}_in_acc"]
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    _features.cache_clear()
    assert _run("latent", test_env=test_env) == record


def test_where_no_shift_is_allowed_the_head_is_erms_and_the_record_says_why() -> None:
    """The prior shift is an assumption: 0 keeps the sources' own mixture."""
    record = _run("latent", cro_prior_shift=0.0)
    assert record["rounds"] == 0 and record["reason"].startswith("measured on rows set aside")
    refitted = _record(_features(), REFITTED)
    assert record["env2_in_acc"] == refitted["env2_in_acc"] < 0.4
    first, last = record["checkpoints"]
    assert first | {"step": 1} == last


def test_every_game_starts_at_phase_1s_head() -> None:
    """The free game starts at Phase 1's head, which the first checkpoint judges as it is."""
    f = _features()
    first = _run("free", "relabelled")["checkpoints"][0]
    out = [_accuracy(f.head, env, f.rows_out[env]) for env in (0, 1)]
    assert first["source_risk"] == pytest.approx(1 - sum(out) / 2)
    assert first["target_risk"] == pytest.approx(1 - _accuracy(f.head, 2, f.rows_in[2]))
    # The second is where a game on the hull starts.
    assert [_features(env).sources for env in range(3)] == [[1, 2], [0, 2], [0, 1]]
    own, refitted = (_record(f, name) for name in (ERM, REFITTED))
    for env in range(3):
        assert own[f"env{env}_in_acc"] == _accuracy(f.head, env, f.rows_in[env])
        assert own[f"env{env}_out_acc"] == _accuracy(f.head, env, f.rows_out[env])
    start = _run("hull", "reweighted")["checkpoints"][0]
    assert 1 - refitted["env2_in_acc"] == pytest.approx(start["target_risk"])
    assert "checkpoints" not in own and "checkpoints" not in refitted


@families
def test_checkpoints_count_the_errors_of_every_round(family: GameFamily) -> None:
    record = _run(family, "reweighted")
    checkpoints = record["checkpoints"]
    assert [c["step"] for c in checkpoints] == list(range(record["rounds"] + 1))
    assert record["step"] == record["epoch"] == 0  # a game has no steps
    for checkpoint in checkpoints:
        assert set(checkpoint) == {"step", "source_risk", "target_risk"}
        assert all(0 <= checkpoint[f"{kind}_risk"] <= 1 for kind in ("source", "target"))
    out = (record["env0_out_acc"] + record["env1_out_acc"]) / 2
    assert checkpoints[-1]["source_risk"] == pytest.approx(1 - out)
    assert checkpoints[-1]["target_risk"] == pytest.approx(1 - record["env2_in_acc"])


@surrogates
def test_full_rank_leaves_the_hull_at_erm(surrogate: SurrogateKind) -> None:
    record = _run("hull", surrogate, cro_rank=D)
    first, last = record["checkpoints"][0], record["checkpoints"][-1]
    assert last["source_risk"] == pytest.approx(first["source_risk"], abs=0.02)
    assert last["target_risk"] == pytest.approx(first["target_risk"], abs=0.05)
    assert record["env2_in_acc"] < 0.4


def test_a_rank_between_the_classes_and_the_features_changes_nothing() -> None:
    """Two heads differ in one direction of classes."""
    usual = _run("hull", "reweighted")
    assert _run("hull", "reweighted", cro_rank=1) == usual
    assert _run("hull", "reweighted", cro_rank=D - 1) == usual


@pytest.mark.parametrize("hparams_seed", [1, 2, 3])
@surrogates
def test_drawn_configurations_of_the_hull_run(hparams_seed: int, surrogate: SurrogateKind) -> None:
    drawn = draw_configuration(game_space("hull", surrogate, 2, "ColoredMNIST"), hparams_seed, 0)
    record = _record(_features(), hparams_seed=hparams_seed, overrides=json.dumps(drawn))
    assert record["converged"] and json.loads(json.dumps(record, allow_nan=False)) == record


@pytest.mark.parametrize("family", ["hull", "free"])
@surrogates
def test_every_game_repeats_after_another(family: GameFamily, surrogate: SurrogateKind) -> None:
    """What configurations share is computed once, and none of them changes it."""
    first = _run(family, surrogate)
    assert json.loads(json.dumps(first, allow_nan=False)) == first
    assert first["rounds"] >= 2 and 0 <= first["gap"] <= 1e-4
    assert isinstance(first["converged"], bool)
    if surrogate == default_surrogate(family):
        assert _run(family) == first
    _run(family, surrogate, cro_rank=1, cro_gap_eps=1e-2)
    assert _run(family, surrogate) == first
    _features.cache_clear()
    assert _run(family, surrogate) == first


def test_what_runs_share_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _features.cache_clear()
    fitted: list[Any] = []
    fit = games.fit_source_heads
    monkeypatch.setattr(games, "fit_source_heads", lambda x: (fitted.append(x), fit(x))[1])
    for algorithm in (ERM, REFITTED):
        _record(_features(), algorithm)
    for config in (0, 1):
        _record(_features(), hparams_seed=config)
    assert len(fitted) == 1


def test_the_seed_is_that_of_the_free_adversary() -> None:
    """And the run's own, which the number of the configuration changes."""
    records = [
        _record(_features(2, family), hparams_seed=seed, overrides=_hparams(family))
        for family in get_args(GameFamily)
        for seed in (0, 1)
    ]
    latent, hull, free = (records[i : i + 2] for i in (0, 2, 4))
    assert latent[0] == latent[1] and hull[0] == hull[1]
    assert free[0] != free[1]


@families
def test_the_target_environments_labels_are_not_used(family: GameFamily) -> None:
    f = _features(2, family)
    labels = [*f.y[:2], torch.zeros_like(f.y[2])]
    blind = TrainedFeatures(
        Job("ColoredMNIST", CRO, (2,), TRIAL), "012", f.X, labels, f.head, family=family
    )
    seen, unseen = (_record(x, overrides=_hparams(family)) for x in (f, blind))
    for name in ("env0_in_acc", "env1_out_acc", "value", "worst_case", "rounds"):
        assert seen[name] == unseen[name]
