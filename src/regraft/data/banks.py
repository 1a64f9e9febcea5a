"""Banks of features on disk: a folder that opens at once, however many rows it has.

``features.safetensors`` holds the arrays ``features`` (n, d) float32, ``label`` (n,) and ``domain``
(n,) int64; the latter two are indices into the ``classes`` and ``domains`` of ``bank.json``, which
also describes the encoder, the skipped inputs and the checksums. A bank of new inputs may lack one
or both of them, and their names are null. ``inputs.jsonl`` has a line for every row: the path or
the row number of its input, and its sha256.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regraft.data.bank_seal import check_bank_seal, is_sealed
from regraft.data.bank_writer import (
    AGAIN,
    ARRAYS,
    COLUMNS,
    DESCRIPTION,
    FORMAT,
    INPUTS,
    UNFINISHED,
    BankWriter,
    Origin,
    Place,
    Skipped,
    data_checksum,
    inputs_checksum,
    read_places,
    row_inputs,
)
from regraft.estimators.encoder_record import EncoderRecord
from regraft.support.files import own
from regraft.support.json_files import load_json
from regraft.support.memory_map import find_mapping, released
from regraft.support.reading import check_file, read_file

_OWN_FILES = {ARRAYS, DESCRIPTION, INPUTS}
_ROWS_AT_ONCE = 8192
_NUMBERS_AT_ONCE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Bank(Origin):
    """The rows of a bank, whose features stay on disk.

    Attributes
    ----------
    folder : Path
        Where the bank lies.
    X, y, domain : arrays of shape (n, d), (n,), (n,)
        Features, and indices into ``classes`` and ``domains``; all are read-only memory maps.
        ``y`` is None for a bank without labels, ``domain`` for one without domains.
    classes, domains : tuple of str or int, or None
        Their names.
    kind, encoder, fingerprint, preprocessing, listing : str, str, str, mapping, str or None
        What the rows were made from (images, texts or arrays); the name of the encoder, and the
        checksum of its weights; what was done to the inputs, and the checksum of their list.
    weights : str
        The name of the file that the encoder's weights were read from; empty for its own.
    n_skipped, skipped : int, tuple of Skipped
        How many inputs were left out, and the first of them.
    checksum, inputs_checksum : str
        Checksums of the arrays, and of the inputs.
    """

    folder: Path
    X: NDArray[np.float32]
    y: NDArray[np.int64] | None
    domain: NDArray[np.int64] | None
    classes: tuple[str | int, ...] | None
    domains: tuple[str | int, ...] | None
    n_skipped: int
    skipped: tuple[Skipped, ...]
    checksum: str
    inputs_checksum: str

    @property
    def labels(self) -> NDArray[Any] | None:
        """The name of the class of every row (n,); None for a bank without labels."""
        return None if self.y is None else np.array(self.classes)[self.y]

    @property
    def domain_names(self) -> NDArray[Any] | None:
        """The name of the domain of every row (n,); None for a bank without domains."""
        return None if self.domain is None else np.array(self.domains)[self.domain]


def is_bank(path: str | Path) -> bool:
    """Return whether ``path`` is a folder with a finished bank."""
    return (Path(path) / DESCRIPTION).is_file()


def is_unfinished(path: str | Path) -> bool:
    """Return whether ``path`` is a folder with a bank that was begun but not finished."""
    return (Path(path) / UNFINISHED).is_dir() and not is_bank(path)


def open_bank(folder: str | Path) -> Bank:
    """Open a bank without reading its features.

    Parameters
    ----------
    folder : str or Path
        What :func:`write_bank` or ``regraft embed`` wrote.

    Returns
    -------
    Bank
        Its rows; the features are a memory map.

    Raises
    ------
    ValueError
        If the folder holds no bank, an unfinished or a damaged one.
    """
    folder = Path(folder)
    if is_unfinished(folder):
        raise ValueError(
            f"{folder} is a bank that is not finished: run the command that makes it again."
        )
    if not is_bank(folder):
        raise ValueError(
            f"{folder} is not a bank of features: pass a folder with {DESCRIPTION} and {ARRAYS}."
        )
    for name in (DESCRIPTION, ARRAYS, INPUTS):
        check_file(folder / name, folder)
    description = _read_description(folder / DESCRIPTION)
    if not (folder / ARRAYS).is_file():
        raise ValueError(f"{folder} lacks {ARRAYS}: {AGAIN}.")
    check_bank_seal(folder, description)
    places = read_places(folder / ARRAYS)
    if 0 in places["features"].shape:  # which cannot be mapped
        raise ValueError(f"{folder} is a bank without rows: make it again.")
    try:
        bank = _assemble(folder, description, places)
        rows, n_features = description["rows"], description["features"]
    except (KeyError, TypeError):
        raise _damage(folder / DESCRIPTION) from None
    shapes = {name: place.shape for name, place in places.items()}
    named = {"label": bank.classes, "domain": bank.domains}
    columns = {name: (rows,) for name, names in named.items() if names is not None}
    if shapes != {"features": (rows, n_features), **columns}:
        raise ValueError(
            f"{DESCRIPTION} and {ARRAYS} of {folder} are not of one bank: make it again."
        )
    for index, names in ((bank.y, bank.classes), (bank.domain, bank.domains)):
        if index is None or names is None:
            continue
        starts = range(0, rows, _NUMBERS_AT_ONCE)
        chunks = (slice(start, start + _NUMBERS_AT_ONCE) for start in starts)
        for part in released(chunks, find_mapping(index)):
            if index[part].min() < 0 or index[part].max() >= len(names):
                raise _damage(folder / ARRAYS)
    return bank


def read_encoder(folder: Path) -> EncoderRecord | None:
    """Return what is known of a bank's encoder; None if the checksum of its weights is not."""
    description = _read_description(folder / DESCRIPTION)
    encoder = description["encoder"]
    if not encoder["fingerprint"]:
        return None
    return EncoderRecord(
        **encoder,
        kind=description["inputs"]["kind"],
        preprocessing=description["preprocessing"],
    )


