"""Dataclasses as plain data, for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any


class PlainData:
    """Base of dataclasses that can be written as JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings, lists and dictionaries."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]
