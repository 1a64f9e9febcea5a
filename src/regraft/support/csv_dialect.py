"""How cells of CSV are separated, and how numbers are written in them."""

from __future__ import annotations

import re

_DELIMITERS = ",;\t"
_DECIMAL = re.compile(r"[-+]?\d+,\d+")


def find_delimiter(header: str) -> str:
    """Return what the line of names has most of: commas, semicolons or tabs."""
    return max(_DELIMITERS, key=header.count)


def read_decimals(cells: list[str], delimiter: str) -> list[str]:
    """Return the cells with decimal points; where semicolons separate, commas are decimal."""
    if delimiter != ";":
        return cells
    return [cell.replace(",", ".") if _DECIMAL.fullmatch(cell) else cell for cell in cells]
