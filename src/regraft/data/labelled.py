"""Features with a label and a domain in every row: what all commands that learn or check read."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.core.domains import check_kinds, is_target
from regraft.data.columns import ColumnChoice, TableError
from regraft.data.tables import FeatureTable, read_table
from regraft.estimators.column_kinds import ColumnProblems, Columns, join_problems, take_rows
from regraft.estimators.table_features import TableFeatures
from regraft.support.plurals import count

ALL_COLUMNS = ColumnChoice()


@dataclass(frozen=True)
class LabelledTable(FeatureTable):
    """The rows of one file, all of which have a label and a domain."""

    X: NDArray[np.floating[Any]]  # (n, d)
    y: NDArray[Any]  # (n,)
    domain: NDArray[Any]  # (n,)
    # columns (n,) by name as they are in the file, and what made X of them; None without names
    columns: Columns | None = field(default=None, kw_only=True)
    preprocessing: TableFeatures | None = field(default=None, kw_only=True)
    # which rows of the file (n_file,) these are; None for all
    kept: NDArray[np.bool_] | None = field(default=None, kw_only=True)

    def count_rows(self) -> dict[str, dict[str, int]]:
        """Count the rows of every domain by class."""
        cells = Counter(zip(self.domain.astype(str), self.y.astype(str), strict=True))
        rows: dict[str, dict[str, int]] = {}
        for (name, label), n in sorted(cells.items()):
            rows.setdefault(str(name), {})[str(label)] = n
        return rows

    def describe_features(self) -> str:
        """Count the features and, where they have names, name the first and the last."""
        names, d = self.features, self.X.shape[1]
        named = f" ({names[0]!r} to {names[-1]!r})" if len(names) > 1 else ""
        return f"{d} features{named}"

    def unscaled(self) -> NDArray[np.floating[Any]]:
        """Return the features (n, d) with numbers in the units of the file."""
        return self.X if self.preprocessing is None else self.preprocessing.unscale(self.X)


def read_labelled(
    path: str | Path,
    label: str = "label",
    domain: str = "domain",
    group: str | None = None,
    choice: ColumnChoice = ALL_COLUMNS,
    usual_id: str | None = None,
) -> LabelledTable:
    """Read a file or a bank as :func:`read_table` does, and demand labels and domains.

    Rows of targets, whose domain is a negative integer, are left out with a warning. Named columns
    become numbers by :class:`~regraft.estimators.table_features.TableFeatures`. Where no id is
    chosen, a column ``usual_id`` may be there.
    """
    table = read_table(
        path,
        label=label,
        domain=domain,
        group=group,
        id=choice.id or usual_id,
        need_id=choice.id is not None,
        choice=choice,
    )
    kept = _find_sources(table)
    if kept is not None:
        table = _take(table, kept)
    _check_kinds(path, table, label, domain)
    if not isinstance(table.X, Mapping):
        return LabelledTable(**vars(table), kept=kept)
    before = choice.make_features()
    try:
        X = before.fit(table.X).transform(table.X)
    except ColumnProblems as error:
        raise TableError(join_problems(error.problems, str(path))) from None
    except ValueError as error:
        raise TableError(f"{path}: {error}") from None
    made = {"X": X, "features": tuple(before.get_feature_names_out())}
    whole = {**vars(table), **made, "columns": table.X, "preprocessing": before, "kept": kept}
    return LabelledTable(**whole)


def _find_sources(table: FeatureTable) -> NDArray[np.bool_] | None:
    """Return which rows are of sources, None if all are; warn of the others."""
    assert table.domain is not None  # it is needed
    targets = is_target(table.domain)
    if not targets.any() or targets.all():
        return None
    names = ", ".join(map(str, np.unique(table.domain[targets]).tolist()))
    warnings.warn(
        f"{count(int(targets.sum()), 'rows')} of negative domains ({names}) are of targets, and "
        "left out.",
        stacklevel=3,
    )
    return ~targets


def _take(table: FeatureTable, rows: NDArray[np.bool_]) -> FeatureTable:
    X = take_rows(table.X, rows) if isinstance(table.X, Mapping) else table.X[rows]
    y, domain, group, ids = (
        None if values is None else values[rows]
        for values in (table.y, table.domain, table.group, table.id)
    )
    return replace(table, X=X, y=y, domain=domain, group=group, id=ids)


def _check_kinds(path: str | Path, table: FeatureTable, label: str, domain: str) -> None:
    """Raise ``TableError`` if the column of labels holds measurements, or that of domains ids."""
    assert table.y is not None and table.domain is not None  # they are needed
    classes, domains = (
        np.array([*Counter(column.tolist()).values()]) for column in (table.y, table.domain)
    )
    try:
        check_kinds(classes, domains, (f"label column {label!r}", f"domain column {domain!r}"))
    except ValueError as error:
        raise TableError(f"{path}: {error}") from None
