"""Text as other languages write it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_LATEX_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


@dataclass(frozen=True)
class TextTable:
    """A table under a title."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def escape_latex(text: str) -> str:
    """``text`` as LaTeX writes it."""
    return "".join(_LATEX_SIGNS.get(character, character) for character in text)


def escape_markdown(text: str) -> str:
    """``text`` as a cell of a Markdown table."""
    return text.replace("|", r"\|")


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers, to the right."""
    lines = [markdown_row(columns), f"|---|{'---:|' * (len(columns) - 1)}"]
    return "\n".join([*lines, *map(markdown_row, rows)])


def markdown_row(cells: Sequence[str]) -> str:
    """One row of a Markdown table."""
    return f"| {' | '.join(map(escape_markdown, cells))} |"


def percent(share: float) -> str:
    """A share of one as text."""
    return f"{100 * share:.1f}%"
