"""Tables of features, labels, domains and groups from .npz, .csv, .parquet files and banks."""

from __future__ import annotations

import csv
import zipfile
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.data.banks import is_bank, is_unfinished, open_bank, read_encoder
from regraft.data.columns import Role, TableError, check_roles, quoted, typed
from regraft.data.table_rows import Row, check_csv, open_parquet
from regraft.estimators.encoder_record import EncoderRecord

_PROBABILITY = "probability_"  # and a label: a column that `regraft predict` writes
# The names that fit() uses are understood too where the file holds arrays, not named features.
_NPZ_ALIASES = {"label": "y", "domain": "sample_domain"}
_NAMES = "domains"  # the array of a .npz file that names the domains 0, 1, …

_Columns = Mapping[str, NDArray[Any] | None]  # by option
_Parts = tuple[NDArray[np.floating[Any]], _Columns, tuple[str, ...]]  # features, others, names


@dataclass(frozen=True)
class FeatureTable:
    """Features with what else is known of their rows."""

    X: NDArray[np.floating[Any]]  # (n, d)
    y: NDArray[Any] | None  # (n,), None where the file has no labels, or gaps that it may not have
    domain: NDArray[Any] | None  # (n,), None likewise
    group: NDArray[Any] | None = None  # (n,), None where no group was asked for
    id: NDArray[Any] | None = None  # (n,), None likewise, or where the file has none
    # (d,) names of the columns of X; empty if the file has none
    features: tuple[str, ...] = field(default=(), kw_only=True)
    # the encoder that made a bank's features; None if it is not known
    encoder: EncoderRecord | None = field(default=None, kw_only=True)


def read_table(
    path: str | Path,
    *,
    label: str = "label",
    domain: str = "domain",
    group: str | None = None,
    id: str | None = None,
    need_label: bool = True,
    need_domain: bool = True,
    label_gaps: bool = False,
) -> FeatureTable:
    """Read a .npz, .csv or .parquet file, or a bank, whose features stay on disk.

    All columns but ``label``, ``domain``, ``group`` and ``id`` are features; of these the file must
    have all but ``id``, unless labels or domains are not needed. A .npz file holds the features as
    one array ``X`` (or ``features``) of shape (n, d), and may name the domains that it numbers in
    an array ``domains``; a bank has no groups. With ``label_gaps``, rows may have no label, but
    None, NaN or an empty text. Raises ``TableError`` with one sentence.
    """
    path = Path(path)
    roles = [
        Role(label, "label", need_label, allowed=label_gaps),
        Role(domain, "domain", need_domain),
    ]
    if group is not None:
        roles.append(Role(group, "group", gap="fill it in, drop the row, or leave out --group"))
    if id is not None:
        roles.append(Role(id, "id", needed=False))
    check_roles(roles)
    in_bank = is_bank(path) or is_unfinished(path)
    if not in_bank:
        _check_file(path)
    read = _read_bank if in_bank else _READERS[path.suffix.lower()]
    X, columns, features = read(path, roles)
    _check_shapes(path, X, columns)
    others = (columns.get(option) for option in ("label", "domain", "group", "id"))
    encoder = read_encoder(path) if in_bank else None
    return FeatureTable(X, *others, features=features, encoder=encoder)


def read_probabilities(path: str | Path, labels: NDArray[Any]) -> NDArray[np.floating[Any]]:
    """Read class probabilities (n, C): an array ``probabilities`` in .npz, or a table's columns.

    Columns named ``probability_<label>``, as ``regraft predict`` writes them, are put in sorted
    order of ``labels``, and what else it writes is left out; without them, all columns but label,
    domain and id are taken to be in that order.
    """
    path = Path(path)
    _check_file(path)
    if path.suffix.lower() != ".npz":
        table = read_table(path, id="id", need_label=False, need_domain=False)
        return _in_class_order(path, table, np.unique(labels))
    with _open_npz(path) as arrays:
        if "probabilities" not in arrays.files:
            raise TableError(
                f"{path} has no array 'probabilities' (it has {quoted(arrays.files)}): save one "
                "of shape (rows, classes)."
            )
        return _matrix(path, arrays, "probabilities")


def _in_class_order(
    path: Path, table: FeatureTable, classes: NDArray[Any]
) -> NDArray[np.floating[Any]]:
    """Sort the columns of ``table``, one per class, by class if they are named by class."""
    if not any(name.startswith(_PROBABILITY) for name in table.features):
        return table.X
    wanted = [f"{_PROBABILITY}{label}".strip() for label in classes]  # headers are stripped too
    missing = [name for name in wanted if name not in table.features]
    if missing:
        raise TableError(
            f"{path} has no column {quoted(missing)}: write one for each class of the data."
        )
    found = [name for name in table.features if name.startswith(_PROBABILITY)]
    extra = [name for name in found if name not in wanted]
    if extra:
        raise TableError(f"{path} has {quoted(extra)}, which is no class of the data: drop it.")
    return table.X[:, [table.features.index(name) for name in wanted]]


