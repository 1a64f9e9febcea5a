"""A shard of a large table: its rows are read once, and answer questions by sums."""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from regraft.core.row_sums import NO_FOLDS, RowFolds, RowFunction, RowMap, RowTable, Sums
from regraft.data.banks import open_bank
from regraft.data.columns import TableError, strip_name
from regraft.data.model_features import features_for
from regraft.data.row_files import RawRows, RowFiles, count_block, join_blocks, take_block
from regraft.data.tables import FeatureTable
from regraft.estimators.column_kinds import ColumnProblems, join_problems
from regraft.estimators.pipelines import Model, split_model
from regraft.estimators.streamed import draw_rows
from regraft.estimators.table_features import UnknownCategoryWarning
from regraft.support.files import explaining_full_disk

Cells = Counter[tuple[Any, Any]]  # rows of each domain and label
_ROWS_AT_ONCE = 2**18  # whose labels and domains are looked at


class Preprocessing(Protocol):
    """What makes features of rows as they are in the files."""

    def transform(self, X: Any, /) -> NDArray[np.floating[Any]]:
        """Return the features (b, d) of a block of rows."""
        ...


@dataclass(frozen=True)
class ModelFeatures:
    """The features that a model's head takes."""

    model: Model

    @property
    def are_given(self) -> bool:
        """Whether the head takes the columns of a bank as they are."""
        return split_model(self.model)[0] is None

    def transform(self, X: Any, /) -> NDArray[np.floating[Any]]:
        """Return the features (b, d) of a block of rows."""
        names = tuple(X) if isinstance(X, Mapping) else ()
        return features_for(self.model, FeatureTable(X, None, None, features=names))


@dataclass(frozen=True)
class RowPlan:
    """What all shards must know to make the same features and folds of their rows."""

    classes: tuple[Any, ...]
    domains: tuple[Any, ...]
    preprocessing: Preprocessing | None  # None for a bank
    folds: RowFolds = NO_FOLDS
    mapped: RowMap | None = None  # what is made of the features


@dataclass(frozen=True)
class DrawnRows:
    """Some rows of a shard, as they are in the files."""

    numbers: NDArray[np.int64]  # (m,)
    features: RawRows | None  # None for no rows
    labels: list[Any]
    domains: list[Any]


