"""The table of a comparison as Markdown, CSV and LaTeX, in percent."""

from __future__ import annotations

from pathlib import Path

from regraft.estimators.comparison import Comparison, ComparisonRow
from regraft.support.files import write_text
from regraft.support.table import Cell, Number, Table

CAPTION = (
    "Accuracy (%) in the domain left out, by domain. Sources: on the rows fitted on, mean over "
    "their domains and over what was left out."
)


def markdown(comparison: Comparison) -> str:
    """Write the table under its caption, with the points above ERM."""
    table = _table(comparison, with_gains=True)
    return f"{CAPTION} In brackets: points above ERM.\n\n{table.markdown()}\n"


def latex(comparison: Comparison) -> str:
    """Write a booktabs ``tabular`` with the best of each column in bold."""
    return f"% {CAPTION}\n{_table(comparison, with_gains=False).latex()}"


def write_tables(folder: Path, comparison: Comparison) -> list[Path]:
    """Write comparison.md, .csv and .tex into ``folder``, making it; return their paths."""
    files = [folder / f"comparison.{suffix}" for suffix in ("md", "csv", "tex")]
    contents = markdown(comparison), _csv_table(comparison).csv(), latex(comparison)
    for file, content in zip(files, contents, strict=True):
        write_text(file, content)
    return files


def _table(comparison: Comparison, *, with_gains: bool) -> Table:
    rows = []
    for i, row in enumerate(comparison.rows):
        average, worst = Number(100 * row.average), Number(100 * row.worst)
        summary: tuple[Cell, Cell] = average, worst
        if with_gains and i:
            summary = _gain(average, row.average_gain), _gain(worst, row.worst_gain)
        accuracy = (Number(100 * value) for value in row.accuracy.values())
        rows.append((row.head, *accuracy, *summary, Number(100 * row.source)))
    columns = "Head", *comparison.targets, "Average", "Worst", "Sources"
    return Table(CAPTION, columns, tuple(rows))


def _gain(number: Number, gain: float) -> str:
    return f"{number} ({100 * gain:+.1f})"


def _csv_table(comparison: Comparison) -> Table:
    columns = ("head", "radius", *comparison.targets, "average", "worst", "worst domain", "sources")
    gains = "average minus ERM", "worst minus ERM"
    rows = tuple(map(_csv_row, comparison.rows))
    return Table(CAPTION, (*columns, *gains, "seconds"), rows)


def _csv_row(row: ComparisonRow) -> tuple[Cell, ...]:
    accuracy = map(_points, (*row.accuracy.values(), row.average, row.worst))
    rest = map(_points, (row.source, row.average_gain, row.worst_gain))
    return row.head, row.radius, *accuracy, row.worst_target, *rest, round(row.seconds, 2)


def _points(share: float) -> float:
    return round(100 * share, 4)