def align(table: FeatureTable, names: Sequence[str], n_features: int) -> NDArray[np.floating[Any]]:
    """Put features (n, n_features) in a model's order, by name where both have names."""
    hint = "name label and domain columns with --label and --domain, and drop other extra columns."
    found = table.X.shape[1]
    if len(names) and table.features:
        missing = [name for name in names if name not in table.features]
        if missing:
            raise TableError(f"the data lacks {quoted(missing)}, which the model was fitted on.")
        extra = [name for name in table.features if name not in names]
        if extra:
            raise TableError(f"the model was not fitted on {quoted(extra)}: {hint}")
        order = [table.features.index(name) for name in names]
        # Rows stay contiguous, so that sums over them round as they did in fit.
        return np.ascontiguousarray(table.X[:, order])
    if found != n_features:
        raise TableError(
            f"the data has {found} feature(s) but the model was fitted on {n_features}: {hint}"
        )
    return table.X


def score(table: FeatureTable, labels: NDArray[Any]) -> tuple[float | None, dict[str, float]]:
    """Compute the accuracy of predicted ``labels`` (n,) over all rows and in each domain."""
    if table.y is None:
        return None, {}
    truth, domain = table.y, table.domain
    if (labels.dtype.kind == "U") != (truth.dtype.kind == "U"):  # CSV files have no types
        labels, truth = labels.astype(str), truth.astype(str)
    correct = labels == truth
    names = [] if domain is None else sorted(set(domain.tolist()))
    return float(correct.mean()), {str(n): float(correct[domain == n].mean()) for n in names}


def _check_file(path: Path) -> None:
    if not path.exists():
        raise TableError(f"{path} does not exist: check the path.")
    if path.is_dir():
        raise TableError(
            f"{path} is a folder but no bank of features: pass one that regraft embed made, or the "
            "file inside it."
        )
    if path.suffix.lower() not in _READERS:
        raise TableError(
            f"{path} does not end in .npz, .csv or .parquet: convert it to one of them."
        )


def _check_shapes(path: Path, X: NDArray[Any], columns: _Columns) -> None:
    n, d = X.shape
    if d == 0:
        raise TableError(f"{path} has no feature columns: add numeric columns beside the label.")
    if n == 0:
        raise TableError(f"{path} has no rows: add data below the header.")
    for name, column in columns.items():
        if column is not None and column.shape != (n,):
            raise TableError(
                f"{path} has {n} rows of features but a {name} array of shape {column.shape}: "
                "save one value per row."
            )


def _read_bank(path: Path, roles: Sequence[Role]) -> _Parts:
    try:
        bank = open_bank(path)
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
    return bank.X, columns, ()


def _read_npz(path: Path, roles: Sequence[Role]) -> _Parts:
    with _open_npz(path) as arrays:
        features = next((name for name in ("X", "features") if name in arrays.files), None)
        if features is None:
            raise TableError(
                f"{path} has no array 'X' or 'features' (it has {quoted(arrays.files)}): save "
                "the features, of shape (rows, columns), under one of these names."
            )
        X = _matrix(path, arrays, features)
        columns = {role.option: _npz_column(path, arrays, role) for role in roles}
        if (domain := columns["domain"]) is not None:
            columns["domain"] = _name_domains(path, arrays, domain)
        return X, columns, ()


@contextmanager
def _open_npz(path: Path) -> Iterator[Any]:
    damaged = TableError(f"{path} is damaged or not a .npz file: write it again with np.savez.")
    # Told before np.load, which takes any other file for a pickle.
    if not zipfile.is_zipfile(path):
        raise damaged
    try:
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays
    except (zipfile.BadZipFile, zlib.error, EOFError):
        raise damaged from None


def _npz_array(path: Path, arrays: Any, name: str) -> NDArray[Any]:
    try:
        values = arrays[name]
    except ValueError as error:
        raise TableError(
            f"array {name!r} of {path} cannot be read ({str(error).rstrip('.')}): save plain "
            "numbers or strings, since pickled objects are never loaded."
        ) from None
    if not isinstance(values, np.ndarray):
        raise TableError(f"{name!r} in {path} is not an array: write the file with np.savez.")
    return values


def _matrix(path: Path, arrays: Any, name: str) -> NDArray[np.floating[Any]]:
    values = _npz_array(path, arrays, name)
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise TableError(
            f"array {name!r} of {path} has shape {values.shape} and type {values.dtype}: save "
            "numbers of shape (rows, columns)."
        )
    return _floats(values)


def _npz_column(path: Path, arrays: Any, role: Role) -> NDArray[Any] | None:
    alias = _NPZ_ALIASES.get(role.name, role.name) if role.option in _NPZ_ALIASES else role.name
    name = alias if role.name not in arrays.files and alias in arrays.files else role.name
    if Role(name, role.option, role.needed).find(path, arrays.files) is None:
        return None
    values = _npz_array(path, arrays, name)
    if values.ndim == 1 and role.values(path, values.tolist()) is None:
        return None
    return values


