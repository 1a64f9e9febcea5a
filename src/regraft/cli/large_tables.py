"""Commands on tables that are read in parts: from disk, or by workers of a Ray cluster."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regraft.cli.option_groups import EngineSettings, TableColumns
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.data.columns import ColumnChoice
    from regraft.data.labelled import LabelledTable
    from regraft.data.row_engines import LargeTable
    from regraft.estimators.cro import CROClassifier


@contextmanager
def open_large(
    session: Session,
    data: Path,
    columns: TableColumns,
    settings: EngineSettings,
) -> Iterator[LargeTable]:
    """Count the rows of a table, and read a sample of them."""
    from regraft.data.row_engines import open_engine, open_large_table
    from regraft.data.row_files import open_row_files
    from regraft.estimators.streamed import SAMPLE_ROWS

    memory, choice = settings.memory_bytes, columns.choose()
    assert settings.engine is not None
    files = open_row_files(data, columns.label, columns.domain)
    if files.is_bank:
        choice.check_unnamed(data)
    opened = open_engine(
        settings.engine,
        files,
        memory=memory,
        address=settings.address,
        workers=settings.workers,
    )
    with opened as engine:
        with session.working(f"reading {data}"):
            table = open_large_table(engine, choice, SAMPLE_ROWS)
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
    columns: TableColumns,
    settings: EngineSettings,
) -> LargeSample:
    """Fit ``model`` on all rows; a table that is not larger than a sample is fitted in memory."""
    from regraft.estimators.streamed import check_streamed, fit_on_rows

    check_streamed(model)
    with open_large(session, data, columns, settings) as large:
        sampled = take_sample(large, data, columns.choose())
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
