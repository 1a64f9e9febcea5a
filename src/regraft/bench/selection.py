"""Which configuration of a sweep counts, and the accuracies that follow from the choice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """Test accuracy in one held-out environment, trials in the order of their seeds."""

    mean: float
    error: float  # standard error over trials: population standard deviation / sqrt(trials)
    trials: tuple[float, ...]
    chosen: tuple[int, ...]  # hparams_seed chosen in each trial
    spread: tuple[float, float]  # lowest and highest over all configurations and trials


@dataclass(frozen=True)
class Selection:
    """Accuracies as shares of one, by held-out environment; environments without runs are absent.

    ``average`` is over the trials that every environment has, None if there is none.
    """

    cells: dict[int, Cell]
    average: float | None


def training_domain_validation(records: Iterable[Record], n_envs: int = 3) -> Selection:
    """Choose by the mean accuracy on held-out rows of the environments trained on.

    ``records`` are one sweep of one algorithm; those with several test environments are left out.
    """

    def score(record: Record) -> float:
        (test,) = record["args"]["test_envs"]
        sources = [i for i in range(n_envs) if i != test]
        return float(np.mean([_accuracy(record, f"env{i}_out_acc") for i in sources]))

    return _select(records, n_envs, score)


def oracle(records: Iterable[Record], n_envs: int = 3) -> Selection:
    """Choose by the accuracy on held-out rows of the test environment: a ceiling, not a method."""

    def score(record: Record) -> float:
        (test,) = record["args"]["test_envs"]
        return _accuracy(record, f"env{test}_out_acc")

    return _select(records, n_envs, score)


def _select(records: Iterable[Record], n_envs: int, score: Callable[[Record], float]) -> Selection:
    # test environment -> trial -> hparams_seed -> record
    runs: dict[int, dict[int, dict[int, Record]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        args = record["args"]
        if len(args["test_envs"]) != 1:
            continue
        configurations = runs[args["test_envs"][0]][args["trial_seed"]]
        if args["hparams_seed"] in configurations:
            raise ValueError(
                f"two runs have test environment {args['test_envs'][0]}, trial "
                f"{args['trial_seed']} and hparams_seed {args['hparams_seed']}: select from one "
                "sweep at a time."
            )
        configurations[args["hparams_seed"]] = record

    tests: dict[int, dict[int, float]] = {}
    cells: dict[int, Cell] = {}
    for env, trials in sorted(runs.items()):
        chosen = {trial: _best(trials[trial], score) for trial in sorted(trials)}
        key = f"env{env}_in_acc"
        tests[env] = {t: _accuracy(trials[t][seed], key) for t, seed in chosen.items()}
        everything = [_accuracy(run, key) for trial in trials.values() for run in trial.values()]
        accuracies = tuple(tests[env].values())
        cells[env] = Cell(
            mean=float(np.mean(accuracies)),
            error=float(np.std(accuracies) / np.sqrt(len(accuracies))),
            trials=accuracies,
            chosen=tuple(chosen.values()),
            spread=(min(everything), max(everything)),
        )
    return Selection(cells, _average(tests, n_envs))


def _best(configurations: Mapping[int, Record], score: Callable[[Record], float]) -> int:
    return max(configurations, key=lambda seed: (score(configurations[seed]), -seed))


def _average(tests: Mapping[int, Mapping[int, float]], n_envs: int) -> float | None:
    accuracies = [tests.get(env, {}) for env in range(n_envs)]
    complete = set.intersection(*(set(by_trial) for by_trial in accuracies))
    if not complete:
        return None
    means = [np.mean([by_trial[t] for by_trial in accuracies]) for t in sorted(complete)]
    return float(np.mean(means))


def _accuracy(record: Record, key: str) -> float:
    if not isinstance(record.get(key), int | float):
        raise ValueError(f"a record has no number {key}: run {dict(record['args'])} again.")
    return float(record[key])
