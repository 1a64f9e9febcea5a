"""Commands on tables that are read in parts: from disk, or by workers of a Ray cluster."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.data.columns import ColumnChoice
    from regraft.data.labelled import LabelledTable
    from regraft.data.row_engines import LargeTable
    from regraft.estimators.cro import CROClassifier

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@dataclass(frozen=True)
class EngineSettings:
    """How a table is read in parts, as a user says it."""

    engine: str | None
    memory: str | None = None
    address: str | None = None
    workers: int | None = None

    @property
    def is_streamed(self) -> bool:
        """Whether it is read in parts at all; raises ``ValueError`` for what does not fit."""
        from regraft.cli.names import ROW_ENGINES

        if self.engine not in (None, *ROW_ENGINES):
            raise ValueError(f"engine is {self.engine!r}: pass {' or '.join(ROW_ENGINES)}.")
        for name, owner in (("memory", "local"), ("address", "ray"), ("workers", "ray")):
            if getattr(self, name) is not None and self.engine != owner:
                raise ValueError(f"--{name} is for --engine {owner}: add that, or leave it out.")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers is {self.workers}: pass 1 or more.")
        return self.engine is not None

    @property
    def memory_bytes(self) -> int | None:
        """The memory as a number."""
        if self.memory is None:
            return None
        found = re.fullmatch(r"([0-9]*\.?[0-9]+) ?([KMGT]B|)", self.memory.strip().upper())
        if found is None or float(found[1]) == 0:
            raise ValueError(f"memory is {self.memory!r}: pass a size such as 500MB or 2GB.")
        return int(float(found[1]) * _UNITS[found[2]])


@contextmanager
def open_large(
    session: Session,
    data: Path,
    label: str,
    domain: str,
    columns: ColumnChoice,
    settings: EngineSettings,
) -> Iterator[LargeTable]:
    """Count the rows of a table, and read a sample of them."""
    from regraft.data.row_engines import open_engine, open_large_table
    from regraft.data.row_files import open_row_files
    from regraft.estimators.streamed import SAMPLE_ROWS

    memory = settings.memory_bytes
    assert settings.engine is not None
    files = open_row_files(data, label, domain)
    if files.is_bank:
        columns.check_unnamed(data)
    opened = open_engine(
        settings.engine,
        files,
        memory=memory,
        address=settings.address,
        workers=settings.workers,
    )
    with opened as engine:
        with session.working(f"reading {data}"):
            table = open_large_table(engine, columns, SAMPLE_ROWS)
        yield table


@dataclass(frozen=True)
class LargeSample:
    """The sample of a large table, and what is known of all its rows."""

    table: LabelledTable
    cells: Mapping[str, Mapping[str, int]]  # rows of each domain and class
    numbers: list[int] | None  # of the sample's rows, from 0; None if it is the whole table

    @property
    def n_rows(self) -> int:
        """Number of all rows."""
        return sum(n for counts in self.cells.values() for n in counts.values())


def fit_large(
    session: Session,
    model: CROClassifier,
    data: Path,
    label: str,
    domain: str,
    columns: ColumnChoice,
    settings: EngineSettings,
) -> LargeSample:
    """Fit ``model`` on all rows; a table that is not larger than a sample is fitted in memory."""
    from regraft.estimators.streamed import check_streamed, fit_on_rows

    check_streamed(model)
    with open_large(session, data, label, domain, columns, settings) as large:
        sampled = take_sample(large, data, columns)
        rows, sample = large.rows, large.sample
        warn_of_small_cells(large.cells)
        with session.working(f"fitting {rows.n_rows} rows of {sampled.table.describe_features()}"):
            if large.is_whole:
                model.fit(sample.X, sample.y, sample.domain, on_round=session.round)
            else:
                session.note(
                    f"{len(sample.y)} rows choose the regularization and the groups; all "
                    f"{rows.n_rows} rows decide the head and its certificate."
                )
                fit_on_rows(model, sample, rows, large.counts, on_round=session.round)
    return sampled


def take_sample(large: LargeTable, data: Path, columns: ColumnChoice) -> LargeSample:
    """Return the sample as a table, whose rows are named by their numbers or ids."""
    import numpy as np

    from regraft.data.banks import is_bank, read_encoder
    from regraft.data.labelled import LabelledTable

    sample, raw = large.sample, None if isinstance(large.raw, np.ndarray) else large.raw
    names = None
    if raw is not None and columns.id is not None:
        names = raw[columns.id]
    elif not large.is_whole:
        names = np.array([f"row {number + 1}" for number in sample.numbers.tolist()])
    table = LabelledTable(
        sample.X,
        sample.y,
        sample.domain,
        id=names,
        features=large.features,
        encoder=read_encoder(data) if is_bank(data) else None,
        columns=raw,
        preprocessing=large.preprocessing,
    )
    numbers = None if large.is_whole else sample.numbers.tolist()
    return LargeSample(table, large.cells, numbers)


def warn_of_small_cells(rows: Mapping[str, Mapping[str, int]]) -> None:
    """Warn of the smallest class of a source if it has fewer rows than the method needs."""
    from regraft.premises.sample_size import LEAST_CELL_ROWS

    cells = [(n, label, name) for name, counts in rows.items() for label, n in counts.items()]
    small = sorted(cell for cell in cells if cell[0] < LEAST_CELL_ROWS)
    if small:
        n, label, name = small[0]
        others = f", and {len(small) - 1} more are as small" if len(small) > 1 else ""
        warnings.warn(
            f"class {label} of source {name} has {n} rows{others}: with fewer than "
            f"{LEAST_CELL_ROWS} in each class of a source, what is found is mostly noise, and "
            "plain logistic regression is safer.",
            stacklevel=2,
        )
