"""The choice of configurations, on sweeps whose answer is known."""

from __future__ import annotations

from typing import Any

import pytest

from regraft.bench.selection import Cell, Selection, oracle, training_domain_validation


def run(
    env: int, trial: int, config: int, test: float, validation: float, peek: float = 0.0
) -> dict[str, Any]:
    """A run whose source environments have validation accuracies of this mean."""
    record: dict[str, Any] = {
        "args": {"test_envs": [env], "trial_seed": trial, "hparams_seed": config}
    }
    sign = 1
    for i in range(3):
        record[f"env{i}_in_acc"] = 0.99
        record[f"env{i}_out_acc"] = validation + sign * 0.0625
        sign = sign if i == env else -sign
    return record | {f"env{env}_in_acc": test, f"env{env}_out_acc": peek}


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
    cell = Cell(0.625, pytest.approx(0.125 / 2**0.5), (0.75, 0.5), (1, 5), (0.125, 1.0))
    assert selection == Selection({2: cell}, None)
    assert training_domain_validation(reversed(records)) == selection


def test_ties_go_to_the_smallest_configuration() -> None:
    records = [run(0, 0, config, config / 10, 0.5) for config in (4, 2, 3)]
    for order in (records, records[::-1]):
        assert training_domain_validation(order).cells[0].chosen == (2,)
        assert oracle(order).cells[0].trials == (0.2,)


def test_the_test_environment_is_not_looked_at() -> None:
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
    # A trial that some environment lacks would weigh the environments unequally.
    more = [*records, run(2, 2, 0, 0.0, 0.5)]
    assert training_domain_validation(more).average == selection.average
    assert len(training_domain_validation(more).cells[2].trials) == 3


def test_without_a_complete_trial_there_is_no_average() -> None:
    assert training_domain_validation([]) == Selection({}, None)
    two = [run(env, 0, 0, 0.5, 0.5) for env in (0, 2)]
    assert list(training_domain_validation(two).cells) == [0, 2]
    assert training_domain_validation(two).average is None
    assert training_domain_validation([*two, run(1, 1, 0, 0.5, 0.5)]).average is None


def test_one_trial_has_no_error() -> None:
    cell = training_domain_validation([run(0, 0, 0, 1.0, 0.5)]).cells[0]
    assert (cell.mean, cell.error, cell.spread) == (1.0, 0.0, (1.0, 1.0))


def test_more_environments_are_all_looked_at() -> None:
    record = run(0, 0, 0, 0.5, 0.5) | {"env3_out_acc": 1.0}
    better = run(0, 0, 1, 0.75, 0.5625) | {"env3_out_acc": 0.0}
    assert training_domain_validation([record, better], n_envs=4).cells[0].chosen == (0,)
    assert training_domain_validation([record, better]).cells[0].chosen == (1,)


def test_runs_with_two_test_environments_are_left_out() -> None:
    pair = run(0, 0, 1, 1.0, 1.0)
    pair["args"]["test_envs"] = [0, 1]
    assert training_domain_validation([run(0, 0, 0, 0.5, 0.5), pair]).cells[0].chosen == (0,)


def test_mixed_sweeps_and_lacking_numbers_are_told() -> None:
    twice = [run(0, 0, 0, 0.5, 0.5), run(0, 0, 0, 0.25, 0.5)]
    with pytest.raises(ValueError, match="one sweep at a time") as caught:
        training_domain_validation(twice)
    assert str(caught.value).endswith(".") and ". " not in str(caught.value)
    for key in ("env0_in_acc", "env1_out_acc"):
        with pytest.raises(ValueError, match=f"no number {key}") as caught:
            training_domain_validation([run(0, 0, 0, 0.5, 0.5) | {key: None}])
        assert str(caught.value).endswith(".") and ". " not in str(caught.value)
