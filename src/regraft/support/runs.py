"""The run that a file of results belongs to: an id in every JSON file, and checksums of all."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regraft.support.digests import digest_file, digest_text
from regraft.support.files import write_text
from regraft.support.json_files import parse_object

PROVENANCE = "provenance.json"  # in the folder of a run: by command, the last one's
RUN = "run"  # the key of a run's id in its JSON files
_ID_LENGTH = 16


@dataclass(frozen=True)
class SealedRun:
    """The id of a run, which follows from its results, and the sha256 of its files by path."""

    id: str
    files: dict[str, str]


def seal_run(folder: Path) -> SealedRun:
    """Write the id of the run into the JSON files in ``folder``, where all files are of one run."""
    names = sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    contents = {name: digest_file(folder / name) for name in names}
    run = digest_text(json.dumps(contents))[:_ID_LENGTH]
    for name in names:
        if name.endswith(".json"):
            document = parse_object((folder / name).read_bytes())
            write_text(folder / name, json.dumps({**document, RUN: run}, indent=2))
            contents[name] = digest_file(folder / name)
    return SealedRun(run, contents)


def check_run(folder: Path, name: str) -> None:
    """Raise ``ValueError`` unless a file is as the run wrote it that the provenance tells of.

    Without a provenance in ``folder``, files are taken as they are.
    """
    entries = _read_entries(folder / PROVENANCE)
    if entries is None:
        return
    expected = {
        digest: entry.get(RUN)
        for entry in entries
        for file, digest in entry["files"].items()
        if file == name
    }
    is_result = "/" not in name  # a folder of a model may have been put beside other results
    run = _read_run(folder / name)
    if not (expected or (is_result and run)) or digest_file(folder / name) in expected:
        return
    if run is not None and run not in expected.values():
        raise ValueError(
            f"{folder / name} and {folder / PROVENANCE} are of two runs: run the command again."
        )
    raise ValueError(
        f"{folder / name} is damaged or was changed since it was written: run the command again."
    )


def _read_entries(path: Path) -> list[dict[str, Any]] | None:
    """Read what a provenance says of each command's files, None if it is no provenance."""
    try:
        entries = parse_object(path.read_bytes()).values()
    except (OSError, ValueError):
        return None
    return [
        entry
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("files"), dict)
    ]


def _read_run(path: Path) -> Any:
    try:
        return parse_object(path.read_bytes()).get(RUN)
    except ValueError:
        return None
