"""Commands on tables that are read in parts: from disk, or by workers of a Ray cluster."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regraft.cli.option_groups import EngineSettings, TableColumns
from regraft.cli.session import Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regraft.data.columns import ColumnChoice
    from regraft.data.labelled import LabelledTable
    from regraft.data.row_engines import LargeTable, LargeTarget, RowEngine
    from regraft.data.row_files import RawRows, RowFiles
    from regraft.data.tables import FeatureTable
    from regraft.estimators.column_roles import ColumnRoles
    from regraft.estimators.cro import CROClassifier
    from regraft.estimators.group_audit import GroupAudit
    from regraft.estimators.pipelines import Model
    from regraft.estimators.placing import Placement


@contextmanager
def open_large(
    session: Session,
    data: Path,
    columns: TableColumns,
    settings: EngineSettings,
    model: Model | None = None,
    device: str = "cpu",
) -> Iterator[LargeTable]:
    """Count the rows of a table, and read a sample of them.

    With a ``model``, rows are read as its head sees them. Sums are computed on ``device``.
    """
    from regraft.data.row_engines import open_large_table
    from regraft.data.row_files import open_row_files
    from regraft.estimators.streamed import SAMPLE_ROWS

    choice = columns.choose()
    files = open_row_files(data, columns.label, columns.domain, columns.id_column)
    if files.is_bank:
        choice.check_unnamed(data)
    with _engine(files, settings, device) as engine:
        with session.working(f"reading {data}"):
            table = open_large_table(engine, choice, SAMPLE_ROWS, model)
        yield table


def _engine(
    files: RowFiles, settings: EngineSettings, device: str = "cpu"
) -> AbstractContextManager[RowEngine]:
    from regraft.data.row_engines import open_engine

    assert settings.engine is not None
    return open_engine(
        settings.engine,
        files,
        memory=settings.memory_bytes,
        address=settings.address,
        workers=settings.workers,
        device=device,
    )


def audit_large(
    session: Session,
    model: Model,
    data: Path,
    roles: ColumnRoles,
    id_column: str | None,
    settings: EngineSettings,
    prior_shift: float | None,
) -> GroupAudit:
    """Audit ``model`` on all rows; a table that is not larger than a sample is read as a whole.

    The columns of the ``roles`` are no features; one named by ``id_column`` has to be there.
    """
    from regraft.estimators.group_audit import audit_groups
    from regraft.estimators.pipelines import split_model
    from regraft.estimators.streamed_audit import audit_rows
    from regraft.estimators.unseen import judge_unseen

    _, head = split_model(model)
    columns = TableColumns(roles.label, roles.domain, id_column=id_column)
    with open_large(session, data, columns, settings, model) as large:
        warn_of_columns(model, data, large.raw, roles)
        warn_of_unknown(session, large)
        sample = large.sample
        with session.working(f"auditing {large.rows.n_rows} rows"):
            if not large.is_whole:
                return audit_rows(head, sample, large.rows, large.counts, prior_shift=prior_shift)
            rows = sample.X, sample.y, sample.domain
            return audit_groups(judge_unseen(head, *rows), *rows, prior_shift=prior_shift)


def place_large(
    session: Session,
    model: Model,
    data: Path,
    domain: str | None,
    id_column: str | None,
    settings: EngineSettings,
) -> tuple[Placement, FeatureTable, NDArray[Any]]:
    """Place all rows; return also the rows that look least like the mixture, and their features."""
    import numpy as np

    from regraft.data.model_features import find_roles
    from regraft.data.row_engines import open_target
    from regraft.data.row_files import open_row_files, take_block
    from regraft.data.tables import FeatureTable
    from regraft.estimators.pipelines import split_model
    from regraft.estimators.streamed_place import compared_step, place_rows

    roles = find_roles(model, None, domain, id_column)
    needed = domain is not None
    files = open_row_files(data, None, roles.domain, id_column, need_domain=needed)
    with _engine(files, settings) as engine:
        with session.working(f"reading {data}"):
            step = compared_step(files.n_rows)
            found = open_target(engine, files.n_rows, step, model)
        assert found.taken.features is not None
        warn_of_columns(model, data, found.taken.features, roles)
        warn_of_unknown(session, found)
        warn_of_domains(found.domains)
        with session.working(f"placing {files.n_rows} rows"):
            placement = place_rows(split_model(model)[1], found.rows, found.X)
    shown = np.array(placement.alien_rows) // step
    raw = take_block(found.taken.features, shown)
    names = None if files.domain is None else np.array(found.taken.domains)[shown]
    ids = raw.get(str(roles.id)) if isinstance(raw, Mapping) else None
    return placement, FeatureTable(raw, None, names, id=ids), found.X[shown]


def warn_of_columns(model: Model, data: Path, raw: RawRows, roles: ColumnRoles) -> None:
    """Check that rows are what a model takes, and warn of columns that it does not know.

    Those of the ``roles`` are no features.
    """
    from regraft.data.banks import is_bank, read_encoder
    from regraft.data.model_features import features_for
    from regraft.data.tables import FeatureTable
    from regraft.estimators.table_features import UnknownCategoryWarning

    kept = raw
    if isinstance(raw, Mapping):
        kept = {name: cells[:1] for name, cells in raw.items() if name not in roles}
    encoder = read_encoder(data) if is_bank(data) else None
    names = tuple(kept) if isinstance(kept, Mapping) else ()
    with warnings.catch_warnings():
        # These are counted in all rows.
        warnings.simplefilter("ignore", UnknownCategoryWarning)
        features_for(model, FeatureTable(kept, None, None, features=names, encoder=encoder))


def warn_of_unknown(session: Session, rows: LargeTable | LargeTarget, known: str = "fit") -> None:
    """Warn of rows, among all, with categories that did not occur in what is ``known``."""
    from regraft.estimators.table_features import UnknownCategoryWarning

    with session.working(f"making features of {rows.rows.n_rows} rows"):
        counts = rows.count_unknown()
    if any(counts.values()):
        warnings.warn(UnknownCategoryWarning(counts, known), stacklevel=2)


def warn_of_domains(names: Sequence[object]) -> None:
    """Warn if there are several domains where one is expected."""
    if len(names) > 1:
        shown = ", ".join(map(str, names[:2])) + (", …" if len(names) > 2 else "")
        warnings.warn(
            f"the target has {len(names)} domains ({shown}), which are taken for "
            "one: pass the rows of one.",
            stacklevel=2,
        )


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
    with open_large(session, data, columns, settings, device=model.device) as large:
        sampled = take_sample(large, data, columns.choose())
        rows, sample = large.rows, large.sample
        warn_of_small_cells(large.cells)
        warn_of_unknown(session, large, "the sample")
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
    from regraft.premises.sample_size import describe_small_cells

    if text := describe_small_cells(rows):
        warnings.warn(text, stacklevel=2)
