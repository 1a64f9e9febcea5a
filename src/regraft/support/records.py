"""Finished runs, one line of JSON each, in a file that survives a kill at any moment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regraft.support.files import append_line
from regraft.support.json_files import dumps


class Records:
    """The records in the file ``path``, which one process at a time may write.

    A record is a dictionary whose ``args`` say which run it is; the first record of a run counts.
    A line counts once its line break is written, so a kill costs at most the record it interrupts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: set[str] | None = None  # the runs in the file; None until it is read
        self._whole = False  # whether the file is known to end with a whole line

    def read(self) -> list[dict[str, Any]]:
        """All records, in the order of the file, none if there is no file.

        Raises ``ValueError`` with one sentence if a line is damaged.
        """
        records, _ = self._load()
        self._known = set(records)
        return list(records.values())

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a record to the disk before returning, making the file and its folder.

        Raises ``TypeError`` or ``ValueError`` with one sentence if the record is not plain data
        with ``args`` or if the file is damaged; NaN and infinity become null.
        """
        line = _line(record)
        if self._known is None or not self._whole:
            self._known = self._mend()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._whole = False
        append_line(self._path, line)
        self._whole = True
        self._known.add(_identity(record["args"]))

    def done(self, args: Mapping[str, Any]) -> bool:
        """Whether there is a record with exactly these ``args``.

        The file is read at the first question only; later ones see what this object appended.
        """
        if self._known is None:
            self._known = set(self._load()[0])
        return _identity(args) in self._known

    def _load(self) -> tuple[dict[str, dict[str, Any]], int]:
        """The records by run, and the length of the file up to its last line break."""
        content = self._path.read_bytes() if self._path.exists() else b""
        *lines, torn = content.split(b"\n")
        records: dict[str, dict[str, Any]] = {}
        for number, line in enumerate(lines, start=1):
            record = _parse(line)
            if record is None:
                raise self._damage(number)
            records.setdefault(_identity(record["args"]), record)
        if torn and not torn.startswith(b"{"):  # not the beginning of a record
            raise self._damage(len(lines) + 1)
        return records, len(content) - len(torn)

    def _mend(self) -> set[str]:
        """Cut off a torn last line; the runs in the file."""
        records, length = self._load()  # refuses a file that holds something else
        if self._path.exists():
            os.truncate(self._path, length)
        return set(records)

    def _damage(self, number: int) -> ValueError:
        return ValueError(
            f"line {number} of {self._path} is not a record: delete that line to run it again, or "
            "choose another file."
        )


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:  # not JSON, or not even text
        return None
    if not isinstance(record, dict) or not isinstance(record.get("args"), dict):
        return None
    return record


def _line(record: Mapping[str, Any]) -> bytes:
    if not isinstance(record.get("args"), Mapping):
        raise ValueError("the record has no args to tell its run by: add a dictionary of them.")
    for key, value in record.items():
        _check_plain(key, value)
    return dumps(dict(record), indent=None).encode() + b"\n"


def _check_plain(name: str, value: Any) -> None:
    try:
        dumps(value, indent=None)
    except TypeError as error:
        raise TypeError(
            f"{name} cannot be written ({error}): pass plain Python data, not NumPy's or torch's."
        ) from None


def _identity(args: Mapping[str, Any]) -> str:
    """The same text for the same args, whatever the order of their keys; lists equal tuples."""
    _check_plain("args", dict(args))
    return json.dumps(json.loads(dumps(dict(args), indent=None)), sort_keys=True)
