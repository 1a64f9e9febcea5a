"""Where a result comes from: the command, its options, versions, the machine and the data."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from regraft._version import __version__
from regraft.data.banks import is_bank, open_bank
from regraft.estimators.model_files import ARRAYS, is_model
from regraft.support.digests import digest_file, digest_parts
from regraft.support.files import write_text
from regraft.support.json_files import digest_json, dumps, load_json
from regraft.support.publishing import finish_publication
from regraft.support.reading import read_file
from regraft.support.runs import PROVENANCE, SealedRun
from regraft.support.schema import (
    COUNT,
    LIST,
    OBJECT,
    SECONDS,
    SHA256,
    TEXT,
    check_fields,
    list_of,
    object_of,
    or_null,
)

_RUN = "results.jsonl"  # of a run by DomainBed's protocol
_LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn")


_SEAL = "sha256"
_ENTRY = {
    "command": TEXT,
    "options": OBJECT,
    "data": LIST,
    "versions": object_of(TEXT),
    "machine": OBJECT,
    "seconds": SECONDS,
    "written": TEXT,
    "warnings": list_of(TEXT),
    "run": TEXT,
    "files": object_of(SHA256),
}
_DATA_FILE = {"path": TEXT, "sha256": SHA256, "of": TEXT}
_MACHINE = {"system": TEXT, "cores": or_null(COUNT)}


@dataclass(frozen=True)
class DataFile:
    """A file or folder that a command read."""

    path: str
    sha256: str
    of: str  # what the checksum is taken of


@dataclass(frozen=True)
class Provenance:
    """All that is needed to get a result again."""

    command: str
    options: dict[str, Any]  # with their defaults
    data: tuple[DataFile, ...]
    versions: dict[str, str]
    machine: dict[str, Any]
    seconds: float
    written: str  # date and time, UTC
    warnings: tuple[str, ...] = ()  # printed while the command ran
    run: str = ""  # the id in the JSON files of the results
    files: dict[str, str] = field(default_factory=dict)  # sha256 of the results, by path

    @property
    def seed(self) -> int | None:
        """That of the options, None where what is drawn has a fixed one."""
        seed: int | None = self.options.get("seed", self.options.get("trial_seed"))
        return seed

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Provenance:
        """Rebuild a provenance from ``dataclasses.asdict``, even after a trip through JSON."""
        check_fields(data, _ENTRY, optional=("run", "files"))
        for each in data["data"]:
            check_fields(each, _DATA_FILE, where="data")
        check_fields(data["machine"], _MACHINE, where="machine")
        files = tuple(DataFile(**each) for each in data["data"])
        return cls(**{**data, "data": files, "warnings": tuple(data["warnings"])})


def trace(
    command: Iterable[str],
    options: Mapping[str, Any],
    data: Iterable[Path],
    seconds: float,
    warnings: Iterable[str] = (),
    results: SealedRun | None = None,
) -> Provenance:
    """Return the provenance of what ``command`` made of the files and folders ``data``."""
    return Provenance(
        command=shlex.join(command),
        options=dict(options),
        data=tuple(_describe(path) for path in data),
        versions={
            "regraft": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in _LIBRARIES},
        },
        machine={"system": platform.platform(), "cores": os.cpu_count()},
        seconds=round(seconds, 2),
        written=datetime.now(UTC).isoformat(timespec="seconds"),
        warnings=tuple(warnings),
        run="" if results is None else results.id,
        files={} if results is None else results.files,
    )


def write_provenance(
    folder: Path, name: str, provenance: Provenance, into: Path | None = None
) -> Path:
    """Add the provenance of the command ``name`` to those in ``folder``; return the file.

    It is written ``into`` another folder if that is given. Files that an earlier command wrote and
    this one replaces are this one's.
    """
    path = (into or folder) / PROVENANCE
    entries = {key: asdict(value) for key, value in read_provenance(folder).items()}
    for entry in entries.values():
        for file in provenance.files:
            entry["files"].pop(file, None)
    entries[name] = asdict(provenance)
    sealed = {key: {**entry, _SEAL: digest_json([key, entry])} for key, entry in entries.items()}
    write_text(path, dumps(sealed))
    return path


def _read_entry(name: str, entry: Any) -> Provenance:
    """Check and read an entry; those of older versions have no run, and no checksum either."""
    if not isinstance(entry, dict):
        raise ValueError(f"{name} is not an object")
    rest = {key: value for key, value in entry.items() if key != _SEAL}
    if (_SEAL in entry or "run" in entry) and entry.get(_SEAL) != digest_json([name, rest]):
        raise ValueError(f"{name} was changed since it was written")
    return Provenance.from_dict(rest)


def read_provenance(folder: Path) -> dict[str, Provenance]:
    """Read the provenance of each command, in the order of their first run."""
    finish_publication(folder)
    path = folder / PROVENANCE
    if not path.exists():
        return {}
    try:
        document = load_json(read_file(path))
        return {name: _read_entry(name, entry) for name, entry in document.items()}
    except (AttributeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged: delete it and run the command again ({error})."
        ) from None


def _describe(path: Path) -> DataFile:
    if path.is_file():
        return DataFile(str(path), digest_file(path), "the file")
    if is_bank(path):
        return DataFile(str(path), open_bank(path).checksum, "the bank's arrays")
    for folder in (path, path / "model"):
        if is_model(folder):
            return DataFile(str(path), digest_file(folder / ARRAYS), "the model's arrays")
    # A folder of runs may also hold what is made of them, this provenance for one.
    runs = sorted(path.rglob(_RUN))
    if runs:
        return DataFile(str(path), _listing(path, runs), f"the names and sizes of its {_RUN}")
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return DataFile(str(path), _listing(path, files), "the names and sizes of its files")


def _listing(folder: Path, files: Iterable[Path]) -> str:
    return digest_parts(
        f"{path.relative_to(folder)}\t{path.stat().st_size}\n".encode() for path in files
    )
