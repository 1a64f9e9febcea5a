"""What a model remembers of the table that it was fitted on: columns that are no features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class ColumnRoles(NamedTuple):
    """Names of the columns of labels, domains and ids."""

    label: str = "label"
    domain: str = "domain"
    id: str | None = None  # None if no column was named

    @classmethod
    def from_dict(cls, names: Mapping[str, Any]) -> ColumnRoles:
        """Read what ``_asdict`` returns, also after a round trip through JSON."""
        found = cls(**names)
        if not all(isinstance(name, str | None) for name in found) or None in found[:2]:
            raise ValueError("columns without names")
        return found
