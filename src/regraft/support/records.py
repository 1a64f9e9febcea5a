"""Finished runs, one JSON line each, in a file that survives a kill at any moment."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from regraft.support.json_files import (
    append_json,
    drop_torn_line,
    dumps,
    parse_object,
    read_lines,
)
from regraft.support.seals import seal, unseal


class Records:
    """The records in the file ``path``, which one process at a time may write.

    A record is a dictionary whose ``args`` say which run it is; the first record of a run counts.
    A line counts once its line break is written, so a kill costs at most the record it interrupts.
    Every line carries its own checksum. ``check`` raises ``ValueError`` with the reason for a
    record that cannot be one.
    """

    def __init__(self, path: Path, check: Callable[[dict[str, Any]], None] | None = None) -> None:
        self._path, self._check = path, check
        self._known: set[str] | None = None  # the runs in the file; None until it is read
        self._ends_whole = False  # whether the file is known to end with a whole line

    def read(self) -> list[dict[str, Any]]:
        """Return all records in the order of the file; raise ``ValueError`` if one is damaged."""
        records = self._load()
        self._known = set(records)
        return list(records.values())

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a record to the disk before returning, making the file and its folder.

        Raises ``TypeError`` or ``ValueError`` with one sentence if the record is not plain data
        with ``args`` or if the file is damaged; NaN and infinity become null.
        """
        if not isinstance(record.get("args"), Mapping):
            raise ValueError(
                "the record has no args to identify its run by: add a dictionary of them."
            )
        for key, value in record.items():
            _check_plain(key, value)
        if self._known is None or not self._ends_whole:
            self._known = set(self._load())  # refuses a file that holds something else
            drop_torn_line(self._path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._ends_whole = False
        append_json(self._path, seal(record))
        self._ends_whole = True
        self._known.add(_identity(record["args"]))

    def done(self, args: Mapping[str, Any]) -> bool:
        """Return whether there is a record with exactly these ``args``.

        The file is read at the first question only; later ones see what this object appended.
        """
        if self._known is None:
            self._known = set(self._load())
        return _identity(args) in self._known

    def _load(self) -> dict[str, dict[str, Any]]:
        """Read the records and the identities of their runs."""
        records: dict[str, dict[str, Any]] = {}
        sealed: list[bool] = []  # of each line: older files have no checksums
        for line in read_lines(self._path):
            if not line.is_whole and line.content.startswith(b"{"):
                break  # the beginning of a record
            try:
                record, is_sealed = self._parse(line.content if line.is_whole else b"")
                sealed.append(is_sealed)
                if len(set(sealed)) > 1:
                    raise ValueError("it or a line before it was changed since it was written")
            except ValueError as error:
                raise ValueError(
                    f"line {line.number} of {self._path} is not a record ({error}): delete that "
                    "line to run it again, or choose another file."
                ) from None
            records.setdefault(_identity(record["args"]), record)
        return records

    def _parse(self, content: bytes) -> tuple[dict[str, Any], bool]:
        """Read a record, and whether it has a checksum."""
        document = parse_object(content)
        if not isinstance(document.get("args"), dict):
            raise ValueError("args are not an object")
        record, is_sealed = unseal(document)
        if self._check is not None:
            self._check(record)
        return record, is_sealed


def _check_plain(name: str, value: Any) -> None:
    try:
        dumps(value, indent=None)
    except TypeError as error:
        raise TypeError(
            f"{name} cannot be written ({error}): pass plain Python data, not NumPy's or torch's."
        ) from None


def _identity(args: Mapping[str, Any]) -> str:
    """Return one text for equal args, whatever the order of their keys; lists equal tuples."""
    _check_plain("args", dict(args))
    return json.dumps(json.loads(dumps(dict(args), indent=None)), sort_keys=True)
