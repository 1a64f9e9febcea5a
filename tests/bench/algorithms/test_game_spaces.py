import json
from pathlib import Path
from typing import Any, get_args

import pytest

from regraft.bench.algorithms.games import (
    HULL_SPACE,
    LATENT_SPACE,
    RADIUS,
    GameFamily,
    default_surrogate,
    free_space,
    game_space,
)
from regraft.bench.paper.benchmark import COLORED_MNIST, IMAGE_BENCHMARKS, Benchmark
from regraft.bench.paper.experiment import ExperimentPlan
from regraft.bench.paper.trained_features import CRO
from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.seeds import hparam_state
from regraft.bench.protocol.spaces import Space, draw_configuration

FAMILIES = get_args(GameFamily)
SPACES: dict[GameFamily, Space] = {
    "latent": LATENT_SPACE,
    "hull": HULL_SPACE,
    "free": free_space("ColoredMNIST"),
}

# tab:hp-search-cro; drawn log-uniformly.
PUBLISHED_RANGES = {
    "cro_gap_eps": (1e-3, 1e-2),
    "cro_adv_lr": (1e-3, 1e-2),
    "cro_learner_lr": (1e-3, 1e-2),
    "cro_lambda_hausdorff": (0.1, 1.0),
    "cro_lambda_consist": (10.0, 100.0),
    "cro_lambda_op": (0.1, 1.0),
}
# tab:hp-search-cro and, for Colored MNIST, tab:hp-search-phase2 (below for all).
PUBLISHED_CHOICES: dict[str, set[Any]] = {
    "cro_rank": {4, 8, 16},
    "cro_val_frac": {0.1},
    "cro_max_outer_iters": {5, 10},
    "cro_adv_epochs": {5, 10},
    "cro_learner_epochs": {5, 10},
    "cro_adv_batch": {32, 64},
    "cro_learner_batch": {32, 64},
}
# tab:hp-search-phase2: outer iterations, epochs of adversary and learner, batches of both.
PHASE_2_NAMES = [
    "cro_max_outer_iters",
    "cro_adv_epochs",
    "cro_learner_epochs",
    "cro_adv_batch",
    "cro_learner_batch",
]
PHASE_2 = {
    "ColoredMNIST": [{5, 10}, {5, 10}, {5, 10}, {32, 64}, {32, 64}],
    "PACS": [{3, 5}, {3, 5}, {3, 5}, {128, 256}, {128, 256}],
    "OfficeHome": [{5, 10}, {5, 10}, {5, 10}, {128, 256}, {128, 256}],
}
RANGES = PUBLISHED_RANGES | {"ridge": (1e-5, 1e-2)}
CHOICES = PUBLISHED_CHOICES | {"objective": {"risk", "regret"}}


every = pytest.mark.parametrize("family", FAMILIES)


def draw_hparams(family: GameFamily, hparams_seed: int, trial: int) -> dict[str, Any]:
    return draw_configuration(SPACES[family], hparams_seed, trial)


def _draws(family: GameFamily) -> list[dict[str, Any]]:
    return [draw_hparams(family, i, trial) for i in range(1, 101) for trial in (0, 1)]


@every
def test_configuration_zero_has_the_defaults_which_lie_in_the_ranges(family: GameFamily) -> None:
    defaults = {name: default for name, (default, _) in SPACES[family].items()}
    assert all(draw_hparams(family, 0, trial) == defaults for trial in range(3))
    for name, default in defaults.items():
        if name in CHOICES:
            assert default in CHOICES[name]
        elif default is not None:  # None: cross-validated
            assert RANGES[name][0] <= default <= RANGES[name][1]


@every
def test_draws_fill_the_ranges_differ_and_repeat(family: GameFamily) -> None:
    draws = _draws(family)
    for name in SPACES[family]:
        values = [draw[name] for draw in draws]
        if name in CHOICES:
            assert set(values) == CHOICES[name]
            continue
        low, high = RANGES[name]
        assert all(low * (1 - 1e-12) <= value <= high * (1 + 1e-12) for value in values)
        assert min(values) < low * (high / low) ** 0.1
        assert max(values) > low * (high / low) ** 0.9
        middle = sum(value < (low * high) ** 0.5 for value in values) / len(values)
        assert middle == pytest.approx(0.5, abs=0.15)  # uniform in the logarithm
    assert draws == _draws(family)
    assert len({json.dumps(draw) for draw in draws}) == len(draws)
    for draw in (draw_hparams(family, 0, 0), *draws):
        assert json.loads(json.dumps(draw)) == draw


@pytest.mark.parametrize("benchmark", [COLORED_MNIST, *IMAGE_BENCHMARKS.values()])
def test_the_free_family_draws_the_ranges_of_its_dataset(benchmark: Benchmark) -> None:
    plan = ExperimentPlan(benchmark, "tiny", Path("out"), configs=60, family="free")
    runs = plan.runs(Job(benchmark.name, CRO, (0,), trial_seed=1))
    games = [json.loads(run.job.overrides) for run in runs if run.job.algorithm == CRO]
    assert len(games) == 60
    for name, published in zip(PHASE_2_NAMES, PHASE_2[benchmark.name], strict=True):
        assert {hparams[name] for hparams in games} == published
        assert games[0][name] == max(published)
    common = draw_configuration(free_space("ColoredMNIST"), 3, 1)
    assert {name for name in common if games[3][name] != common[name]} <= set(PHASE_2_NAMES)


def test_the_names_are_the_published_ones_and_of_the_hull_those_that_matter() -> None:
    assert set(SPACES["free"]) == set(PUBLISHED_RANGES) | set(PUBLISHED_CHOICES)
    assert set(SPACES["hull"]) == {"cro_gap_eps", "objective", "ridge"}
    assert set(SPACES["latent"]) == {"cro_gap_eps", "ridge"}
    assert [default_surrogate(family) for family in FAMILIES] == [
        "reweighted",
        "reweighted",
        "relabelled",
    ]


@every
def test_every_name_has_a_random_state_of_its_own(family: GameFamily) -> None:
    """Adding a name to a space, or removing one, leaves the other draws as they are."""
    for name, (_, draw) in SPACES[family].items():
        assert draw_hparams(family, 7, 2)[name] == draw(hparam_state(7, 2, name))
    assert len({draw_hparams(family, 3, 1)["cro_gap_eps"] for family in FAMILIES}) == 1


@every
def test_the_radius_and_the_surrogate_are_not_searched(family: GameFamily) -> None:
    fixed: dict[str, Any] = {"surrogate": default_surrogate(family)}
    if family == "hull":
        fixed |= {"cro_radius": RADIUS, "cro_rank": 6}  # all of the hull
    if family == "latent":
        fixed["cro_prior_shift"] = None  # every mixture
    for config in range(5):
        drawn = draw_configuration(game_space(family, None, 7, "ColoredMNIST"), config, 0)
        assert drawn == draw_hparams(family, config, 0) | fixed
