"""Check what was read from JSON: which keys there are, and which values they may have."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """A kind of values: its name in a sentence, and which values are of it."""

    name: str
    fits: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    # JSON's true is no number, though Python's is one.
    return type(value) in (int, float) and math.isfinite(value)


TEXT = Kind("text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
COUNT = Kind("a whole number from 0", lambda value: type(value) is int and value >= 0)
NUMBER = Kind("a finite number", _is_number)
SECONDS = Kind("a number from 0", lambda value: _is_number(value) and value >= 0)
SHARE = Kind("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
LIST = Kind("a list", lambda value: isinstance(value, list))
OBJECT = Kind("an object", lambda value: isinstance(value, dict))
SHA256 = Kind(
    "a sha256 of 64 digits",
    lambda value: (
        isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")
    ),
)


def one_of(*values: Any) -> Kind:
    """Make the kind of a few values."""
    return Kind(f"among {values}", lambda value: any(value is v or value == v for v in values))


def or_null(kind: Kind) -> Kind:
    """Make the kind that allows null too."""
    return Kind(f"{kind.name} or null", lambda value: value is None or kind.fits(value))


def list_of(kind: Kind) -> Kind:
    """Make the kind of lists whose members are of a kind."""
    return Kind(
        f"a list, each member {kind.name}",
        lambda value: isinstance(value, list) and all(map(kind.fits, value)),
    )


def object_of(kind: Kind) -> Kind:
    """Make the kind of objects whose values are of a kind, under any keys."""
    return Kind(
        f"an object, each value {kind.name}",
        lambda value: isinstance(value, dict) and all(map(kind.fits, value.values())),
    )


def check_fields(
    record: Any, kinds: Mapping[str, Kind], optional: Collection[str] = (), where: str = ""
) -> None:
    """Raise ``ValueError`` with the reason unless a record has the keys and values of ``kinds``.

    Keys among ``optional`` may be absent. ``where`` names the record in the reason, which quotes
    keys, so that nobody takes them for options.
    """
    before = f"{where}." if where else ""
    if not isinstance(record, dict):
        raise ValueError(f"{where or 'it'} is not an object")
    for name, kind in kinds.items():
        if name not in record:
            if name not in optional:
                raise ValueError(f"{before + name!r} is missing")
        elif not kind.fits(record[name]):
            raise ValueError(f"{before + name!r} is not {kind.name}")
    extra = sorted(set(record) - set(kinds))
    if extra:
        raise ValueError(f"{before}{extra[0]!s:.40} is not a key of it")
