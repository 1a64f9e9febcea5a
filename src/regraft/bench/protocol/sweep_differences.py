"""Where the tables of two sweeps differ, cell by cell, and in which runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regraft.bench.protocol.collection import SETTINGS, Collection, collect, warn_of_damage
from regraft.bench.protocol.results import RunKey
from regraft.bench.protocol.selection import RULES, Cell
from regraft.bench.protocol.setting_differences import describe_differences
from regraft.support.table import Number, Table

_COMPAT = "compat"


@dataclass(frozen=True)
class CellPair:
    """One cell of a table in two sweeps; None in a sweep that has no runs for it."""

    rule: str
    dataset: str
    algorithm: str
    environment: str
    first: Cell | None
    second: Cell | None
    settings: str = ""  # those in which the chosen runs differ, such as ``steps 21 and 51``

    @property
    def difference(self) -> float | None:
        """The second accuracy less the first, None if one is lacking."""
        if self.first is None or self.second is None:
            return None
        return self.second.mean - self.first.mean

    @property
    def is_same(self) -> bool:
        """Whether both chose the same configurations and steps with the same accuracies."""
        return self.first == self.second

    @property
    def has_same_numbers(self) -> bool:
        """Whether accuracy and error are the same, whatever runs they are made from."""
        if self.first is None or self.second is None:
            return self.is_same
        return (self.first.mean, self.first.error) == (self.second.mean, self.second.error)

    @property
    def reason(self) -> str:
        """What differs, in a few words; empty where nothing does."""
        if self.is_same:
            return ""
        if self.first is None or self.second is None:
            return f"only in the {'second' if self.first is None else 'first'}"
        if self.settings:
            return self.settings
        if self.first.trial_seeds != self.second.trial_seeds:
            return "other trials"
        if self.first.runs != self.second.runs:
            return f"{self.first.runs} and {self.second.runs} runs to choose from"
        if self.first.chosen != self.second.chosen:
            return "another configuration chosen"
        if self.first.steps != self.second.steps:
            return "another step chosen"
        if self.first.trials != self.second.trials:
            return "other accuracies of the same runs"
        return "other accuracies of runs that were not chosen"

    def to_dict(self) -> dict[str, Any]:
        """Return the cell in JSON's types."""
        return {
            "rule": self.rule,
            "dataset": self.dataset,
            "algorithm": self.algorithm,
            "environment": self.environment,
            "first": self.first and {"mean": self.first.mean, "error": self.first.error},
            "second": self.second and {"mean": self.second.mean, "error": self.second.error},
            "difference": self.difference,
            "has_same_numbers": self.has_same_numbers,
            "reason": self.reason,
        }


def compare_sweeps(
    first: Path, second: Path, rules: tuple[str, ...] = tuple(RULES), *, compat: bool = False
) -> list[CellPair]:
    """Pair the cells of two folders of runs, ours or DomainBed's, in the order of the tables.

    Raises ``ValueError`` or ``FileNotFoundError`` with one sentence if one of them has no records.
    """
    both = [collect(folder, rules, compat=compat) for folder in (first, second)]
    for folder, each in zip((first, second), both, strict=True):
        warn_of_damage(folder, each.damaged)
    pairs = []
    for rule in rules:
        for dataset in sorted({name for each in both for name in each.selections[rule]}):
            names = max((each.environments.get(dataset, ()) for each in both), key=len)
            of_both = [list(each.selections[rule].get(dataset, {})) for each in both]
            for algorithm in dict.fromkeys(of_both[0] + of_both[1]):
                for env, name in enumerate(names):
                    one, other = (_cell(each, rule, dataset, algorithm, env) for each in both)
                    if one is None and other is None:
                        continue
                    settings = _differences(
                        *(
                            _chosen_args(each, cell, dataset, algorithm, env)
                            for each, cell in zip(both, (one, other), strict=True)
                        )
                    )
                    pairs.append(CellPair(rule, dataset, algorithm, name, one, other, settings))
    return pairs


def count_differences(pairs: Sequence[CellPair]) -> str:
    """Say in a sentence how many cells differ, and how many of these in their numbers."""
    differ = [pair for pair in pairs if not pair.is_same]
    counted = f"{len(differ)} of {len(pairs)} cells differ"
    if not differ:
        return f"{counted}."
    same = sum(pair.has_same_numbers for pair in differ)
    return f"{counted}: {len(differ) - same} in their numbers, {same} only in the runs behind them."


def difference_tables(pairs: Sequence[CellPair]) -> list[Table]:
    """Make tables of the cells whose numbers differ, and of those that only other runs are behind.

    Numbers are in percent; a table without rows is left out.
    """
    differ = [pair for pair in pairs if not pair.is_same]
    found = [
        _table("Cells whose numbers differ", [p for p in differ if not p.has_same_numbers]),
        _table("Cells of the same numbers", [p for p in differ if p.has_same_numbers]),
    ]
    return [table for table in found if table.rows]


def _table(title: str, pairs: Sequence[CellPair]) -> Table:
    rows = tuple(
        (
            pair.rule,
            pair.dataset,
            pair.algorithm,
            pair.environment,
            _number(pair.first),
            _number(pair.second),
            None if pair.difference is None else _signed(100 * pair.difference),
            pair.reason,
        )
        for pair in pairs
    )
    columns = ("rule", "dataset", "algorithm", "domain", "first", "second", "difference", "why")
    return Table(title, columns, rows, align="llllrrrl")


def _signed(points: float) -> Number:
    """Return a difference with as many digits as it takes to see one."""
    return Number(points, format="+.1g" if 0 < abs(points) < 0.05 else "+.1f")


def _cell(collection: Collection, rule: str, dataset: str, algorithm: str, env: int) -> Cell | None:
    selection = collection.selections[rule].get(dataset, {}).get(algorithm)
    return None if selection is None else selection.cells.get(env)


def _chosen_args(
    collection: Collection, cell: Cell | None, dataset: str, algorithm: str, env: int
) -> dict[str, Any] | None:
    """Return the args of the run that was chosen in the first trial, with which others agree."""
    if cell is None:
        return None
    key = RunKey(dataset, algorithm, frozenset({env}), cell.trial_seeds[0], cell.chosen[0])
    return collection.args[key]


def _differences(first: dict[str, Any] | None, second: dict[str, Any] | None) -> str:
    """Tell the settings in which two runs differ, empty if one of them is lacking."""
    if first is None or second is None:
        return ""
    names = [*SETTINGS, "checkpoint_freq", "hparams", "weights"]
    if not (_COMPAT in first and _COMPAT in second):  # DomainBed's runs do not name it
        names.remove(_COMPAT)
    return describe_differences(first, second, names)


def _number(cell: Cell | None) -> Number | None:
    if cell is None:
        return None
    error = cell.known_error
    return Number(100 * cell.mean, None if error is None else 100 * error)
