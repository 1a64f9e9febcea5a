"""In which settings two runs differ that are otherwise the same, in a few words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_MOST = 3  # settings that are told
_LONGEST = 40  # characters of a value
_UNSET = (None, False, 0, "", "{}")  # which programs write, or leave out
_NO_SETTINGS = ("output_dir", "test_envs")  # the latter in any order


def describe_differences(
    first: Mapping[str, Any], second: Mapping[str, Any], names: Iterable[str] | None = None
) -> str:
    """Tell the settings among the args of two runs that differ, such as ``steps 21 and 51``.

    Those of ``names``, by default all; empty if there are none.
    """
    chosen = dict.fromkeys([*first, *second]) if names is None else names
    found = [
        f"{name} {_word(first.get(name), second.get(name))} and "
        f"{_word(second.get(name), first.get(name))}"
        for name in chosen
        if name not in _NO_SETTINGS and _known(first.get(name)) != _known(second.get(name))
    ]
    more = [f"{len(found) - _MOST} more"] if len(found) > _MOST else []
    return ", ".join(found[:_MOST] + more)


def _known(value: Any) -> Any:
    return None if value in _UNSET else value


def _word(value: Any, other: Any) -> str:
    if isinstance(value, bool) or (value is None and isinstance(other, bool)):
        return "true" if value else "false"
    text = "unset" if value is None or value == "" else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
