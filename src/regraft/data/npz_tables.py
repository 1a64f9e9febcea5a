"""Features, labels and domains in the arrays of .npz files; pickled objects are never loaded."""

from __future__ import annotations

import lzma
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.data.columns import Role, TableError, quoted
from regraft.support.reading import check_fits

# The names that fit() uses are understood too where the file holds arrays, not named features.
_ALIASES = {"label": "y", "domain": "sample_domain"}
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_DAYS = "Y", "M", "W", "D"  # units of time that have no hours
_NAMES = "domains"  # the array that names the domains 0, 1, …


def read_npz(
    path: Path, roles: Sequence[Role]
) -> tuple[NDArray[np.floating[Any]], Mapping[str, NDArray[Any] | None]]:
    """Read the features (n, d), and the columns (n,) that have the ``roles``, by option."""
    with open_npz(path) as arrays:
        features = next((name for name in ("X", "features") if name in arrays.files), None)
        if features is None:
            raise TableError(
                f"{path} has no array 'X' or 'features' (it has {quoted(arrays.files)}): save "
                "the features, of shape (rows, columns), under one of these names."
            )
        shapes = _read_shapes(path)
        for role in roles:
            found = shapes.get(_find_array(arrays, role))
            if features in shapes and found not in (None, (n_rows := shapes[features][:1])):
                raise TableError(
                    f"{path} has {n_rows[0]} rows of features but a {role.option} array of shape "
                    f"{found}: save one value per row."
                )
        X = read_matrix(path, arrays, features)
        columns = {role.option: _npz_column(path, arrays, role) for role in roles}
        if (domain := columns["domain"]) is not None:
            columns["domain"] = _name_domains(path, arrays, domain)
        return X, columns


@contextmanager
def open_npz(path: Path) -> Iterator[Any]:
    """Open a .npz file; raise ``TableError`` if it is damaged or none."""
    damaged = TableError(f"{path} is damaged or not a .npz file: write it again with np.savez.")
    # Told before np.load, which takes any other file for a pickle.
    if not zipfile.is_zipfile(path):
        raise damaged
    try:
        _read_shapes(path)  # before anything else is
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays
    # RuntimeError: with a password, or packed in a way that Python does not know.
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError):
        raise damaged from None
    except OSError as error:  # without a name: a place beyond the file's end
        raise (damaged if error.filename is None else error) from None


def _read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes that arrays declare, by name, without reading them.

    Raises ``TableError`` if one does not have the length that its shape and type declare, and
    ``ValueError`` if it exceeds the memory. Those that np.load refuses are left out.
    """
    shapes = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            with archive.open(info) as file:
                try:
                    version = np.lib.format.read_magic(file)
                    shape, _, dtype = _HEADERS[version](file)
                except (KeyError, ValueError):
                    continue
                length = math.prod(shape) * dtype.itemsize
                name = info.filename.removesuffix(".npy")
                if not dtype.hasobject and file.tell() + length != info.file_size:
                    raise TableError(
                        f"array {name!r} of {path} declares {length} bytes but has "
                        f"{info.file_size - file.tell()}: write the file again with np.savez."
                    )
                check_fits(length, f"array {name!r} of {path}")
                shapes[name] = shape
    return shapes


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


def read_matrix(path: Path, arrays: Any, name: str) -> NDArray[np.floating[Any]]:
    """Return an array of numbers (n, d); raise ``TableError`` if it is none."""
    values = _npz_array(path, arrays, name)
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise TableError(
            f"array {name!r} of {path} has shape {values.shape} and type {values.dtype}: save "
            "numbers of shape (rows, columns)."
        )
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def read_texts(path: Path, arrays: Any, name: str) -> list[str]:
    """Return an array of texts or numbers (n,) as texts; raise ``TableError`` if it is none."""
    values = _npz_array(path, arrays, name)
    if values.ndim != 1 or values.dtype.kind not in "biufU":
        raise TableError(
            f"array {name!r} of {path} has shape {values.shape} and type {values.dtype}: save "
            "texts or numbers of shape (classes,)."
        )
    return [str(value) for value in values.tolist()]


def _find_array(arrays: Any, role: Role) -> str:
    """Return the name of the array with this role, or what it should be."""
    alias = _ALIASES.get(role.name, role.name) if role.option in _ALIASES else role.name
    return alias if role.name not in arrays.files and alias in arrays.files else role.name


def _npz_column(path: Path, arrays: Any, role: Role) -> NDArray[Any] | None:
    name = _find_array(arrays, role)
    if replace(role, name=name).find(path, arrays.files) is None:
        return None
    values = _npz_array(path, arrays, name)
    if values.ndim != 1:
        return values
    if values.dtype.kind not in "biufUSM":
        raise TableError(
            f"array {name!r} of {path} has type {values.dtype}: save plain numbers or strings."
        )
    if values.dtype.kind == "M":
        values = np.where(np.isnat(values), "", _write_times(values))
    cells = role.values(path, values.tolist())
    if cells is None:
        return None
    return np.array(cells) if values.dtype.kind == "S" else values


def _write_times(values: NDArray[np.datetime64]) -> NDArray[np.str_]:
    """Return times as they are written of Parquet files: 2020-01-01, or 2020-01-01 05:00:00."""
    is_day = np.datetime_data(values.dtype)[0] in _DAYS
    times = values.astype("M8[D]" if is_day else "M8[us]").tolist()
    if any(isinstance(time, int) for time in times):  # of years that Python does not have
        return values.astype(str)
    return np.array(list(map(str, times)), np.str_)


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
