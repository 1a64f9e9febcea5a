"""The lines of a run's results: each a record, or with the reason why it is none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regraft.support.json_files import Line, parse_object, read_lines
from regraft.support.seals import CHANGED, unseal


@dataclass(frozen=True)
class RunLine:
    """A line, and its record, or None and the reason."""

    line: Line
    record: dict[str, Any] | None
    reason: str = ""


def read_run_lines(path: Path) -> list[RunLine]:
    """Read the lines that are not blank, none if there is no file.

    Our own lines carry checksums, and in a file with one of them all have to. Lines of other
    programs have none, and are believed.
    """
    read = [(line, *_parse(line)) for line in read_lines(path) if line.content.strip()]
    is_ours = any(is_sealed for *_, is_sealed in read)
    return [
        RunLine(line, None, CHANGED)
        if record is not None and is_ours and not is_sealed
        else RunLine(line, record, reason)
        for line, record, reason, is_sealed in read
    ]


def read_first_record(path: Path) -> dict[str, Any] | None:
    """Read the record in the first line that is not blank, None if there is none."""
    first = next((line for line in read_lines(path) if line.content.strip()), None)
    return None if first is None else _parse(first)[0]


def _parse(line: Line) -> tuple[dict[str, Any] | None, str, bool]:
    """Return the record or the reason why there is none, and whether it has its checksum."""
    try:
        record, is_sealed = unseal(parse_object(line.content))
    except ValueError as error:
        return None, str(error), False
    return record, "", is_sealed