class RowShard:
    """The rows of some files from ``start`` to ``stop``.

    They are held in memory if ``in_memory``, else in a temporary file, or in the bank itself. Sums
    are computed on ``device``. All that it holds follows from the files and from what it is asked,
    so a shard that is lost is made again, and gives the same answers.
    """

    def __init__(
        self,
        files: RowFiles,
        start: int,
        stop: int,
        in_memory: bool = True,
        device: str = "cpu",
    ) -> None:
        self._files, self._start, self._stop, self._in_memory = files, start, stop, in_memory
        self._device = device
        self._tables: dict[tuple[Any, ...], RowTable] = {}
        self._unknown = Counter[str]()

    @cached_property
    def _labels(self) -> tuple[NDArray[Any], list[Any]]:
        return self._files.read_codes("label", self._start, self._stop)

    @cached_property
    def _written_domains(self) -> tuple[NDArray[Any], list[Any]]:
        return self._files.read_codes("domain", self._start, self._stop)

    @property
    def _domains(self) -> tuple[NDArray[Any], list[Any]]:
        codes, names = self._written_domains
        return codes, [strip_name(name) for name in names]

    def survey(self) -> Cells:
        """Count the rows of each domain, by its name as it is written, and label."""
        (y, labels), (s, domains) = self._labels, self._written_domains
        sizes = np.zeros(len(domains) * len(labels), np.int64)
        for rows in _ranges(len(y)):
            cells = s[rows].astype(np.int64) * len(labels) + y[rows]
            sizes += np.bincount(cells, minlength=len(sizes))
        return Counter(
            {
                (domains[cell // len(labels)], labels[cell % len(labels)]): int(sizes[cell])
                for cell in sizes.nonzero()[0].tolist()
            }
        )

    def draw(self, rates: dict[tuple[Any, Any], float]) -> DrawnRows:
        """Draw rows at the rate of their domain and label."""
        (y, labels), (s, domains) = self._labels, self._domains
        table = np.array([[rates.get((d, c), 0.0) for c in labels] for d in domains])
        drawn = np.empty(len(y), np.bool_)
        for rows in _ranges(len(y)):
            drawn[rows] = draw_rows(self._start + rows.start, table[s[rows], y[rows]])
        return self._take(drawn)

    def take(self, step: int) -> DrawnRows:
        """Return every so many-th row of the table, from its first on."""
        taken = np.zeros(self._stop - self._start, np.bool_)
        taken[-self._start % step :: step] = True
        return self._take(taken)

    def _take(self, drawn: NDArray[np.bool_]) -> DrawnRows:
        (y, labels), (s, domains) = self._labels, self._domains
        numbers = np.flatnonzero(drawn)
        blocks, at = list[RawRows](), 0
        for block in self._files.read_features(self._start, self._stop):
            kept = drawn[at : at + count_block(block)]
            if kept.any():
                blocks.append(take_block(block, kept))
            at += len(kept)
        return DrawnRows(
            numbers + self._start,
            join_blocks(blocks) if blocks else None,
            [labels[i] for i in y[numbers].tolist()],
            [domains[i] for i in s[numbers].tolist()],
        )

    def unknown(self, plan: RowPlan) -> Counter[str]:
        """Count the rows with categories that the plan's preprocessing has not seen, by column."""
        self._table(replace(plan, mapped=None))
        return self._unknown

    def sums(
        self, plan: RowPlan, function: RowFunction, arguments: tuple[Any, ...], blocks: slice
    ) -> list[Sums]:
        """Return the sums of ``function`` over some blocks of rows."""
        return list(self.iterate_sums(plan, function, arguments, blocks))

    def iterate_sums(
        self,
        plan: RowPlan,
        function: RowFunction,
        arguments: tuple[Any, ...],
        blocks: slice = slice(None),
    ) -> Iterator[Sums]:
        """Yield the sums of ``function`` over each block of rows, or over some of the blocks."""
        return self._table(plan).sums(plan.folds, function, arguments, blocks)

    def _table(self, plan: RowPlan) -> RowTable:
        """Return the rows that a plan asks for; what was made once is kept."""
        key = plan.classes, plan.domains, plan.mapped and plan.mapped.key
        if key not in self._tables:
            if plan.mapped is None:
                self._tables[key] = self._make_table(plan)
            else:
                rows = self._table(replace(plan, mapped=None))
                self._tables[key] = rows.map(plan.mapped, self._allocate)
        return self._tables[key]

    def _make_table(self, plan: RowPlan) -> RowTable:
        y, s = (
            _recode(codes, np.array([known.index(value) for value in values], np.int16))
            for known, (codes, values) in (
                (plan.classes, self._labels),
                (plan.domains, self._domains),
            )
        )
        return RowTable(self._make_features(plan), y, s, self._start, self._device)

    def _make_features(self, plan: RowPlan) -> NDArray[np.floating[Any]]:
        n, before = self._stop - self._start, plan.preprocessing
        given = before is None or (isinstance(before, ModelFeatures) and before.are_given)
        if self._files.is_bank and not self._in_memory and given:
            return open_bank(self._files.files[0]).X[self._start : self._stop]
        X: NDArray[Any] | None = None
        at = 0
        unknown = Counter[str]()
        for block in self._files.read_features(self._start, self._stop):
            made, counts = make_features(before, block)
            unknown.update(counts)
            if X is None:
                X = self._allocate((n, made.shape[1]), np.float32)
            X[at : at + len(made)] = made
            at += len(made)
        assert X is not None
        self._unknown = unknown
        return X

    def _allocate(self, shape: tuple[int, int], kind: type) -> NDArray[Any]:
        if self._in_memory:
            return np.empty(shape, kind)
        # The file has no name by now: it is gone with the array, however the process ends.
        n_bytes = math.prod(shape) * np.dtype(kind).itemsize
        place = Path(tempfile.gettempdir()) / "rows of a table"
        with tempfile.TemporaryFile() as file, explaining_full_disk(place, n_bytes):
            if hasattr(os, "posix_fallocate"):  # else a full disk ends the process by a signal
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            return np.memmap(file, kind, "w+", shape=shape)


def _ranges(n: int) -> Iterator[slice]:
    """Yield ranges of ``n`` rows, so that temporary numbers of all rows are never in memory."""
    return (slice(start, min(start + _ROWS_AT_ONCE, n)) for start in range(0, n, _ROWS_AT_ONCE))


def _recode(codes: NDArray[Any], numbers: NDArray[np.int16]) -> NDArray[np.int16]:
    """Return the number (n,) that each of the codes (n,) stands for."""
    found = np.empty(len(codes), np.int16)
    for rows in _ranges(len(codes)):
        found[rows] = numbers[codes[rows]]
    return found


def make_features(
    preprocessing: Preprocessing | None, block: RawRows
) -> tuple[NDArray[np.floating[Any]], Counter[str]]:
    """Return the features (b, d) of rows as they are in the files; raise ``TableError``.

    Beside them, count by column the rows with categories that were not seen, which are zeros.
    """
    unknown = Counter[str]()
    if preprocessing is None:
        made = np.asarray(block)
    else:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UnknownCategoryWarning)
            try:
                made = preprocessing.transform(block)
            except ColumnProblems as error:
                raise TableError(join_problems(error.problems, "the table")) from None
        for each in caught:
            if isinstance(each.message, UnknownCategoryWarning):
                unknown.update(each.message.counts)
    if not np.isfinite(made).all():
        raise TableError("a feature is NaN or infinite: drop or fill in such rows.")
    return made, unknown
