"""Where the tables of two sweeps differ, cell by cell, and in which runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regraft.bench.protocol.collection import Collection, collect
from regraft.bench.protocol.selection import RULES, Cell
from regraft.support.table import Number, Table


@dataclass(frozen=True)
class CellPair:
    """One cell of a table in two sweeps; None in a sweep that has no runs for it."""

    rule: str
    dataset: str
    algorithm: str
    environment: str
    first: Cell | None
    second: Cell | None

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
    def reason(self) -> str:
        """What differs, in a few words; empty where nothing does."""
        if self.is_same:
            return ""
        if self.first is None or self.second is None:
            return f"only in the {'second' if self.first is None else 'first'}"
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
            "reason": self.reason,
        }


def compare_sweeps(
    first: Path, second: Path, rules: tuple[str, ...] = tuple(RULES), *, compat: bool = False
) -> list[CellPair]:
    """Pair the cells of two folders of runs, ours or DomainBed's, in the order of the tables.

    Raises ``ValueError`` or ``FileNotFoundError`` with one sentence if one of them has no records.
    """
    both = [collect(folder, rules, compat=compat) for folder in (first, second)]
    pairs = []
    for rule in rules:
        for dataset in sorted({name for each in both for name in each.selections[rule]}):
            names = max((each.environments.get(dataset, ()) for each in both), key=len)
            of_both = [list(each.selections[rule].get(dataset, {})) for each in both]
            for algorithm in dict.fromkeys(of_both[0] + of_both[1]):
                for env, name in enumerate(names):
                    cells = [_cell(each, rule, dataset, algorithm, env) for each in both]
                    if cells != [None, None]:
                        pairs.append(CellPair(rule, dataset, algorithm, name, *cells))
    return pairs


def difference_table(pairs: list[CellPair]) -> Table:
    """Make a table of the cells that differ, in percent."""
    rows = tuple(
        (
            pair.rule,
            pair.dataset,
            pair.algorithm,
            pair.environment,
            _number(pair.first),
            _number(pair.second),
            None if pair.difference is None else Number(100 * pair.difference, format="+.1f"),
            pair.reason,
        )
        for pair in pairs
        if not pair.is_same
    )
    columns = ("rule", "dataset", "algorithm", "domain", "first", "second", "difference", "why")
    return Table("Cells that differ", columns, rows, align="llllrrrl")


def _cell(collection: Collection, rule: str, dataset: str, algorithm: str, env: int) -> Cell | None:
    selection = collection.selections[rule].get(dataset, {}).get(algorithm)
    return None if selection is None else selection.cells.get(env)


def _number(cell: Cell | None) -> Number | None:
    return None if cell is None else Number(100 * cell.mean, 100 * cell.error)
