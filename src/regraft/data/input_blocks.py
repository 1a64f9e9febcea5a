"""Inputs to embed: how many there are, and how they come in blocks."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from regraft.data.bank_writer import COLUMNS, Input, Skipped
from regraft.data.columns import Role, typed
from regraft.data.table_rows import read_cell

T = TypeVar("T")
_MOST_NAMED = 8


@dataclass(frozen=True)
class Survey:
    """The inputs of a source, counted; names that are whole numbers are sorted as numbers."""

    rows: int
    classes: tuple[str | int, ...] | None  # None without labels
    domains: tuple[str | int, ...] | None  # None without domains
    digest: str  # the same for the same inputs in the same order
    notes: tuple[str, ...]  # what is odd, one sentence each

    @property
    def columns(self) -> list[str]:
        """The columns that a bank of these inputs has beside its features."""
        named = zip(COLUMNS, (self.classes, self.domains), strict=True)
        return [column for column, names in named if names is not None]


@dataclass(frozen=True)
class Block(Generic[T]):
    """Inputs that are embedded together."""

    content: T  # what the encoder takes; of no input if all were skipped
    inputs: tuple[Input, ...]  # (b,)
    labels: tuple[str | None, ...]  # (b,), all None without labels
    domains: tuple[str | None, ...]  # (b,), all None without domains
    skipped: tuple[Skipped, ...] = ()


class InputSource(ABC, Generic[T]):
    """A source of inputs in a fixed order; what cannot be read raises an error in one sentence."""

    kind: str
    block_rows: int  # inputs in a block, the last one apart
    may_skip = False  # whether inputs that cannot be read are left out

    @abstractmethod
    def survey(self, folder: Path) -> Survey:
        """Count all inputs, and keep in ``folder`` what ``blocks`` needs."""

    @abstractmethod
    def blocks(self, folder: Path, first: int) -> Iterator[Block[T]]:
        """Yield all inputs but the ``first`` ones, in blocks that are read a little ahead."""

    @abstractmethod
    def parts(self, folder: Path, first: int) -> Iterator[Any]:
        """Yield the same blocks before they are read: little, and enough for ``read``."""

    @abstractmethod
    def read(self, part: Any) -> Block[T]:
        """Read a block, on any machine that sees the inputs; ``check`` says what is wrong."""

    def check(self, block: Block[Any]) -> None:
        """Raise ``ValueError``, or warn, if inputs of the block could not be read."""


class Tags:
    """The columns of labels and of domains in a table of inputs; None for one that is not read."""

    def __init__(self, label: str | None, domain: str | None) -> None:
        self._roles = [
            None if name is None else Role(name, option)
            for name, option in ((label, "label"), (domain, "domain"))
        ]
        self.roles = [role for role in self._roles if role is not None]

    def read(self, cells: Sequence[Any], where: str) -> tuple[str | None, str | None]:
        """Return label and domain of a row with the ``cells`` of the roles, None for no column."""
        given = iter(cells)
        label, domain = (
            None if role is None else read_cell(next(given), role, where) for role in self._roles
        )
        return label, domain


class Census:
    """A counter of inputs while they are listed."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str | None, str | None]] = Counter()  # by domain and label
        self._digest = hashlib.sha256()

    def add(self, label: str | None, domain: str | None, identity: str | list[Any]) -> bytes:
        """Count an input and return its line in the list; ``identity`` is plain JSON data.

        The label is None for all inputs or for none, and so is the domain.
        """
        line = json.dumps([identity, label, domain]).encode() + b"\n"
        self._digest.update(line)
        self._counts[domain, label] += 1
        return line

    def survey(self, noun: str) -> Survey:
        """Summarize what was counted; ``noun`` names the inputs in sentences."""
        labels, domains = (
            {name for cell in self._counts if (name := cell[i]) is not None} for i in (1, 0)
        )
        gaps = [
            f"{label!r} in {domain!r}"
            for domain in sorted(domains)
            for label in sorted(labels)
            if not self._counts[domain, label]
        ]
        notes: tuple[str, ...] = ()
        if gaps:
            more = f" and {len(gaps) - _MOST_NAMED} more" if len(gaps) > _MOST_NAMED else ""
            notes = (
                f"there are no {noun} of class {', '.join(gaps[:_MOST_NAMED])}{more}: that "
                "domain says nothing about the class, so add some if you can.",
            )
        rows = self._counts.total()
        return Survey(rows, _sorted(labels), _sorted(domains), self._digest.hexdigest(), notes)


def _sorted(names: set[str]) -> tuple[str | int, ...] | None:
    return tuple(np.unique(typed(sorted(names))).tolist()) if names else None
