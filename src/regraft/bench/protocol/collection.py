"""What the selection rules make of a folder of results."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regraft.bench.datasets import datasets
from regraft.bench.protocol.results import Damage, RunKey, read_results, run_key
from regraft.bench.protocol.selection import RULES, Cell, Record, Selection, count_environments
from regraft.support.plurals import count

# The order of DomainBed's tables.
_FIRST = (
    *("ERM", "Fish", "IRM", "GroupDRO", "Mixup", "MLDG", "CORAL", "MMD", "DANN", "CDANN", "MTL"),
    *("SagNet", "ARM", "VREx", "RSC", "SD", "ANDMask", "SANDMask", "IGA", "SelfReg", "Fishr"),
    *("TRM", "IB_ERM", "IB_IRM", "CAD", "CondCAD", "Transfer", "CausIRL_CORAL", "CausIRL_MMD"),
    *("EQRM", "RDM", "ADRMX", "ERMPlusPlus", "URM"),
)
_LAST = ("CRO", "CROLatent")
# Arguments that all runs of a table should have in common.
SETTINGS = ("steps", "holdout_fraction", "compat", "task", "uda_holdout_fraction", "swad")


@dataclass(frozen=True)
class Collection:
    """What each selection rule makes of a folder of results."""

    # By the rule's name, dataset and algorithm, each in the order in which it is shown.
    selections: dict[str, dict[str, dict[str, Selection]]]
    environments: dict[str, tuple[str, ...]]  # their names, by dataset
    hparams: dict[RunKey, dict[str, Any]]
    args: dict[RunKey, dict[str, Any]]
    runs: int
    unfinished: int  # of the runs
    records: int
    damaged: list[Damage]
    uneven: list[str]  # what makes cells incomparable, a sentence's part each
    open_runs: frozenset[RunKey]  # those that are not finished, or have damaged lines
    folders: dict[RunKey, Path]
    compat: bool = False  # averaged by DomainBed's rule

    def algorithms(self, rule: str) -> list[str]:
        """Return those that have a run, in the order in which they are shown."""
        return _ordered({name for rows in self.selections[rule].values() for name in rows})

    def dataset_averages(self, rule: str, algorithm: str) -> list[float | None]:
        """Return the mean over trials of each dataset, None where one is lacking."""
        empty = Selection({}, None)
        found = [rows.get(algorithm, empty) for rows in self.selections[rule].values()]
        return [each.trial_average if self.compat else each.average for each in found]

    def overall(self, rule: str, algorithm: str) -> float | None:
        """Return the mean over datasets of their averages, None if one is lacking."""
        averages = self.dataset_averages(rule, algorithm)
        known = [average for average in averages if average is not None]
        return sum(known) / len(known) if known and len(known) == len(averages) else None

    def is_complete(self, rule: str, dataset: str, algorithm: str, env: int) -> bool:
        """Tell whether a cell has as many runs as any of its dataset, all finished and whole."""
        rows = self.selections[rule][dataset].values()
        most = max((cell.runs for row in rows for cell in row.cells.values()), default=0)
        cell = self.selections[rule][dataset][algorithm].cells.get(env)
        is_open = any(
            (key.dataset, key.algorithm) == (dataset, algorithm) and env in key.test_envs
            for key in self.open_runs
        )
        return cell is not None and cell.runs == most and not is_open

    def has_cells(self, rule: str) -> bool:
        """Tell whether the folder has the runs that the rule needs, if only of one cell."""
        rows = self.selections[rule].values()
        return any(selection.cells for row in rows for selection in row.values())

    def to_dict(self) -> dict[str, Any]:
        """Return everything in JSON's types: accuracies as shares of one, what was chosen."""
        return {
            "runs": self.runs,
            "unfinished": self.unfinished,
            "uneven": self.uneven,
            "records": self.records,
            "damaged": [asdict(damage) | {"path": str(damage.path)} for damage in self.damaged],
            "selections": {rule: self._rule_to_dict(rule) for rule in self.selections},
        }

    def _rule_to_dict(self, rule: str) -> dict[str, Any]:
        datasets = {
            dataset: {
                algorithm: {
                    "cells": {
                        self.environments[dataset][env]: {
                            **self._cell_to_dict(cell, dataset, algorithm, env),
                            "is_complete": self.is_complete(rule, dataset, algorithm, env),
                        }
                        for env, cell in selection.cells.items()
                    },
                    "average": selection.average,
                    "average_error": selection.average_error,
                    **({"trial_average": selection.trial_average} if self.compat else {}),
                }
                for algorithm, selection in rows.items()
            }
            for dataset, rows in self.selections[rule].items()
        }
        overall = {algorithm: self.overall(rule, algorithm) for algorithm in self.algorithms(rule)}
        return {"title": RULES[rule].title, "datasets": datasets, "overall": overall}

    def _cell_to_dict(self, cell: Cell, dataset: str, algorithm: str, env: int) -> dict[str, Any]:
        choices = zip(cell.trial_seeds, cell.chosen, cell.steps, cell.trials, strict=True)

        def trial(number: int, seed: int, step: int, accuracy: float) -> dict[str, Any]:
            run = RunKey(dataset, algorithm, frozenset({env}), number, seed)
            return {
                "trial_seed": number,
                "accuracy": accuracy,
                "hparams_seed": seed,
                "step": step,
                "hparams": self.hparams[run],
                "folder": str(self.folders[run]),
            }

        return {
            "mean": cell.mean,
            "error": cell.error,
            "spread": list(cell.spread),
            "trials": [trial(*choice) for choice in choices],
        }


