"""The lines of a run's results: each a record, or with the reason why it is none."""

from __future__ import annotations

from collections.abc import Iterator
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


def read_run_lines(path: Path) -> Iterator[RunLine]:
    """Read the lines that are not blank, none if there is no file.

    Our own lines carry checksums, and so do all that follow one of them; those of other programs
    have none, and are believed.
    """
    is_ours = False
    for line in read_lines(path):
        if not line.content.strip():
            continue
        try:
            record, is_sealed = unseal(parse_object(line.content))
            if is_ours and not is_sealed:
                raise ValueError(CHANGED)
        except ValueError as error:
            yield RunLine(line, None, str(error))
            continue
        is_ours = is_sealed
        yield RunLine(line, record)
