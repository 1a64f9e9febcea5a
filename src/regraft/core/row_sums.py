"""Sums over the rows of a table of any length, wherever its rows lie.

Rows are cut into chunks of one size, which are added within blocks of one size, and the blocks are
added in their order. So a sum has the same value on one machine and on many.
"""

from __future__ import annotations

import mmap
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regraft.support.memory_map import find_mapping, released

CHUNK_ROWS = 2048  # whose numbers stay in a core's cache
BLOCK_ROWS = 64 * CHUNK_ROWS
_USUAL_WIDTH = 64
_ALL = slice(None)

Sums = tuple[Tensor, ...]


@dataclass(frozen=True)
class RowChunk:
    """Consecutive rows of a table, in memory."""

    X: Tensor  # (b, d) as precise as the table
    y: Tensor  # (b,) index of the class
    source: Tensor  # (b,) index of the source
    head_fold: Tensor  # (b,) the fold of the heads that have not seen the row
    group_fold: Tensor  # (b,) the same for the models of hidden groups

    def to(self, device: str) -> RowChunk:
        """Return the chunk on ``device``, with indices of 64 bits, which torch asks for.

        They travel as short as they are held.
        """
        moved: RowChunk = move(self, device)
        short = moved.y, moved.source, moved.head_fold, moved.group_fold
        return RowChunk(moved.X, *(index.long() for index in short))


RowFunction = Callable[..., Sums]  # of a chunk and further arguments; it must be importable


@dataclass(frozen=True)
class RowMap:
    """What makes other rows (b, k) of chunks."""

    function: Callable[..., Tensor]
    arguments: tuple[Any, ...]
    key: str = field(default_factory=lambda: uuid.uuid4().hex)  # tells maps apart in any process


class RowSums(Protocol):
    """Rows that are never seen together, only sums over them."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def sum(self, function: RowFunction, *arguments: Any) -> Sums:
        """Apply ``function`` to each chunk of rows, and add what it returns."""
        ...

    def with_folds(self, folds: RowFolds) -> Self:
        """Return the same rows, dealt to folds."""
        ...

    def map(self, function: Callable[..., Tensor], *arguments: Any) -> Self:
        """Return rows (b, k) that ``function`` makes of each chunk; they are kept."""
        ...


@dataclass(frozen=True)
class RowFolds:
    """Folds of some rows, by number; all others are dealt by a hash of their numbers."""

    numbers: NDArray[np.int64]  # (m,) sorted
    head: NDArray[np.uint8]  # (m,)
    group: NDArray[np.uint8]  # (m,)
    n_head: int
    n_group: int

    def deal(self, first: int, n: int) -> tuple[Tensor, Tensor]:
        """Return the folds (n,) of heads and of groups, for the rows from ``first`` on.

        They are numbers of 8 bits.
        """
        hashed = hash_numbers(np.arange(first, first + n, dtype=np.uint64))
        head = (hashed % np.uint64(self.n_head)).astype(np.uint8)
        group = ((hashed >> np.uint64(32)) % np.uint64(self.n_group)).astype(np.uint8)
        known = slice(*np.searchsorted(self.numbers, (first, first + n)).tolist())
        place = self.numbers[known] - first
        head[place], group[place] = self.head[known], self.group[known]
        return torch.from_numpy(head), torch.from_numpy(group)


NO_FOLDS = RowFolds(np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.uint8), 1, 1)


def hash_numbers(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return well-mixed numbers (n,), the same on every machine (the finalizer of SplitMix64)."""
    with np.errstate(over="ignore"):
        mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@dataclass(frozen=True)
class RowTable:
    """Consecutive rows that one process holds, in memory or in a memory-mapped file."""

    X: NDArray[np.floating[Any]]  # (n, d)
    y: NDArray[np.integer[Any]]  # (n,)
    source: NDArray[np.integer[Any]]  # (n,)
    first: int = 0  # number of the first row: a multiple of BLOCK_ROWS
    device: str = "cpu"  # where sums are computed

    @cached_property
    def _mapping(self) -> mmap.mmap | None:
        return find_mapping(self.X)

    def sums(
        self,
        folds: RowFolds,
        function: RowFunction,
        arguments: tuple[Any, ...],
        blocks: slice = _ALL,
    ) -> Iterator[Sums]:
        """Yield the sums of ``function`` over each block of rows, or over some of the blocks."""
        # Rows of few numbers come in larger chunks: a chunk has a cost of its own. On a GPU that
        # cost is large, and there is no cache to stay in.
        size = CHUNK_ROWS * max(1, _USUAL_WIDTH // max(self.X.shape[1], 1))
        size = size if self.device == "cpu" else BLOCK_ROWS
        given = move(arguments, self.device)
        for start in range(0, len(self.y), BLOCK_ROWS)[blocks]:
            stop = min(start + BLOCK_ROWS, len(self.y))
            chunks = (slice(first, min(first + size, stop)) for first in range(start, stop, size))
            sums = add_in_order(
                function(self._chunk(rows, folds).to(self.device), *given)
                for rows in released(chunks, self._mapping)
            )
            yield move(sums, "cpu")

    def map(
        self, made: RowMap, allocate: Callable[[tuple[int, int], type], NDArray[Any]] = np.empty
    ) -> RowTable:
        """Return what is made of the rows, in memory that ``allocate`` gives."""
        X: NDArray[Any] | None = None
        parts = (
            slice(first, min(first + CHUNK_ROWS, len(self.y)))
            for first in range(0, len(self.y), CHUNK_ROWS)
        )
        for rows in released(parts, self._mapping):
            part = made.function(self._chunk(rows, NO_FOLDS).to("cpu"), *made.arguments).numpy()
            if X is None:
                X = allocate((len(self.y), part.shape[1]), np.float64)
            X[rows] = part
        assert X is not None
        return replace(self, X=X)

    def _chunk(self, rows: slice, folds: RowFolds) -> RowChunk:
        # What is in memory is not copied: no function writes into its chunk.
        is_here = self._mapping is None and self.X.flags.writeable
        X = torch.from_numpy(self.X[rows] if is_here else np.array(self.X[rows]))
        y, source = (torch.from_numpy(np.array(column[rows])) for column in (self.y, self.source))
        return RowChunk(X, y, source, *folds.deal(self.first + rows.start, len(y)))


def move(value: Any, device: str) -> Any:
    """Return a value whose tensors are on ``device``, also within tuples and dataclasses."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, tuple):
        return tuple(move(each, device) for each in value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: move(getattr(value, each.name), device) for each in fields(value)}
        return replace(value, **parts)
    return value


def add_in_order(parts: Iterable[Sums]) -> Sums:
    """Add sums one after the other."""
    iterator = iter(parts)
    totals = [part.clone() for part in next(iterator)]
    for part in iterator:
        for total, term in zip(totals, part, strict=True):
            total += term
    return tuple(totals)
