"""The choice of checkpoints and configurations, on sweeps whose answer is known."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft.bench.protocol.selection import RULES, Cell, Selection
from tests.helpers.errors import refused

training_domain_validation = RULES["training-domain"].select
leave_one_domain_out_validation = RULES["leave-one-domain-out"].select
oracle = RULES["oracle"].select


def run(
    env: int,
    trial: int,
    config: int,
    test: float,
    validation: float,
    peek: float = 0.0,
    step: int = 0,
) -> dict[str, Any]:
    """A checkpoint whose source environments have validation accuracies of this mean."""
    record: dict[str, Any] = {
        "step": step,
        "args": {"test_envs": [env], "trial_seed": trial, "hparams_seed": config},
    }
    sign = 1
    for i in range(3):
        record[f"env{i}_in_acc"] = 0.99
        record[f"env{i}_out_acc"] = validation + sign * 0.0625
        sign = sign if i == env else -sign
    return record | {f"env{env}_in_acc": test, f"env{env}_out_acc": peek}


def pair(
    env: int, other: int, seen: float, trial: int = 0, config: int = 0, step: int = 0
) -> dict[str, Any]:
    """The twin of a run with the test environment ``env``, with this accuracy in ``other``."""
    record = run(env, trial, config, test=0.0, validation=0.0, step=step)
    record["args"]["test_envs"] = [other, env]
    return record | {f"env{other}_in_acc": seen}


def test_a_cell_by_hand() -> None:
    records = [
        run(2, trial=1, config=0, test=0.25, validation=0.5),
        run(2, trial=1, config=5, test=0.5, validation=0.75),
        run(2, trial=0, config=3, test=0.125, validation=0.5),
        run(2, trial=0, config=1, test=0.75, validation=0.625),
        run(2, trial=0, config=2, test=1.0, validation=0.25),
    ]
    selection = training_domain_validation(records)
    # Trials 0.75 and 0.5: population standard deviation 0.125.
    error = pytest.approx(0.125 / 2**0.5)
    cell = Cell(0.625, error, (0.75, 0.5), (1, 5), (0.125, 1.0), trial_seeds=(0, 1), steps=(0, 0))
    cell = replace(cell, runs=5)
    assert selection == Selection({2: cell}, None)
    assert training_domain_validation(reversed(records)) == selection
    cell = training_domain_validation([run(0, 0, 0, 1.0, 0.5)]).cells[0]
    assert (cell.mean, cell.error, cell.spread) == (1.0, 0.0, (1.0, 1.0))


def test_ties_go_to_the_last_configuration_and_the_target_is_not_looked_at() -> None:
    records = [run(0, 0, config, config / 10, 0.5) for config in (4, 2, 3)]
    for order in (records, records[::-1]):
        assert training_domain_validation(order).cells[0].chosen == (4,)
        assert oracle(order).cells[0].trials == (0.4,)
    records = [
        run(1, 0, 0, test=0.3, validation=0.6, peek=0.1),
        run(1, 0, 1, test=0.9, validation=0.5, peek=1.0),
    ]
    assert training_domain_validation(records).cells[1].chosen == (0,)
    assert oracle(records).cells[1].chosen == (1,)
    assert oracle(records).cells[1].trials == (0.9,)


def test_the_average_is_over_trials_of_means_over_environments() -> None:
    records = [run(env, trial, 0, (env + trial) / 4, 0.5) for env in range(3) for trial in (0, 1)]
    selection = training_domain_validation(records)
    assert list(selection.cells) == [0, 1, 2]
    assert selection.average == pytest.approx(((0 + 1 + 2) / 12 + (1 + 2 + 3) / 12) / 2)
    # The means of the trials, 1/4 and 1/2, have the population standard deviation 1/8.
    assert selection.average_error == pytest.approx(0.125 / 2**0.5)
    # A trial that some environment lacks would weigh the environments unequally.
    more = [*records, run(2, 2, 0, 0.0, 0.5)]
    assert training_domain_validation(more).average == selection.average
    assert len(training_domain_validation(more).cells[2].trials) == 3
    assert training_domain_validation([]) == Selection({}, None)
    two = [run(env, 0, 0, 0.5, 0.5) for env in (0, 2)]
    assert list(training_domain_validation(two).cells) == [0, 2]
    assert training_domain_validation(two).average is None
    assert training_domain_validation([*two, run(1, 1, 0, 0.5, 0.5)]).average is None


def test_all_environments_are_looked_at_and_pairs_or_mixtures_are_not() -> None:
    record = run(0, 0, 0, 0.5, 0.5) | {"env3_out_acc": 1.0}
    better = run(0, 0, 1, 0.75, 0.5625) | {"env3_out_acc": 0.0}
    assert training_domain_validation([record, better]).cells[0].chosen == (0,)
    assert training_domain_validation([record, better], n_envs=3).cells[0].chosen == (1,)
    twin = run(0, 0, 1, 1.0, 1.0, peek=1.0)
    twin["args"]["test_envs"] = [0, 1]
    for rule in (training_domain_validation, oracle):
        assert rule([run(0, 0, 0, 0.5, 0.5), twin]).cells[0].chosen == (0,)
        assert rule([twin]) == Selection({}, None)
    twice = [run(0, 0, 0, 0.5, 0.5), run(0, 0, 0, 0.25, 0.5)]
    with refused("one sweep at a time"):
        training_domain_validation(twice)
    for key in ("env0_in_acc", "env1_out_acc"):
        with refused(f"no number {key}"):
            training_domain_validation([run(0, 0, 0, 0.5, 0.5) | {key: None}])


def test_the_best_checkpoint_of_each_run_competes_but_for_the_oracle() -> None:
    records = [
        run(1, 0, 4, test=0.1, validation=0.9, step=100),
        run(1, 0, 4, test=0.2, validation=0.5, step=200),
        run(1, 0, 7, test=0.3, validation=0.6, step=0),
        run(1, 0, 7, test=0.4, validation=0.8, step=100),
        run(1, 1, 4, test=0.5, validation=0.25, step=300),
        run(1, 1, 4, test=0.6, validation=0.25, step=200),
    ]
    cell = training_domain_validation(records).cells[1]
    assert (cell.trials, cell.chosen, cell.steps) == ((0.1, 0.6), (4, 4), (100, 200))
    assert cell.trial_seeds == (0, 1)
    assert cell.spread == (0.1, 0.6)  # of one checkpoint a run: 0.1, 0.4 and 0.6
    records = [
        run(0, 0, 0, test=0.1, validation=0.0, peek=0.9, step=0),
        run(0, 0, 0, test=0.2, validation=0.0, peek=0.3, step=100),
        run(0, 0, 1, test=0.3, validation=0.0, peek=0.8, step=100),
        run(0, 0, 1, test=0.4, validation=0.0, peek=0.4, step=200),
    ]
    cell = oracle(records).cells[0]
    assert (cell.trials, cell.chosen, cell.steps) == ((0.4,), (1,), (200,))


def test_leave_one_domain_out_validation_by_hand() -> None:
    records = [
        run(0, 0, 0, test=0.1, validation=1.0, step=0),
        run(0, 0, 0, test=0.2, validation=0.0, step=100),
        *(pair(0, 1, 0.5, step=0), pair(0, 1, 0.25, step=100)),
        *(pair(0, 2, 0.25, step=0), pair(0, 2, 0.75, step=100)),  # means 0.375 and 0.5
        run(0, 0, 1, test=0.3, validation=1.0, step=0),
        run(0, 0, 1, test=0.4, validation=1.0, step=100),
        *(pair(0, 1, 0.5, config=1, step=0), pair(0, 1, 0.0, config=1, step=100)),
        *(pair(0, 2, 0.625, config=1, step=0), pair(0, 2, 1.0, config=1, step=100)),  # .5625, .5
    ]
    cell = leave_one_domain_out_validation(records).cells[0]
    assert (cell.trials, cell.chosen, cell.steps) == ((0.3,), (1,), (0,))
    assert cell.spread == (0.2, 0.3)
    assert training_domain_validation(records).cells[0].trials == (0.3,)
    # The twins of one environment serve the other as well, but environment 1 has no run of its own.
    assert list(leave_one_domain_out_validation(records).cells) == [0]


def test_configurations_and_steps_without_all_twins_are_left_out() -> None:
    good = [run(0, 0, 0, 0.1, 0.0), pair(0, 1, 0.25), pair(0, 2, 0.25)]
    bare = [run(0, 0, 1, 0.9, 1.0), pair(0, 1, 1.0, config=1)]
    later = [run(0, 0, 0, 0.8, 1.0, step=100), pair(0, 1, 1.0, step=100)]
    for records in (good, good + bare, good + later, good + bare + later):
        cell = leave_one_domain_out_validation(records).cells[0]
        assert (cell.chosen, cell.steps, cell.spread) == ((0,), (0,), (0.1, 0.1))
    assert leave_one_domain_out_validation(bare) == Selection({}, None)
    assert leave_one_domain_out_validation(good[:2]) == Selection({}, None)
    # Four environments need three twins.
    assert leave_one_domain_out_validation(good, n_envs=4) == Selection({}, None)


shares = st.integers(0, 4).map(lambda quarters: quarters / 4)


@st.composite
def sweeps(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Some runs of a sweep with three environments and some of their checkpoints."""
    places = st.tuples(
        st.sampled_from([(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]),
        st.integers(0, 1),
        st.integers(0, 2),
        st.sampled_from([0, 100]),
    )
    records = []
    for envs, trial, config, step in draw(st.lists(places, unique=True, max_size=30)):
        accuracies = {
            f"env{i}_{part}_acc": draw(shares) for i in range(3) for part in ("in", "out")
        }
        args = {"test_envs": list(envs), "trial_seed": trial, "hparams_seed": config}
        records.append({"step": step, "args": args} | accuracies)
    return records


@given(sweeps(), st.randoms())
def test_the_order_of_the_records_does_not_matter(records: list[dict[str, Any]], rng: Any) -> None:
    shuffled = records.copy()
    rng.shuffle(shuffled)
    for rule in RULES.values():
        selection = rule.select(records, 3)
        assert rule.select(shuffled, 3) == selection
        for cell in selection.cells.values():
            low, high = cell.spread
            assert low <= min(cell.trials) <= max(cell.trials) <= high


@given(sweeps(), shares)
def test_two_rules_never_look_at_the_target(records: list[dict[str, Any]], other: float) -> None:
    hidden = []
    for record in records:
        envs = record["args"]["test_envs"]
        hidden.append(record | ({f"env{envs[0]}_out_acc": other} if len(envs) == 1 else {}))
    for name in ("training-domain", "leave-one-domain-out"):
        assert RULES[name].select(hidden, 3) == RULES[name].select(records, 3)
    # Nor do they see what the accuracy would be that they are judged by.
    for record in hidden:
        envs = record["args"]["test_envs"]
        record |= {f"env{envs[0]}_in_acc": other} if len(envs) == 1 else {}
    for name in ("training-domain", "leave-one-domain-out"):
        blind, seeing = (RULES[name].select(sweep, 3).cells for sweep in (hidden, records))
        assert blind.keys() == seeing.keys()
        for env, cell in blind.items():
            assert (cell.chosen, cell.steps) == (seeing[env].chosen, seeing[env].steps)