def verify(bank: Bank) -> None:
    """Read the whole bank; raise ``ValueError`` if a byte is not as it was written."""
    verify_arrays(bank)
    path = bank.folder / INPUTS
    if not path.is_file():
        raise ValueError(f"{bank.folder} lacks {INPUTS}: {AGAIN}.")
    description = _read_description(bank.folder / DESCRIPTION)
    if inputs_checksum(path) != bank.inputs_checksum or not is_sealed(path, description):
        raise ValueError(f"{path} was changed since: {AGAIN}.")


def verify_arrays(bank: Bank) -> None:
    """Read all arrays of a bank; raise ``ValueError`` if a byte is not as it was written."""
    if data_checksum(bank.folder / ARRAYS) != bank.checksum:
        raise _change(bank)


def read_verified(bank: Bank, n_rows: int) -> Iterator[NDArray[np.float32]]:
    """Yield all features, ``n_rows`` at a time; raise ``ValueError`` at the end after a change."""
    digest = hashlib.sha256()
    chunks = (slice(start, start + n_rows) for start in range(0, len(bank.X), n_rows))
    for rows in released(chunks, find_mapping(bank.X)):
        digest.update(bank.X[rows].data)
        yield bank.X[rows]
    for column in (bank.y, bank.domain):
        if column is not None:
            digest.update(column.data)
    if digest.hexdigest() != bank.checksum:
        raise _change(bank)


def _change(bank: Bank) -> ValueError:
    return ValueError(f"{bank.folder / ARRAYS} was changed since: {AGAIN}.")


def write_bank(
    folder: str | Path,
    X: NDArray[Any],
    y: ArrayLike,
    domain: ArrayLike,
    *,
    encoder: str = "unknown",
    fingerprint: str = "",
    preprocessing: Mapping[str, Any] | None = None,
) -> Bank:
    """Write arrays as a bank, replacing a bank that is there.

    Parameters
    ----------
    folder : str or Path
        Where to write; it must hold nothing but a bank.
    X, y, domain : array-like of shape (n, d), (n,), (n,)
        Features, maybe a memory map: they are read and written in chunks. Classes and domains,
        strings or whole numbers.
    encoder, fingerprint, preprocessing : str, str, mapping or None
        The name of what made the features, the checksum of its weights, and what was done to the
        inputs, in JSON's types.

    Returns
    -------
    Bank
        The bank, opened.

    Raises
    ------
    ValueError
        If the arrays do not fit together, are not finite, or the folder cannot be used.
    """
    folder = Path(folder)
    classes, labels = _index("y", y, len(X))
    domains, groups = _index("domain", domain, len(X))
    if X.ndim != 2 or X.dtype.kind not in "fiu" or 0 in X.shape:
        raise ValueError(
            f"X has shape {X.shape} and type {X.dtype}: pass numbers of shape (rows, columns)."
        )
    with claim_place(folder):
        shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
        with closing(BankWriter(folder, X.shape[1])) as writer:
            for start in range(0, len(X), _ROWS_AT_ONCE):
                rows = slice(start, start + _ROWS_AT_ONCE)
                features = check_finite(np.asarray(X[rows]), f"row {start + 1} of X and after")
                inputs = row_inputs(features, start + 1)
                writer.append(features, [labels[rows], groups[rows]], inputs)
            origin = Origin("arrays", encoder, fingerprint, preprocessing or {})
            writer.finish(origin, classes, domains)
    return open_bank(folder)


