"""Tables of features, labels, domains and groups: banks, .npz files, and tables with names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regraft.data.banks import is_bank, is_unfinished, open_bank, read_encoder, verify_arrays
from regraft.data.columns import (
    ColumnChoice,
    Role,
    TableError,
    as_array,
    check_roles,
    quoted,
    tidy_domains,
    typed,
)
from regraft.data.image_folders import holds_images
from regraft.data.npz_tables import read_npz
from regraft.data.row_files import refuse_parts
from regraft.data.table_columns import read_columns
from regraft.data.table_rows import SUFFIXES, describe_wrong_suffix, table_kind
from regraft.estimators.column_kinds import Columns, join_problems, to_numbers
from regraft.estimators.encoder_record import EncoderRecord
from regraft.support.reading import check_file

_Columns = Mapping[str, NDArray[Any] | None]  # by option
# An array (n, d), or columns (n,) by name as they are in the file, with texts and gaps.
Rows: TypeAlias = NDArray[np.floating[Any]] | Columns


@dataclass(frozen=True)
class FeatureTable:
    """Features with what else is known of their rows."""

    X: Rows
    y: NDArray[Any] | None  # (n,), None where the file has no labels, or gaps that it may not have
    domain: NDArray[Any] | None  # (n,), None likewise
    group: NDArray[Any] | None = None  # (n,), None where no group was asked for
    id: NDArray[Any] | None = None  # (n,), None likewise, or where the file has none
    # names of the columns of X; empty if the file has none
    features: tuple[str, ...] = field(default=(), kw_only=True)
    # the encoder that made a bank's features; None if it is not known
    encoder: EncoderRecord | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.X.values())) if isinstance(self.X, Mapping) else self.X)


def read_table(
    path: str | Path,
    *,
    label: str = "label",
    domain: str = "domain",
    group: str | None = None,
    id: str | None = None,
    need_label: bool = True,
    need_domain: bool = True,
    need_id: bool = False,
    label_gaps: bool = False,
    by_option: bool = True,
    choice: ColumnChoice | None = None,
) -> FeatureTable:
    """Read a table with named columns, a .npz file, or a bank, whose features stay on disk.

    All columns but ``label``, ``domain``, ``group`` and ``id`` may be features; of these the file
    must have all but ``id``, unless labels or domains are not needed. A .npz file holds the
    features as one array ``X`` (or ``features``) of shape (n, d), and may name the domains that it
    numbers in an array ``domains``; a bank has no groups. With ``label_gaps``, rows may have no
    label, but None, NaN or an empty text. Errors name options unless there are none (``by_option``
    is False). Problems of the columns of a ``choice`` are told together
    with others. Raises ``TableError`` with one message.
    """
    path = Path(path)
    roles = [
        Role(label, "label", need_label, allowed=label_gaps, by_option=by_option),
        Role(domain, "domain", need_domain, by_option=by_option),
    ]
    if group is not None:
        roles.append(Role(group, "group", gap=", or leave out --group"))
    if id is not None:
        roles.append(Role(id, "id", needed=need_id))
    check_roles(roles)
    in_bank = is_bank(path) or is_unfinished(path)
    if not in_bank:
        check_table_file(path)
    has_names = not in_bank and path.suffix.lower() != ".npz"
    if choice is not None and not has_names:
        choice.check_unnamed(path)
    X: Rows
    if has_names:
        X, columns = _read_named(path, roles, choice)
    else:
        X, columns = (_read_bank if in_bank else read_npz)(path, roles)
    _check_shapes(path, X, columns)
    others = (columns.get(option) for option in ("label", "domain", "group", "id"))
    encoder = read_encoder(path) if in_bank else None
    features = tuple(X) if isinstance(X, Mapping) else ()
    return FeatureTable(X, *others, features=features, encoder=encoder)


def to_matrix(table: FeatureTable, names: Sequence[str]) -> NDArray[np.floating[Any]]:
    """Return named columns of a table as numbers (n, d); raise ``TableError`` for other cells."""
    assert isinstance(table.X, Mapping)
    numbers, problems = [], []
    for name in names:
        values, texts = to_numbers(table.X[name])
        gaps = np.union1d(texts, np.flatnonzero(np.isnan(values)))
        if len(gaps):
            cell = str(table.X[name][gaps[0]])
            shown = "is empty"
            if gaps[0] in texts:
                shown = f"holds {cell!r}" if len(cell) <= 40 else "holds a long text"
            problems.append(
                f"row {gaps[0] + 1} {shown} in column {name!r}: make it a number, or fit a model "
                "on tables with texts and gaps."
            )
        numbers.append(values)
    if problems:
        raise TableError(join_problems(problems, "the table"))
    return np.column_stack(numbers)


def align(table: FeatureTable, names: Sequence[str], n_features: int) -> NDArray[np.floating[Any]]:
    """Put features (n, n_features) in a model's order, by name where both have names."""
    if isinstance(table.X, Mapping) and len(names):
        missing = [name for name in names if name not in table.features]
        if missing:
            raise TableError(f"the data lacks {quoted(missing)}, which the model was fitted on.")
        return to_matrix(table, names)
    X = table.X
    found = len(X) if isinstance(X, Mapping) else X.shape[1]
    if found != n_features:
        raise TableError(
            f"the data has {found} feature(s) but the model was fitted on {n_features}: name label "
            "and domain columns with --label and --domain, and drop other extra columns."
        )
    return to_matrix(table, table.features) if isinstance(X, Mapping) else X