def warn_of_damage(folder: Path, damaged: Sequence[Damage]) -> None:
    """Warn of lines that were skipped, if there are any."""
    if damaged:
        warnings.warn(
            f"{folder} has {count(len(damaged), 'damaged lines')}, left out of the tables, the "
            f"first in {damaged[0]}: remove the folders of such runs that are done, then launch "
            "the sweep again to make them anew.",
            stacklevel=3,
        )


def collect(
    folder: Path, rules: Iterable[str] = tuple(RULES), *, compat: bool = False
) -> Collection:
    """Select by each of the ``rules`` among the results in ``folder``.

    With ``compat`` incomplete sweeps are averaged as DomainBed does. Environments are named as the
    records or the dataset's name say, else numbered. Raises ``ValueError`` or
    ``FileNotFoundError`` with one sentence if there is no such rule, no record, or if the folder
    mixes sweeps.
    """
    rules = list(rules)
    for rule in rules:
        if rule not in RULES:
            raise ValueError(f"selection is {rule!r}: choose from {', '.join(RULES)}.")
    results = read_results(folder, every_line=compat)
    groups: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    sizes: dict[str, int] = defaultdict(int)
    names = {name: known.env_names for name, known in datasets().items()}
    for record in results.records:
        args = record["args"]
        groups[args["dataset"]][args["algorithm"]].append(record)
        names |= {args["dataset"]: record["env_names"]} if "env_names" in record else {}
        sizes[args["dataset"]] = max(sizes[args["dataset"]], count_environments(record))
    selections = {
        rule: {
            dataset: {
                algorithm: RULES[rule].select(
                    groups[dataset][algorithm], sizes[dataset], compat=compat
                )
                for algorithm in _ordered(groups[dataset])
            }
            for dataset in sorted(groups)
        }
        for rule in rules
    }
    runs = {run_key(record): record for record in results.records}
    return Collection(
        selections,
        {dataset: _names(names.get(dataset, ()), sizes[dataset]) for dataset in sorted(groups)},
        {key: record["hparams"] for key, record in runs.items()},
        {key: record["args"] for key, record in runs.items()},
        results.runs,
        results.unfinished,
        len(results.records),
        results.damaged,
        _uneven(runs),
        results.open_runs,
        results.folders,
        compat,
    )


def _uneven(runs: Mapping[RunKey, Record]) -> list[str]:
    """List settings that differ between runs of a dataset, and runs that cells lack."""
    settings: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    counts: dict[str, dict[tuple[str, int], set[RunKey]]] = defaultdict(lambda: defaultdict(set))
    for key, record in runs.items():
        for name in SETTINGS:
            settings[key.dataset][name].add(str(record["args"].get(name)))
        if len(key.test_envs) == 1:
            counts[key.dataset][key.algorithm, min(key.test_envs)].add(key)
    found = [
        f"runs on {dataset} differ in {name}: {', '.join(sorted(values))}"
        for dataset, by_name in sorted(settings.items())
        for name, values in by_name.items()
        if len(values) > 1
    ]
    for dataset, cells in sorted(counts.items()):
        most = max(map(len, cells.values()))
        found += [
            f"{algorithm} on {dataset} with test environment {env} has {len(keys)} of {most} runs"
            for (algorithm, env), keys in sorted(cells.items())
            if len(keys) < most
        ]
    return found


def _ordered(algorithms: Iterable[str]) -> list[str]:
    known = {name: (0, i, "") for i, name in enumerate(_FIRST)}
    known |= {name: (2, i, "") for i, name in enumerate(_LAST)}
    return sorted(algorithms, key=lambda name: known.get(name, (1, 0, name)))


def _names(names: Sequence[str], n_envs: int) -> tuple[str, ...]:
    return tuple(names) if len(names) == n_envs else tuple(map(str, range(n_envs)))
