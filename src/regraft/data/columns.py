"""Columns of tables that are not features: found by name, checked for gaps."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regraft.estimators.column_kinds import Columns, find_alike

if TYPE_CHECKING:
    from regraft.estimators.table_features import TableFeatures

_SHOWN = 8  # names in a sentence
_BEYOND = 2**63


class TableError(ValueError):
    """A file that cannot be read as a table; the message is one sentence."""


@dataclass(frozen=True)
class Role:
    """A column that is no feature, named by an ``option``.

    ``gap`` says what else can be done about a missing value, unless those are ``allowed``, and
    ``by_option`` whether the column can be named.
    """

    name: str
    option: str
    needed: bool = True
    gap: str = ""
    allowed: bool = False
    by_option: bool = True

    def find(self, path: Path, columns: Sequence[str]) -> str | None:
        """Return the column's name if the file has it; raise ``TableError`` if it must."""
        if self.name in columns:
            return self.name
        if not self.needed:
            return None
        alike = find_alike(self.name, columns)
        guess = f"did you mean {alike!r}? It has" if alike else "it has"
        remedy = f"name the right one with --{self.option}"
        if not self.by_option:
            remedy = f"write a {self.option} for each row, in a column called {self.name}"
        raise TableError(
            f"{path} has no {self.option} column {self.name!r} ({guess} {quoted(columns)}): "
            f"{remedy}."
        )

    def values(self, path: Path, cells: list[Any]) -> list[Any] | None:
        """Return ``cells``, None if one is missing; raise ``TableError`` if all are needed.

        Bytes become texts. Those that are none, and several values, are refused in any case.
        """
        cells = [decode_cell(cell) if isinstance(cell, bytes) else cell for cell in cells]
        for row, cell in enumerate(cells, 1):
            if isinstance(cell, list | dict):
                raise TableError(
                    f"row {row} of {path} has several values for its {self.option} (column "
                    f"{self.name!r}): write one."
                )
            if isinstance(cell, bytes):
                raise TableError(
                    f"row {row} of {path} has bytes that are no text in UTF-8 for its "
                    f"{self.option} (column {self.name!r}): write a text or a number."
                )
        if self.allowed:
            return cells
        gaps = [row for row, cell in enumerate(cells, 1) if is_missing(cell)]
        if not gaps:
            return cells
        if not self.needed:
            return None
        which, remedy = f"row {gaps[0]} of {path} has", "fill it in or drop the row"
        if len(gaps) > 1:
            which = f"{len(gaps):,} rows of {path}, the first of them row {gaps[0]}, have"
            remedy = "fill them in or drop the rows"
        where = f"(column {self.name!r})"
        raise TableError(f"{which} no {self.option} {where}: {remedy}{self.gap}.")


def decode_cell(cell: bytes) -> str | bytes:
    """Return bytes in UTF-8 as the text that they are; others stay what they are."""
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return cell


def strip_name(name: Any) -> Any:
    """Return the name of a domain without blanks around it, unless it has nothing else."""
    return name.strip() or name if isinstance(name, str) else name


def tidy_domains(names: Sequence[Any]) -> list[Any]:
    """Return the names of domains without blanks around them; warn of names that look alike."""
    tidy = [strip_name(name) for name in names]
    texts = {name for name in names if isinstance(name, str)}
    for kind, alike, done in (
        (
            "blanks around them",
            str.strip,
            "are taken for one domain: give them other names if they are two",
        ),
        (
            "upper and lower case",
            str.casefold,
            "are taken for different domains: write them in one way if they are one",
        ),
    ):
        by_key: dict[str, list[str]] = {}
        for text in sorted(texts):
            by_key.setdefault(alike(text), []).append(text)
        if same := next((group for group in by_key.values() if len(group) > 1), None):
            warnings.warn(
                f"the domain names {quoted(same)} differ only in {kind}, and {done}.",
                stacklevel=3,
            )
        texts = {text.strip() for text in texts}
    return tidy


def check_roles(roles: Sequence[Role]) -> None:
    """Raise ``TableError`` if two roles name the same column."""
    for one, other in combinations(roles, 2):
        if one.name == other.name:
            raise TableError(
                f"{one.option} and {other.option} are both {one.name!r}: name two columns."
            )


@dataclass(frozen=True)
class ColumnChoice:
    """Columns of a table that a user named: those to use, to leave out, that are categories."""

    features: tuple[str, ...] | None = None  # None for all
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    id: str | None = None

    def make_features(self) -> TableFeatures:
        """Return what makes features of the columns, not yet fitted."""
        # Takes scikit-learn, whose import is half of the start of a worker that needs none.
        from regraft.estimators.table_features import TableFeatures

        return TableFeatures(features=self.features, drop=self.drop, categorical=self.categorical)

    def find_problems(self, columns: Columns) -> list[str]:
        """Return a sentence about each column that cannot be used."""
        try:
            studied = self.make_features().study(columns)
        except ValueError as error:
            return [str(error)]
        return [text for column in studied if (text := column.problem()) is not None]

    def find_conflicts(self, roles: Sequence[Role]) -> list[str]:
        """Return a sentence about each column that is named here, and is no feature anyway."""
        return [
            f"--{option} names {role.name!r}, which is the {role.option} column and no feature: "
            f"leave it out of --{option}."
            for option in ("features", "drop", "categorical")
            for role in roles
            if role.name in (getattr(self, option) or ())
        ]

    def check_unnamed(self, path: Path) -> None:
        """Raise ``TableError`` if columns are named, for a file whose features have no names."""
        for option in ("features", "drop", "categorical"):
            if getattr(self, option):
                raise TableError(
                    f"the features in {path} have no names: leave out --{option}, or pass a table "
                    "with named columns."
                )


def is_missing(cell: Any) -> bool:
    """Return whether a cell is empty or NaN, also as a text."""
    if isinstance(cell, str):
        return cell == "" or cell.lower() == "nan"
    return cell is None or bool(cell != cell)


def typed(cells: list[str]) -> NDArray[Any]:
    """Convert to whole numbers if every cell is one as Python writes it (not "007")."""
    try:
        numbers = [int(cell) for cell in cells]
    except ValueError:
        return np.array(cells)
    return as_array(numbers if [str(n) for n in numbers] == cells else cells)


def as_array(cells: Sequence[Any]) -> NDArray[Any]:
    """Make an array; whole numbers of more than 64 bits, which it would round, become texts."""
    if all(type(cell) is int for cell in cells) and not all(-_BEYOND <= n < _BEYOND for n in cells):
        return np.array([str(cell) for cell in cells])
    return np.array(cells)


def quoted(names: Sequence[str]) -> str:
    """Write the first and the last names, for a sentence."""
    texts = [repr(str(name)) for name in names]
    if len(texts) > _SHOWN:
        half = _SHOWN // 2
        texts[half:-half] = [f"{len(texts) - 2 * half} more"]
    return ", ".join(texts)
