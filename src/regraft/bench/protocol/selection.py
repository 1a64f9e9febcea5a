"""Which checkpoint and configuration of a sweep count, and the accuracies that follow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from statistics import fmean
from typing import Any

import numpy as np

Record = Mapping[str, Any]  # of one checkpoint: step, accuracies by environment, args


@dataclass(frozen=True)
class Cell:
    """Test accuracy in one held-out environment, trials in the order of their seeds."""

    mean: float
    error: float  # standard error over trials: population standard deviation / sqrt(trials)
    trials: tuple[float, ...]
    chosen: tuple[int, ...]  # hparams_seed chosen in each trial
    spread: tuple[float, float]  # lowest and highest over all configurations and trials
    trial_seeds: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()  # of the checkpoint chosen in each trial


@dataclass(frozen=True)
class Selection:
    """Accuracies as shares of one, by held-out environment; environments without runs are absent.

    ``average`` is over the trials that every environment has, None if there is none;
    ``average_error`` is its standard error over these trials.
    """

    cells: dict[int, Cell]
    average: float | None
    average_error: float | None = None


@dataclass(frozen=True)
class _Checkpoint:
    """The checkpoint that counts if its configuration is chosen."""

    validation: float
    test: float
    step: int


_Configuration = tuple[int, int]  # trial_seed, hparams_seed
_Run = dict[int, Record]  # by step
_Runs = Mapping[frozenset[int], Mapping[_Configuration, _Run]]  # by test environments
# (runs, test environment, configuration, n_envs) -> validation accuracy of the steps to choose from
_Validation = Callable[[_Runs, int, _Configuration, int], Mapping[int, float]]


@dataclass(frozen=True)
class Rule:
    """A way to select, in words and as what it maximizes."""

    title: str
    needs: str  # the runs without which there is nothing to select from
    validation: _Validation

    def select(self, records: Iterable[Record], n_envs: int | None = None) -> Selection:
        """Select from one algorithm's sweep on one dataset; without ``n_envs`` they are counted."""
        records = list(records)
        if n_envs is None:
            n_envs = max(map(count_environments, records), default=0)
        runs = _group(records)
        cells = {}
        for env in sorted(min(envs) for envs in runs if len(envs) == 1):
            trials: dict[int, dict[int, _Checkpoint]] = defaultdict(dict)  # then by hparams_seed
            for configuration, run in runs[frozenset({env})].items():
                accuracies = self.validation(runs, env, configuration, n_envs)
                if accuracies:
                    step = _best(accuracies)
                    test = _accuracy(run[step], f"env{env}_in_acc")
                    trial, seed = configuration
                    trials[trial][seed] = _Checkpoint(accuracies[step], test, step)
            if trials:
                cells[env] = _cell(trials)
        return Selection(cells, *_average([cells.get(env) for env in range(n_envs)]))


def _on_training_domains(
    runs: _Runs, test: int, configuration: _Configuration, n_envs: int
) -> dict[int, float]:
    """Return the mean accuracies on held-out rows of the environments trained on."""
    keys = [f"env{i}_out_acc" for i in range(n_envs) if i != test]
    run = runs[frozenset({test})][configuration]
    return {step: fmean(_accuracy(record, key) for key in keys) for step, record in run.items()}


def _on_domains_left_out(
    runs: _Runs, test: int, configuration: _Configuration, n_envs: int
) -> dict[int, float]:
    """Return the mean accuracies in environments that twin runs, with one more held out, lacked.

    A selection rule, not to be confused with leaving one environment out to test on it, which all
    rules do. The twins of a run with the test environment t have the test environments t and v,
    one twin for each other v; configurations and steps that some twin lacks are left out.
    """
    others = [env for env in range(n_envs) if env != test]
    twins = {env: runs.get(frozenset({test, env}), {}).get(configuration, {}) for env in others}
    steps = set(runs[frozenset({test})][configuration]).intersection(*twins.values())
    return {
        step: fmean(_accuracy(twin[step], f"env{env}_in_acc") for env, twin in twins.items())
        for step in steps
    }


def _on_the_test_domain(
    runs: _Runs, test: int, configuration: _Configuration, n_envs: int
) -> dict[int, float]:
    """Return the accuracy on held-out rows of the test environment: a ceiling, not a method.

    Only the last checkpoint of a run counts, which keeps the look at the test environment short.
    """
    run = runs[frozenset({test})][configuration]
    last = max(run)
    return {last: _accuracy(run[last], f"env{test}_out_acc")}


RULES = {
    "training-domain": Rule(
        "training-domain validation", "runs with one test environment", _on_training_domains
    ),
    "leave-one-domain-out": Rule(
        "leave-one-domain-out validation (selection rule)",
        "runs with every pair of test environments beside those with one",
        _on_domains_left_out,
    ),
    "oracle": Rule(
        "test-domain validation (oracle)", "runs with one test environment", _on_the_test_domain
    ),
}


def count_environments(record: Record) -> int:
    """Count the environments that the record has accuracies of."""
    return next(
        i for i in count() if f"env{i}_in_acc" not in record and f"env{i}_out_acc" not in record
    )


def _group(records: Iterable[Record]) -> _Runs:
    runs: dict[frozenset[int], dict[_Configuration, _Run]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        args = record["args"]
        trial, seed = args["trial_seed"], args["hparams_seed"]
        run = runs[frozenset(args["test_envs"])][trial, seed]
        if record["step"] in run:
            raise ValueError(
                f"two runs have test environments {args['test_envs']}, trial {trial} and "
                f"hparams_seed {seed}: select from one sweep at a time."
            )
        run[record["step"]] = record
    return runs


def _best(accuracies: Mapping[int, float]) -> int:
    """Return the smallest of the keys with the largest value."""
    return max(accuracies, key=lambda key: (accuracies[key], -key))


def _cell(trials: Mapping[int, Mapping[int, _Checkpoint]]) -> Cell:
    seeds = tuple(sorted(trials))
    chosen = tuple(_best({s: c.validation for s, c in trials[trial].items()}) for trial in seeds)
    picked = [trials[trial][seed] for trial, seed in zip(seeds, chosen, strict=True)]
    everything = [candidate.test for trial in trials.values() for candidate in trial.values()]
    accuracies = tuple(candidate.test for candidate in picked)
    mean, error = _mean_and_error(accuracies)
    return Cell(
        mean,
        error,
        accuracies,
        chosen,
        spread=(min(everything), max(everything)),
        trial_seeds=seeds,
        steps=tuple(candidate.step for candidate in picked),
    )


def _average(cells: Iterable[Cell | None]) -> tuple[float, float] | tuple[None, None]:
    """Average over trials the means over environments; also return the standard error."""
    tests = [dict(zip(c.trial_seeds, c.trials, strict=True)) if c else {} for c in cells]
    complete = set.intersection(*map(set, tests)) if tests else set()
    if not complete:
        return None, None
    return _mean_and_error([fmean(test[trial] for test in tests) for trial in sorted(complete)])


def _mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    array = np.array(list(values))
    return float(array.mean()), float(array.std() / np.sqrt(len(array)))


def _accuracy(record: Record, key: str) -> float:
    if not isinstance(record.get(key), int | float):
        raise ValueError(f"a record has no number {key}: run {dict(record['args'])} again.")
    return float(record[key])