def check_table_file(path: Path) -> None:
    """Raise ``TableError`` unless ``path`` is a file, with a name as tables have."""
    check_file(path)
    if not path.exists():
        raise TableError(f"{path} does not exist: check the path.")
    if path.is_dir() and holds_images(path):
        raise TableError(
            f"{path} is a folder of images: make features of them first, with regraft embed images "
            f"{path} --out BANK, and pass that bank."
        )
    refuse_parts(path)
    if path.is_dir():
        raise TableError(
            f"{path} is a folder but no bank of features: pass a table in it, or a bank that "
            "regraft embed made."
        )
    if not path.name.lower().endswith((".npz", *SUFFIXES)):
        raise TableError(describe_wrong_suffix(path, (".npz", *SUFFIXES)))


def _check_shapes(path: Path, X: Rows, columns: _Columns) -> None:
    n, d = (None, len(X)) if isinstance(X, Mapping) else X.shape
    if d == 0:
        raise TableError(f"{path} has no feature columns: add columns beside the label.")
    if n == 0:
        raise TableError(f"{path} has no rows: add data below the header.")
    for name, column in columns.items():
        if n is not None and column is not None and column.shape != (n,):
            raise TableError(
                f"{path} has {n} rows of features but a {name} array of shape {column.shape}: "
                "save one value per row."
            )


def _read_named(
    path: Path, roles: Sequence[Role], choice: ColumnChoice | None
) -> tuple[Columns, _Columns]:
    """Read a table with named columns; all of its problems are told at once."""
    cells = read_columns(path, plain={role.name for role in roles})
    make = typed if table_kind(path) == "csv" else as_array
    columns, problems = {}, []
    for role in roles:
        try:
            role.find(path, tuple(cells))
            values = role.values(path, cells[role.name]) if role.name in cells else None
            if values is not None and role.option == "domain":
                values = tidy_domains(values)
            columns[role.option] = None if values is None else make(values)
        except TableError as error:
            problems.append(str(error))
    names = {role.name for role in roles}
    X = {name: values for name, values in cells.items() if name not in names}
    problems += [] if choice is None else choice.find_conflicts(roles)
    if problems:
        problems += [] if choice is None else choice.find_problems(X)
        raise TableError(join_problems(problems, str(path)))
    return X, columns


def _read_bank(path: Path, roles: Sequence[Role]) -> tuple[Rows, _Columns]:
    try:
        bank = open_bank(path)
        verify_arrays(bank)
    except ValueError as error:
        raise TableError(str(error)) from None
    held = {"label": bank.labels, "domain": bank.domain_names}
    for role in roles:
        if role.option in held and held[role.option] is None and role.needed:
            raise TableError(
                f"{path} is a bank without {role.option}s, which are needed here: embed its inputs "
                f"with a {role.option} each, in a folder domain/class/file or in a table."
            )
        if role.option not in held and role.needed:
            raise TableError(
                f"{path} is a bank, which holds only labels and domains, no {role.option} "
                f"{role.name!r}: write its rows to a .npz or .csv file with that column."
            )
    names = {role.option: role.find(path, tuple(held)) for role in roles}
    columns = {option: None if name is None else held[name] for option, name in names.items()}
    return bank.X, columns
