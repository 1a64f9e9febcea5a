"""Inputs to embed: how many there are, and how they come in blocks."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from regraft.data.bank_writer import Input, Skipped
from regraft.data.columns import typed

T = TypeVar("T")
_MOST_NAMED = 8


@dataclass(frozen=True)
class Survey:
    """The inputs of a source, counted; names that are whole numbers are sorted as numbers."""

    rows: int
    classes: tuple[str | int, ...]
    domains: tuple[str | int, ...]
    digest: str  # the same for the same inputs in the same order
    notes: tuple[str, ...]  # what is odd, one sentence each


@dataclass(frozen=True)
class Block(Generic[T]):
    """Inputs that are embedded together."""

    content: T  # what the encoder takes; of no input if all were skipped
    inputs: tuple[Input, ...]  # (b,)
    labels: tuple[str, ...]  # (b,)
    domains: tuple[str, ...]  # (b,)
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


class Census:
    """A counter of inputs while they are listed."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()  # by domain and label
        self._digest = hashlib.sha256()

    def add(self, label: str, domain: str, identity: str | list[Any]) -> bytes:
        """Count an input and return its line in the list; ``identity`` is plain JSON data."""
        line = json.dumps([identity, label, domain]).encode() + b"\n"
        self._digest.update(line)
        self._counts[domain, label] += 1
        return line

    def survey(self, noun: str) -> Survey:
        """Summarize what was counted; ``noun`` names the inputs in sentences."""
        labels, domains = ({cell[i] for cell in self._counts} for i in (1, 0))
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
                f"there are no {noun} of class {', '.join(gaps[:_MOST_NAMED])}{more}: regraft fit "
                "needs every class in every domain, so add some, or leave out the class or the "
                "domain.",
            )
        rows = self._counts.total()
        return Survey(rows, _sorted(labels), _sorted(domains), self._digest.hexdigest(), notes)


def _sorted(names: set[str]) -> tuple[str | int, ...]:
    return tuple(np.unique(typed(sorted(names))).tolist())