def check_place(folder: Path) -> None:
    """Raise ``ValueError`` with one sentence unless ``folder`` may hold a bank."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: choose a folder for the bank.")
    names = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    others = {name for name in names - _OWN_FILES if not name.startswith(".")}
    if others:
        raise ValueError(
            f"{folder} holds other files ({min(others)}): choose another folder for the bank."
        )


@contextmanager
def claim_place(folder: Path) -> Iterator[None]:
    """Check a folder for a bank, make it and lock it; raise ``ValueError`` if it is in use."""
    check_place(folder)
    refusal = f"another process is writing to {folder}: wait for it, or choose another folder."
    with own(folder, refusal):
        yield


def check_finite(features: NDArray[Any], where: str) -> NDArray[np.float32]:
    """Convert features to 32 bits; raise ``ValueError`` with ``where`` if one is not finite."""
    with np.errstate(over="ignore"):
        narrow = features.astype(np.float32, copy=False)
    if not np.isfinite(narrow).all():
        raise ValueError(
            f"the features of {where} are no finite numbers of 32 bits: repair or drop these rows."
        )
    return narrow


def _index(name: str, values: ArrayLike, rows: int) -> tuple[list[Any], NDArray[np.int64]]:
    column = np.asarray(values)
    if column.shape != (rows,):
        raise ValueError(
            f"X has {rows} rows but {name} has shape {column.shape}: pass one value per row."
        )
    if column.dtype.kind == "O" and all(isinstance(value, str) for value in column):
        column = column.astype(str)
    if column.dtype.kind not in "Uiub":
        raise ValueError(f"{name} has type {column.dtype}: pass strings or whole numbers.")
    names, index = np.unique(column, return_inverse=True)
    return names.tolist(), index.astype(np.int64)


def _read_description(path: Path) -> dict[str, Any]:
    try:
        description = load_json(read_file(path))
    except ValueError:  # not JSON, or not even text
        raise _damage(path) from None
    if not isinstance(description, dict) or "format" not in description:
        raise ValueError(f"{path} does not describe a bank: pass a folder made by regraft embed.")
    if description["format"] != FORMAT:
        raise ValueError(
            f"{path} has format {description['format']!r} but this regraft reads {FORMAT}: make "
            "the bank again."
        )
    return description


def _assemble(folder: Path, description: dict[str, Any], places: dict[str, Place]) -> Bank:
    path = folder / ARRAYS
    features, inputs = places["features"], description["inputs"]
    indices = {
        name: np.memmap(path, "<i8", mode="r", offset=place.start, shape=place.shape)
        for name, place in places.items()
        if name in COLUMNS
    }
    classes, domains = description["classes"], description["domains"]
    return Bank(
        folder=folder,
        X=np.memmap(path, "<f4", mode="r", offset=features.start, shape=features.shape),
        y=indices.get("label"),
        domain=indices.get("domain"),
        classes=None if classes is None else tuple(classes),
        domains=None if domains is None else tuple(domains),
        kind=inputs["kind"],
        encoder=description["encoder"]["name"],
        fingerprint=description["encoder"]["fingerprint"],
        weights=description["encoder"].get("weights", ""),
        preprocessing=description["preprocessing"],
        listing=inputs["listing"],
        n_skipped=inputs["skipped"],
        skipped=tuple(Skipped(*each) for each in inputs["first_skipped"]),
        checksum=description["checksums"]["features"],
        inputs_checksum=description["checksums"]["inputs"],
    )


def _damage(path: Path) -> ValueError:
    return ValueError(f"{path} is damaged: {AGAIN}.")
