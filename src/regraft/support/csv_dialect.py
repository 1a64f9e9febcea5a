"""How cells of CSV are separated, and how numbers are written in them."""

from __future__ import annotations

import re

_DELIMITERS = ",;\t"
_DECIMAL = re.compile(r"[-+]?\d+,\d+")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")


def find_delimiter(header: str) -> str:
    """Return what the line of names has most of: commas, semicolons or tabs."""
    return max(_DELIMITERS, key=header.count)


def read_decimals(cells: list[str], delimiter: str) -> list[str]:
    """Return the cells with decimal points; where semicolons separate, commas are decimal."""
    if delimiter != ";":
        return cells
    return [cell.replace(",", ".") if _DECIMAL.fullmatch(cell) else cell for cell in cells]


class DottedThousands:
    """Looks through the cells of a file for dots between thousands, where commas are decimal."""

    def __init__(self, delimiter: str) -> None:
        self._is_asked, self._has_commas = delimiter == ";", False
        self._found: tuple[str, str] | None = None

    def look_at(self, cells: list[str], where: str) -> None:
        """Take in the cells of a row, as they are in the file."""
        if not self._is_asked:
            return
        self._has_commas = self._has_commas or any(map(_DECIMAL.fullmatch, cells))
        if self._found is None:
            dotted = next(filter(_THOUSANDS.fullmatch, cells), None)
            self._found = None if dotted is None else (where, dotted)

    def warning(self) -> str | None:
        """Return what to warn of after the last row; None if there is nothing."""
        if self._found is None or not self._has_commas:
            return None
        where, cell = self._found
        return (
            f"{where} has {cell}, whose dot is read as a decimal point, though commas are decimal "
            "in this file: remove dots between thousands."
        )
