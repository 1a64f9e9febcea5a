"""The table of a comparison as Markdown, CSV and LaTeX, in percent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regraft.estimators.comparison import Comparison, ComparisonRow
from regraft.support.files import write_text
from regraft.support.json_files import write_csv
from regraft.support.markup import escape_latex, markdown_table

CAPTION = (
    "Accuracy (%) in the domain left out, by domain. Sources: on the rows fitted on, mean over "
    "their domains and over what was left out."
)
_SUMMARY = ("Average", "Worst", "Sources")


def markdown(comparison: Comparison) -> str:
    """The table under its caption."""
    columns = ["Head", *comparison.targets, *_SUMMARY]
    rows = []
    for i, row in enumerate(comparison.rows):
        average, worst, source = (f"{100 * value:.1f}" for value in _summary(row))
        if i:
            average = f"{average} ({100 * row.average_gain:+.1f})"
            worst = f"{worst} ({100 * row.worst_gain:+.1f})"
        accuracy = [f"{100 * value:.1f}" for value in row.accuracy.values()]
        rows.append([row.head, *accuracy, average, worst, source])
    return f"{CAPTION} In brackets: points above ERM.\n\n{markdown_table(columns, rows)}\n"


def latex(comparison: Comparison) -> str:
    """A booktabs ``tabular`` with the best of each column in bold."""
    numbers = [
        [100 * x for x in (*row.accuracy.values(), *_summary(row))] for row in comparison.rows
    ]
    # What is printed decides, so that equal numbers look equal.
    texts = [[f"{x:.1f}" for x in row] for row in numbers]
    best = [max(column, key=float) for column in zip(*texts, strict=True)]
    lines = [
        f"% {CAPTION}",
        rf"\begin{{tabular}}{{l{'c' * len(best)}}}",
        r"\toprule",
        _latex_row(["Head", *comparison.targets, *_SUMMARY]),
        r"\midrule",
    ]
    for row, cells in zip(comparison.rows, texts, strict=True):
        shown = [rf"\textbf{{{x}}}" if x == top else x for x, top in zip(cells, best, strict=True)]
        lines.append(_latex_row([row.head], shown))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def write_tables(folder: Path, comparison: Comparison) -> list[Path]:
    """Write comparison.md, .csv and .tex into ``folder``, making it; the files written."""
    files = [folder / f"comparison.{suffix}" for suffix in ("md", "csv", "tex")]
    write_text(files[0], markdown(comparison))
    columns = ("head", "radius", *comparison.targets, "average", "worst", "worst domain", "sources")
    gains = "average minus ERM", "worst minus ERM"
    write_csv(files[1], (*columns, *gains, "seconds"), map(_csv_row, comparison.rows))
    write_text(files[2], latex(comparison))
    return files


def _summary(row: ComparisonRow) -> tuple[float, float, float]:
    return row.average, row.worst, row.source


def _csv_row(row: ComparisonRow) -> list[object]:
    accuracy = [_points(value) for value in row.accuracy.values()]
    summary = [_points(row.average), _points(row.worst), row.worst_target, _points(row.source)]
    gains = [_points(row.average_gain), _points(row.worst_gain)]
    return [row.head, row.radius, *accuracy, *summary, *gains, round(row.seconds, 2)]


def _points(share: float) -> float:
    return round(100 * share, 4)


def _latex_row(texts: Sequence[str], numbers: Sequence[str] = ()) -> str:
    return rf"{' & '.join([*map(escape_latex, texts), *numbers])} \\"
