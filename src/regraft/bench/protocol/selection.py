"""Which checkpoint and configuration of a sweep count, and the accuracies that follow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
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
    runs: int = 0  # that were chosen from, over all trials

    @property
    def known_error(self) -> float | None:
        """The standard error, None of a single trial, which says nothing about it."""
        return self.error if len(self.trials) > 1 else None


@dataclass(frozen=True)
class Selection:
    """Accuracies as shares of one, by held-out environment; environments without runs are absent.

    ``average`` is over the trials that every environment has, None if there is none;
    ``average_error`` is its standard error over these trials. By DomainBed's rule ``average`` is
    the mean of the cells, None if one is absent, and ``trial_average``, to which the error then
    belongs, is over the means of whatever environments each trial has.
    """

    cells: dict[int, Cell]
    average: float | None
    average_error: float | None = None
    trial_average: float | None = None  # by DomainBed's rule only

    @property
    def known_average_error(self) -> float | None:
        """The standard error of the average, None if one trial alone is in every cell."""
        trials = [set(cell.trial_seeds) for cell in self.cells.values()]
        return self.average_error if trials and len(set.intersection(*trials)) > 1 else None


@dataclass(frozen=True)
class _Checkpoint:
    """A checkpoint that could count if its configuration is chosen."""

    validation: float
    test: float
    step: int


_Configuration = tuple[int, int]  # trial_seed, hparams_seed
_Run = list[Record]  # of steps in ascending order or, by DomainBed's rule, in that of the file
_Runs = Mapping[frozenset[int], Mapping[_Configuration, _Run]]  # by test environments
# (runs, test environment, configuration, n_envs) -> the checkpoints to choose from; of equally
# good ones the first counts
_Candidates = Callable[[_Runs, int, _Configuration, int], list[_Checkpoint]]


@dataclass(frozen=True)
class Rule:
    """A way to select, in words and as what it maximizes."""

    title: str
    needs: str  # the runs without which there is nothing to select from
    candidates: _Candidates

    def select(
        self, records: Iterable[Record], n_envs: int | None = None, *, compat: bool = False
    ) -> Selection:
        """Select from one algorithm's sweep on one dataset; without ``n_envs`` they are counted.

        With ``compat`` incomplete sweeps are averaged, and steps recorded twice are taken, as
        DomainBed does.
        """
        records = list(records)
        if n_envs is None:
            n_envs = max(map(count_environments, records), default=0)
        runs = _group(records, compat)
        cells = {}
        for env in sorted(min(envs) for envs in runs if len(envs) == 1):
            trials: dict[int, dict[int, _Checkpoint]] = defaultdict(dict)  # then by hparams_seed
            for configuration in runs[frozenset({env})]:
                candidates = self.candidates(runs, env, configuration, n_envs)
                if candidates:
                    trial, seed = configuration
                    trials[trial][seed] = max(candidates, key=lambda each: each.validation)
            if trials:
                cells[env] = _cell(trials)
        found = [cells.get(env) for env in range(n_envs)]
        return Selection(cells, *(_domainbed_averages(found) if compat else _average(found)))


def _on_training_domains(
    runs: _Runs, test: int, configuration: _Configuration, n_envs: int
) -> list[_Checkpoint]:
    """Judge by the mean accuracy on held-out rows of the environments trained on."""
    keys = [f"env{i}_out_acc" for i in range(n_envs) if i != test]
    run = runs[frozenset({test})][configuration]
    return [_checkpoint(record, test, [_accuracy(record, key) for key in keys]) for record in run]


def _on_domains_left_out(
    runs: _Runs, test: int, configuration: _Configuration, n_envs: int
) -> list[_Checkpoint]:
    """Judge by the mean accuracy in environments that twin runs, with one more held out, lacked.

    A selection rule, not to be confused with leaving one environment out to test on it, which all
    rules do. The twins of a run with the test environment t have the test environments t and v,
    one twin for each other v; configurations and steps that some twin lacks are left out.
    """
    own = defaultdict(list)
    for record in runs[frozenset({test})][configuration]:
        own[record["step"]].append(record)
    twins = {
        env: {
            record["step"]: _accuracy(record, f"env{env}_in_acc")
            for record in runs.get(frozenset({test, env}), {}).get(configuration, [])
        }
        for env in range(n_envs)
        if env != test
    }
    # A step that the run itself has twice is no candidate, as in DomainBed.
    steps = {step for step, records in own.items() if len(records) == 1}.intersection(
        *twins.values()
    )
    return [
        _checkpoint(own[step][0], test, [twin[step] for twin in twins.values()])
        for step in sorted(steps)
    ]


def _on_the_test_domain(
    runs: _Runs, test: int, configuration: _Configuration, n_envs: int
) -> list[_Checkpoint]:
    """Judge by the accuracy on held-out rows of the test environment: a ceiling, not a method.

    Only the last checkpoint of a run counts, which keeps the look at the test environment short.
    """
    last = sorted(runs[frozenset({test})][configuration], key=lambda record: record["step"])[-1]
    return [_checkpoint(last, test, [_accuracy(last, f"env{test}_out_acc")])]


def _checkpoint(record: Record, test: int, validation: Sequence[float]) -> _Checkpoint:
    # NumPy's mean: its last bit decides ties as in DomainBed.
    mean = float(np.mean(validation))
    return _Checkpoint(mean, _accuracy(record, f"env{test}_in_acc"), record["step"])


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


def _group(records: Iterable[Record], compat: bool) -> _Runs:
    runs: dict[frozenset[int], dict[_Configuration, _Run]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        args = record["args"]
        trial, seed = args["trial_seed"], args["hparams_seed"]
        runs[frozenset(args["test_envs"])][trial, seed].append(record)
    if compat:
        return runs
    for envs, by_configuration in runs.items():
        for (trial, seed), run in by_configuration.items():
            run.sort(key=lambda record: record["step"])
            if len({record["step"] for record in run}) < len(run):
                raise ValueError(
                    f"two runs have test environments {sorted(envs)}, trial {trial} and "
                    f"hparams_seed {seed}: select from one sweep at a time."
                )
    return runs


def _cell(trials: Mapping[int, Mapping[int, _Checkpoint]]) -> Cell:
    seeds = tuple(sorted(trials))
    # Of equally good configurations DomainBed takes the one drawn last.
    chosen = tuple(
        max((each.validation, seed) for seed, each in trials[trial].items())[1] for trial in seeds
    )
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
        runs=len(everything),
    )


def _average(cells: Iterable[Cell | None]) -> tuple[float, float] | tuple[None, None]:
    """Average over trials the means over environments; also return the standard error."""
    tests = _by_trial(cells)
    complete = set.intersection(*map(set, tests)) if tests else set()
    if not complete:
        return None, None
    return _mean_and_error([np.mean([t[trial] for t in tests]) for trial in sorted(complete)])


def _domainbed_averages(
    cells: Sequence[Cell | None],
) -> tuple[float | None, float | None, float | None]:
    """Average the cells' means; then, with its error first, what each trial has."""
    tests = _by_trial(cells)
    known = [cell.mean for cell in cells if cell]
    average = sum(known) / len(known) if known and len(known) == len(cells) else None
    if not known:
        return None, None, None
    by_trial = [
        np.mean([test[trial] for test in tests if trial in test])
        for trial in sorted(set[int]().union(*tests))
    ]
    mean, error = _mean_and_error(by_trial)
    return average, error, mean


def _by_trial(cells: Iterable[Cell | None]) -> list[dict[int, float]]:
    """Return each cell's accuracies by the seed of the trial, none of an absent cell."""
    return [dict(zip(c.trial_seeds, c.trials, strict=True)) if c else {} for c in cells]


def _mean_and_error(values: Iterable[Any]) -> tuple[float, float]:
    array = np.array(list(values))
    # Divided before the deviation is taken, as DomainBed does: the same bits.
    return float(array.mean()), float((array / np.sqrt(len(array))).std())


def _accuracy(record: Record, key: str) -> float:
    if not isinstance(record.get(key), int | float):
        raise ValueError(f"a record has no number {key}: run {dict(record['args'])} again.")
    return float(record[key])
