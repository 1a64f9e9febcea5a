"""One table, printed to a terminal, as Markdown, LaTeX, HTML and CSV, or as a data frame."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from regraft.support.extras import require
from regraft.support.plain_text import show_plainly

# rich is imported where it is used, so that --help does not wait for it.
if TYPE_CHECKING:
    from rich.table import Table as RichTable

_LATEX_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


@dataclass(frozen=True)
class Number:
    """A number, how many digits of it are printed, and its standard error if it has one."""

    value: float
    error: float | None = None
    format: str = ".1f"
    mark: str = ""  # printed behind it, to point to a note

    @property
    def digits(self) -> str:
        """The number as it is printed, without its error."""
        return f"{self.value:{self.format}}"

    def __str__(self) -> str:
        if self.error is None:
            return f"{self.digits}{self.mark}"
        return f"{self.digits} ± {self.error:{self.format.lstrip('+')}}{self.mark}"


Cell = str | float | Number | None  # None where there is nothing to show


@dataclass(frozen=True)
class Table:
    """Rows of cells under a title, which every form but the page leaves to the caller."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    marked: frozenset[int] = frozenset()  # the rows to look at first
    note: str = ""  # lines below the table
    sections: frozenset[int] = frozenset()  # the rows that begin a section
    align: str = "l"  # "l" or "r" for the first columns; the others hold numbers

    @classmethod
    def from_sections(
        cls, title: str, columns: Sequence[str], *sections: Iterable[Sequence[Cell]], **fields: Any
    ) -> Table:
        """Join groups of rows to one table that keeps them apart."""
        rows: list[tuple[Cell, ...]] = []
        starts = set()
        for section in sections:
            starts.add(len(rows))
            rows += map(tuple, section)
        inner = frozenset(starts - {0, len(rows)})
        return cls(title, tuple(columns), tuple(rows), sections=inner, **fields)

    @classmethod
    def from_objects(cls, title: str, columns: Mapping[str, str], rows: Iterable[object]) -> Table:
        """Make a row of each object; ``columns`` maps names to formats such as ``{.risk:.3f}``."""
        cells = tuple(tuple(form.format(row) for form in columns.values()) for row in rows)
        return cls(title, tuple(columns), cells)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Table:
        """Read what ``to_dict`` returns."""
        columns, rows = document["columns"], document["rows"]
        return cls(document["title"], tuple(columns), tuple(map(tuple, rows)))

    def to_dict(self) -> dict[str, Any]:
        """Return the title, the columns and the printed cells in JSON's types."""
        return {"title": self.title, "columns": self.columns, "rows": self.texts()}

    def texts(self) -> list[tuple[str, ...]]:
        """Return the cells as they are printed."""
        return [tuple("–" if cell is None else str(cell) for cell in row) for row in self.rows]

    def terminal(self) -> RichTable:
        """Build the table for the terminal; its last column stands out."""
        from rich import box
        from rich.table import Table as RichTable

        table = RichTable(box=box.SIMPLE_HEAD)
        for i, column in enumerate(self.columns):
            table.add_column(
                show_plainly(column),
                justify="left" if self.align[i : i + 1] == "l" else "right",
                style="bold cyan" if i == len(self.columns) - 1 else None,
                no_wrap=True,
            )
        for i, row in enumerate(self.texts()):
            if i in self.sections:
                table.add_section()
            table.add_row(*map(show_plainly, row), style="bold" if i in self.marked else None)
        return table

    def markdown(self) -> str:
        """Write the table in Markdown, and the note as a list below it."""
        rules = "".join("---|" if side == "l" else "---:|" for side in self._sides())
        grid = [_markdown_row(self.columns), f"|{rules}", *map(_markdown_row, self.texts())]
        note = [f"- {line}" for line in self.note.splitlines()]
        return "\n".join([*grid, "", *note] if note else grid)

    def latex(self) -> str:
        """Write a booktabs ``tabular``, the highest number of each column in bold."""
        best = [_highest(column) for column in zip(*self.rows, strict=True)]
        width = len(self.columns)
        lines = [
            rf"\begin{{tabular}}{{{self.align.ljust(width, 'c')[:width]}}}",
            r"\toprule",
            rf"{' & '.join(map(_latex_head, self.columns))} \\",
            *([r"\midrule"] if self.rows else []),
        ]
        for i, row in enumerate(self.rows):
            cells = [_latex_cell(cell, top) for cell, top in zip(row, best, strict=True)]
            lines += [r"\midrule"] if i in self.sections else []
            lines.append(rf"{' & '.join(cells)} \\")
        note = [escape_latex(line) for line in self.note.splitlines()]
        lines += [r"\midrule"] if note else []
        lines += [rf"\multicolumn{{{width}}}{{l}}{{\footnotesize {line}}} \\" for line in note]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])

    def html(self) -> str:
        """Write an HTML table with its title as caption, and the note as paragraphs below it."""
        sides = ["left" if side == "l" else "right" for side in self._sides()]
        head = [
            f'<th scope="col" style="text-align: {side}">{escape(name)}</th>'
            for name, side in zip(self.columns, sides, strict=True)
        ]
        lines = ["<table>", f"<caption>{escape(self.title)}</caption>" if self.title else ""]
        lines.append(f"<thead><tr>{''.join(head)}</tr></thead>")
        rows = [_html_row(row, sides, i in self.marked) for i, row in enumerate(self.texts())]
        for start, stop in pairwise([0, *sorted(self.sections), len(rows)]):
            lines += ["<tbody>", *rows[start:stop], "</tbody>"]
        notes = (f"<p>{escape(line)}</p>" for line in self.note.splitlines())
        return "\n".join(line for line in (*lines, "</table>", *notes) if line)

    def csv(self) -> str:
        """Write a header row and all digits of the numbers, without their errors."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self._values()])
        return text.getvalue()

    def frame(self) -> Any:
        """Return a pandas DataFrame with all digits of the numbers, without their errors."""
        pandas = require("pandas", "frames")
        return pandas.DataFrame.from_records(self._values(), columns=list(self.columns))

    def _values(self) -> list[list[str | float | None]]:
        return [[c.value if isinstance(c, Number) else c for c in row] for row in self.rows]

    def _sides(self) -> str:
        """Return "l" or "r" for each column."""
        return self.align.ljust(len(self.columns), "r")[: len(self.columns)]


def percent(share: float) -> str:
    """Write a share of one in percent."""
    return f"{100 * share:z.1f}%"


def whole_percent(share: float) -> str:
    """Write a share of one in whole percent; shares that differ by rounding errors look alike."""
    return f"{round(share, 4):.0%}"


def at_least(bound: float) -> str:
    """Write a bound on an accuracy; one of zero promises nothing."""
    return f"at least {percent(bound)}" if is_useful(bound) else "nothing useful can be certified"


def is_useful(bound: float) -> bool:
    """Return whether a bound on an accuracy is above zero as it is printed."""
    return percent(bound) != percent(0.0)


def write_p_value(p_value: float) -> str:
    """Write a p-value for a sentence; one that is tiny only as a bound."""
    return f"p = {p_value:.3f}" if p_value >= 0.001 else "p < 0.001"


def share(value: float) -> Number:
    """Return a share of one as a cell that prints in percent and keeps all digits."""
    return Number(value, format=".1%")


def escape_latex(text: str) -> str:
    """Escape the signs that mean something in LaTeX."""
    return "".join(_LATEX_SIGNS.get(character, character) for character in text)


def _markdown_row(cells: Sequence[str]) -> str:
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _html_row(cells: Sequence[str], sides: Sequence[str], is_marked: bool) -> str:
    """Write a row; its first cell is its heading."""
    written = []
    for i, (cell, side) in enumerate(zip(cells, sides, strict=True)):
        tag, scope = ("td", "") if i else ("th", ' scope="row"')
        text = f"<strong>{escape(cell)}</strong>" if is_marked else escape(cell)
        written.append(f'<{tag}{scope} style="text-align: {side}">{text}</{tag}>')
    return f"<tr>{''.join(written)}</tr>"


def _highest(column: Sequence[Cell]) -> str | None:
    """Find the highest number as it is printed, so that equal numbers look equal."""
    numbers = [cell.digits for cell in column if isinstance(cell, Number)]
    return max(numbers, key=lambda digits: float(digits.rstrip("%")), default=None)


def _latex_cell(cell: Cell, best: str | None) -> str:
    if not isinstance(cell, Number):
        return "--" if cell is None else escape_latex(str(cell))
    digits, error = map(escape_latex, (cell.digits, str(cell).removeprefix(cell.digits)))
    shown = rf"\textbf{{{digits}}}" if cell.digits == best else digits
    return shown + error.replace("±", r"$\pm$")


def _latex_head(name: str) -> str:
    """Write the name of a column; a sign in front of a number is a minus, not a hyphen."""
    signed = re.fullmatch(r"([+-])(\d.*)", name)
    return f"${signed[1]}${escape_latex(signed[2])}" if signed else escape_latex(name)