def _name_domains(path: Path, arrays: Any, domain: NDArray[Any]) -> NDArray[Any]:
    """Replace numbers in ``domain`` (n,) by the names in the array ``domains``, if there is one."""
    if domain.dtype.kind not in "iu" or not domain.size or _NAMES not in arrays.files:
        return domain
    try:
        names = arrays[_NAMES]
    except ValueError:
        raise TableError(
            f"array {_NAMES!r} of {path} holds pickled objects: save plain strings."
        ) from None
    if names.ndim != 1 or domain.min() < 0 or domain.max() >= len(names):
        raise TableError(
            f"array {_NAMES!r} of {path} has shape {names.shape} but the domains are numbered "
            f"{domain.min()} to {domain.max()}: save one name for each number from 0 on."
        )
    named: NDArray[Any] = names[domain]
    return named


def _read_csv(path: Path, roles: Sequence[Role]) -> _Parts:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, skipinitialspace=True)
        try:
            return _parse_csv(path, check_csv(path, reader, "write the file again"), roles)
        except UnicodeDecodeError:
            raise TableError(f"{path} is not text in UTF-8: save it in that encoding.") from None


def _parse_csv(path: Path, rows: Iterator[Row], roles: Sequence[Role]) -> _Parts:
    header = next(rows).cells
    features = feature_names(path, header, roles)
    others = set(header).difference(features)
    places = [i for i in reversed(range(len(header))) if header[i] in others]
    cells: dict[str, list[str]] = {name: [] for name in others}
    values, n_rows = array("d"), 0
    for row in rows:
        n_rows, numbers = row.number, list(row.cells)
        for i in places:
            cells[header[i]].append(numbers.pop(i))
        try:
            values.extend(map(float, numbers))
        except ValueError:
            raise not_a_number(path, n_rows, features, numbers) from None
    X = np.asarray(values).reshape(n_rows, len(features))
    return X, {role.option: _column(path, cells, role, typed) for role in roles}, features


def feature_names(path: Path, columns: Sequence[str], roles: Sequence[Role]) -> tuple[str, ...]:
    """Return the columns that have none of the ``roles``, which are looked for."""
    others = [role.find(path, columns) for role in roles]
    twice = sorted(name for name, times in Counter(columns).items() if times > 1)
    if twice:
        raise TableError(f"{path} has more than one column {quoted(twice)}: rename or drop them.")
    return tuple(name for name in columns if name not in others)


def _column(
    path: Path,
    cells: Mapping[str, list[Any]],
    role: Role,
    make: Callable[[list[Any]], NDArray[Any]],
) -> NDArray[Any] | None:
    values = role.values(path, cells[role.name]) if role.name in cells else None
    return None if values is None else make(values)


def not_a_number(path: Path, row: int, features: Sequence[str], cells: Sequence[Any]) -> TableError:
    """Describe the first of the ``cells`` of a row that is no number."""
    column = next(i for i, cell in enumerate(cells) if not _is_number(cell))
    shown = repr(cells[column]) if len(str(cells[column])) <= 40 else "a long text"
    return TableError(
        f"row {row} of {path} holds {shown} in feature column {features[column]!r}: make it a "
        "number, drop the column, or name it with --label or --domain, or with diagnose's --group."
    )


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def _read_parquet(path: Path, roles: Sequence[Role]) -> _Parts:
    with open_parquet(path) as file:
        table = file.read()
        features = feature_names(path, table.column_names, roles)
        X = parquet_features(path, table, features)
        names = set(table.column_names).difference(features)
        cells = {name: table.column(name).to_pylist() for name in names}
    others = {role.option: _column(path, cells, role, np.array) for role in roles}
    return X, others, features


def parquet_features(
    path: Path, rows: Any, names: Sequence[str], first: int = 1
) -> NDArray[np.floating[Any]]:
    """Return columns of Parquet ``rows`` (n, d), the number of the first of which is ``first``."""
    columns = [_parquet_feature(path, rows, name, first) for name in names]
    return _floats(np.column_stack(columns) if columns else np.empty((rows.num_rows, 0)))


def _parquet_feature(path: Path, rows: Any, name: str, first: int) -> NDArray[Any]:
    values: NDArray[Any] = rows.column(name).to_numpy(zero_copy_only=False)
    if values.dtype.kind in "fiub":
        return values
    row = next((i for i, cell in enumerate(values.tolist()) if not _is_number(cell)), 0)
    raise not_a_number(path, first + row, (name,), (values[row],))


def _floats(values: NDArray[Any]) -> NDArray[np.floating[Any]]:
    return values if values.dtype.kind == "f" else values.astype(np.float64)


_READERS = {".npz": _read_npz, ".csv": _read_csv, ".parquet": _read_parquet}
