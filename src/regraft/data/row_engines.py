"""Engines that hold the rows of a large table: this process, or actors of a Ray cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regraft.core.domains import check_kinds, is_target
from regraft.core.row_sums import (
    BLOCK_ROWS,
    RowFolds,
    RowFunction,
    RowMap,
    Sums,
    add_in_order,
)
from regraft.data.columns import ColumnChoice, TableError, tidy_domains
from regraft.data.row_files import RawRows, RowFiles, join_blocks
from regraft.data.row_shards import (
    Cells,
    DrawnRows,
    ModelFeatures,
    RowPlan,
    RowShard,
    make_features,
)
from regraft.estimators.column_kinds import ColumnProblems, join_problems
from regraft.estimators.pipelines import Model
from regraft.estimators.streamed import SampledRows, sampling_rates
from regraft.estimators.table_features import TableFeatures
from regraft.support.ray_clusters import connect, count_workers, fetch, import_ray

ENGINES = ("local", "ray")
_COLUMNS = "the label column", "the domain column"
_PIECE = 4  # blocks
_SHARE_FOR_ROWS = 0.4  # of the memory; the sample and its fit need the rest


class RowEngine(Protocol):
    """Shards of a table, wherever they are."""

    def survey(self) -> list[Cells]:
        """Count the rows of each domain and label, shard by shard."""
        ...

    def draw(self, rates: dict[tuple[Any, Any], float]) -> list[DrawnRows]:
        """Draw rows at the rate of their domain and label."""
        ...

    def take(self, step: int) -> list[DrawnRows]:
        """Return every so many-th row of the table, shard by shard."""
        ...

    def unknown(self, plan: RowPlan) -> list[Counter[str]]:
        """Count rows with categories that were not seen, by column, shard by shard."""
        ...

    def sum(self, plan: RowPlan, function: RowFunction, arguments: tuple[Any, ...]) -> Sums:
        """Add what ``function`` returns for each chunk of rows."""
        ...


@dataclass(frozen=True)
class EngineRows:
    """The rows of an engine under a plan, as :class:`~regraft.core.row_sums.RowSums`."""

    engine: RowEngine
    plan: RowPlan
    n_rows: int

    def sum(self, function: RowFunction, *arguments: Any) -> Sums:
        """Apply ``function`` to each chunk of rows, and add what it returns."""
        return self.engine.sum(self.plan, function, arguments)

    def count_unknown(self) -> Counter[str]:
        """Count rows with categories that the preprocessing has not seen, by column."""
        return sum(self.engine.unknown(self.plan), Counter())

    def with_folds(self, folds: RowFolds) -> Self:
        """Return the same rows, dealt to folds."""
        return replace(self, plan=replace(self.plan, folds=folds))

    def map(self, function: Callable[..., Tensor], *arguments: Any) -> Self:
        """Return rows (b, k) that ``function`` makes of each chunk; they are kept."""
        return replace(self, plan=replace(self.plan, mapped=RowMap(function, arguments)))


@dataclass(frozen=True)
class LargeTable:
    """A table whose rows stay where they are, and a sample of them."""

    rows: EngineRows
    counts: NDArray[np.int64]  # (K, C) rows of each domain and class
    cells: dict[str, dict[str, int]]  # the same by name
    sample: SampledRows
    raw: RawRows  # the sample as it is in the files
    features: tuple[str, ...]  # names of the features; empty for a bank
    preprocessing: TableFeatures | None  # learnt from the sample
    unknown: Counter[str]  # rows of the sample with categories that a model has not seen

    def count_unknown(self) -> Counter[str]:
        """Count rows with categories that the preprocessing has not seen, by column."""
        return self.unknown if self.is_whole else self.rows.count_unknown()

    @property
    def is_whole(self) -> bool:
        """Whether the sample is all rows."""
        return len(self.sample.numbers) == self.rows.n_rows


def open_large_table(
    engine: RowEngine, choice: ColumnChoice, most: int, model: Model | None = None
) -> LargeTable:
    """Count the rows of an engine, draw about ``most``, and learn how to make features of them.

    With a ``model``, the features are those that its head takes.
    """
    cells = _survey(engine)
    labels, domains = (_sort({cell[i] for cell in cells}) for i in (1, 0))
    if is_target(np.array(domains)).any():
        raise TableError(
            "a domain is a negative number, which stands for a target: leave out such rows."
        )
    counts = np.array([[cells[d, c] for c in labels] for d in domains], np.int64)
    try:
        check_kinds(counts.sum(axis=0), counts.sum(axis=1), _COLUMNS)
    except ValueError as error:
        raise TableError(str(error)) from None
    rates = dict(
        zip(
            ((d, c) for d in domains for c in labels),
            sampling_rates(counts, most).flatten().tolist(),
            strict=True,
        )
    )
    drawn = engine.draw(rates)
    raw = join_blocks([part.features for part in drawn if part.features is not None])
    domain = np.array([d for part in drawn for d in part.domains])
    before = None
    if model is None and not isinstance(raw, np.ndarray):
        kept = choice if choice.id is None else replace(choice, drop=(*choice.drop, choice.id))
        before = kept.make_features()
        try:
            before.fit(raw, sample_domain=domain)
        except ColumnProblems as error:
            raise TableError(join_problems(error.problems, "the table")) from None
    made_by = before if model is None else ModelFeatures(model)
    X, unknown = make_features(made_by, raw)
    sample = SampledRows(
        X,
        np.array([c for part in drawn for c in part.labels]),
        domain,
        np.concatenate([part.numbers for part in drawn]),
    )
    plan = RowPlan(tuple(labels), tuple(domains), made_by)
    named = {str(d): {str(c): cells[d, c] for c in labels if cells[d, c]} for d in domains}
    features = () if before is None else tuple(before.get_feature_names_out())
    rows = EngineRows(engine, plan, int(counts.sum()))
    return LargeTable(rows, counts, named, sample, raw, features, before, unknown)


@dataclass(frozen=True)
class LargeTarget:
    """A table without labels whose rows stay where they are, and every so many-th of them."""

    rows: EngineRows
    domains: list[Any]  # that occur; [None] if the table does not name them
    taken: DrawnRows
    X: NDArray[np.floating[Any]]  # (m, d) features of these

    def count_unknown(self) -> Counter[str]:
        """Count rows with categories that the model has not seen, by column."""
        return self.rows.count_unknown()


def open_target(engine: RowEngine, n_rows: int, step: int, model: Model) -> LargeTarget:
    """Take every ``step``-th of ``n_rows`` rows of an engine, as the head of a model sees them."""
    cells = _survey(engine)
    domains, labels = (_sort({cell[i] for cell in cells}) for i in (0, 1))
    parts = [part for part in engine.take(step) if part.features is not None]
    taken = DrawnRows(
        np.concatenate([part.numbers for part in parts]),
        join_blocks([part.features for part in parts if part.features is not None]),
        [],
        [d for part in parts for d in part.domains],
    )
    assert taken.features is not None  # the first row is always taken
    plan = RowPlan(tuple(labels), tuple(domains), ModelFeatures(model))
    rows = EngineRows(engine, plan, n_rows)
    X, _ = make_features(plan.preprocessing, taken.features)
    return LargeTarget(rows, domains, taken, X)


def _survey(engine: RowEngine) -> Cells:
    """Count the rows of each domain and label; as in memory, blanks around names do not count."""
    written: Cells = sum(engine.survey(), Counter())
    names = list(dict.fromkeys(domain for domain, _ in written))
    tidy = dict(zip(names, tidy_domains(names), strict=True))
    cells: Cells = Counter()
    for (domain, label), n in written.items():
        cells[tidy[domain], label] += n
    return cells


def _sort(values: set[Any]) -> list[Any]:
    """Return values in the order that numpy sorts them."""
    ordered: list[Any] = np.unique(np.array(list(values))).tolist()
    return ordered


class LocalShard:
    """All rows in this process: in memory if they fit, else read from disk chunk by chunk."""

    def __init__(self, files: RowFiles, memory: int | None = None, device: str = "cpu") -> None:
        fits = memory is not None and files.n_bytes <= _SHARE_FOR_ROWS * memory
        self._shard = RowShard(files, 0, files.n_rows, in_memory=fits, device=device)

    def survey(self) -> list[Cells]:
        """Count the rows of each domain and label."""
        return [self._shard.survey()]

    def draw(self, rates: dict[tuple[Any, Any], float]) -> list[DrawnRows]:
        """Draw rows at the rate of their domain and label."""
        return [self._shard.draw(rates)]

    def take(self, step: int) -> list[DrawnRows]:
        """Return every so many-th row of the table."""
        return [self._shard.take(step)]

    def unknown(self, plan: RowPlan) -> list[Counter[str]]:
        """Count rows with categories that were not seen, by column."""
        return [self._shard.unknown(plan)]

    def sum(self, plan: RowPlan, function: RowFunction, arguments: tuple[Any, ...]) -> Sums:
        """Add what ``function`` returns for each chunk of rows."""
        return add_in_order(self._shard.iterate_sums(plan, function, arguments))


class RayShards:
    """Actors of a Ray cluster, each with a run of blocks of the rows in its memory.

    With ``device`` "cuda", each has a GPU of its own. An actor that dies is started anew by Ray,
    reads its rows again, and repeats the step.
    """

    def __init__(self, files: RowFiles, workers: int | None = None, device: str = "cpu") -> None:
        self._ray = import_ray()
        blocks = -(-files.n_rows // BLOCK_ROWS)
        gpus = int(device != "cpu")
        count = max(1, min(count_workers(workers, gpu=bool(gpus)), blocks))
        bounds = [blocks * i // count * BLOCK_ROWS for i in range(count)] + [files.n_rows]
        actor = self._ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=-1)(
            RowShard
        )
        self.actors = [
            actor.remote(files, bounds[i], bounds[i + 1], in_memory=True, device=device)
            for i in range(count)
        ]
        # A step is asked for in pieces, so that a worker that dies repeats a piece only.
        self._pieces = [
            (actor, slice(first, first + _PIECE))
            for actor, start, stop in zip(self.actors, bounds, bounds[1:], strict=False)
            for first in range(0, -(-(stop - start) // BLOCK_ROWS), _PIECE)
        ]
        self.bytes_received = 0  # by this process, of sums
        self._plans: dict[int, tuple[RowPlan, Any]] = {}

    def survey(self) -> list[Cells]:
        """Count the rows of each domain and label, shard by shard."""
        counted: list[Cells] = fetch([actor.survey.remote() for actor in self.actors])
        return counted

    def draw(self, rates: dict[tuple[Any, Any], float]) -> list[DrawnRows]:
        """Draw rows at the rate of their domain and label."""
        drawn: list[DrawnRows] = fetch([actor.draw.remote(rates) for actor in self.actors])
        return drawn

    def take(self, step: int) -> list[DrawnRows]:
        """Return every so many-th row of the table, shard by shard."""
        taken: list[DrawnRows] = fetch([actor.take.remote(step) for actor in self.actors])
        return taken

    def unknown(self, plan: RowPlan) -> list[Counter[str]]:
        """Count rows with categories that were not seen, by column, shard by shard."""
        shared = self._share(plan)
        counted: list[Counter[str]] = fetch([each.unknown.remote(shared) for each in self.actors])
        return counted

    def sum(self, plan: RowPlan, function: RowFunction, arguments: tuple[Any, ...]) -> Sums:
        """Add what ``function`` returns for each chunk of rows."""
        shared = self._share(plan)
        sent = self._ray.put(arguments)
        step = [actor.sums.remote(shared, function, sent, blocks) for actor, blocks in self._pieces]
        blocks = list(chain.from_iterable(fetch(step)))
        self.bytes_received += sum(part.nbytes for block in blocks for part in block)
        return add_in_order(blocks)

    def _share(self, plan: RowPlan) -> Any:
        """Send a plan to the cluster, once."""
        if id(plan) not in self._plans:
            self._plans[id(plan)] = plan, self._ray.put(plan)
        return self._plans[id(plan)][1]


@contextmanager
def open_engine(
    name: str,
    files: RowFiles,
    *,
    memory: int | None,
    address: str | None,
    workers: int | None,
    device: str = "cpu",
) -> Iterator[RowEngine]:
    """Hold the rows inside; afterwards a Ray that was started here is stopped."""
    if name == "local":
        yield LocalShard(files, memory, device)
        return
    if name != "ray":
        raise ValueError(f"engine is {name!r}: pass {' or '.join(ENGINES)}.")
    with connect(address):
        yield RayShards(files, workers, device)
