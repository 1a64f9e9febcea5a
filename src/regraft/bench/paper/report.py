"""Our accuracies beside the published ones, as Markdown, CSV and LaTeX.

Everywhere ``ours`` maps labels such as "CRO (regraft, preset paper)" to selections, and
``published`` are the rows to compare with, chosen by the same rule: by default the benchmark's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regraft.bench.paper.benchmark import COLORED_MNIST, Benchmark
from regraft.bench.paper.published import Published
from regraft.bench.protocol.selection import Selection
from regraft.support.files import write_text
from regraft.support.table import Table, escape_latex

_NONE = (None, None)


@dataclass(frozen=True)
class _Row:
    """A row in percent, with None where there is no number."""

    algorithm: str
    source: str
    means: tuple[float | None, ...]  # by environment
    errors: tuple[float | None, ...]  # by environment
    spreads: tuple[tuple[float | None, float | None], ...]  # by environment
    summary: tuple[float | None, ...]  # under the last columns


def csv_columns(benchmark: Benchmark) -> tuple[str, ...]:
    """The names of the columns of ``csv_rows``."""
    whats = ("mean", "error", "lowest", "highest")
    cells = (f"{env} {what}" for env in benchmark.environments for what in whats)
    return ("algorithm", "source", *cells, "average", *(["worst"] * benchmark.compares_erm))


def markdown(
    ours: Mapping[str, Selection],
    published: Sequence[Published] | None = None,
    benchmark: Benchmark = COLORED_MNIST,
) -> str:
    """The table and, for each of our cells, the spread over configurations."""
    table = text_table(ours, published, benchmark)
    lines = [f"{table.title}, by held-out environment.", "", table.markdown()]
    spreads = _spreads(ours, benchmark)
    return "\n".join([*lines, "", *(f"- {spread}" for spread in spreads), ""])


def text_table(
    ours: Mapping[str, Selection],
    published: Sequence[Published] | None = None,
    benchmark: Benchmark = COLORED_MNIST,
) -> Table:
    """The published rows and ours, as one shows them."""
    theirs, mine = _rows(ours, published, benchmark)
    rows = [
        (
            row.algorithm,
            row.source,
            *(
                "–" if mean is None else f"{mean:.1f}{plus_minus(error, ' ± ')}"
                for mean, error in _numbers(row)
            ),
        )
        for row in [*theirs, *mine]
    ]
    return Table(
        f"{benchmark.title}, test accuracy (%) ± standard error over trials",
        ("Algorithm", "Source", *benchmark.environments, *summary_heads(benchmark)),
        tuple(rows),
        align="ll",
    )


def short_rows(
    ours: Mapping[str, Selection], benchmark: Benchmark
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return the means of ERM, of the best other algorithm and of the paper, then our own."""
    by_name = {row.algorithm: row for row in benchmark.published}
    others = [row for name, row in by_name.items() if name not in ("ERM", "CRO")]
    best = max(others, key=lambda row: row.average)
    theirs, mine = _rows(ours, (by_name["ERM"], best, by_name["CRO"]), benchmark)

    def texts(row: _Row, label: str) -> tuple[str, ...]:
        numbers = (*row.means, *row.summary)
        return label, *("–" if number is None else f"{number:.1f}" for number in numbers)

    return (
        [texts(row, f"{row.algorithm} ({row.source})") for row in theirs],
        [texts(row, row.algorithm) for row in mine],
    )


def csv_rows(
    ours: Mapping[str, Selection],
    published: Sequence[Published] | None = None,
    benchmark: Benchmark = COLORED_MNIST,
) -> list[tuple[Any, ...]]:
    """The rows under ``csv_columns``, in percent; None where there is no number."""
    rows = []
    theirs, mine = _rows(ours, published, benchmark)
    for row in [*theirs, *mine]:
        numbers: list[float | None] = []
        for mean, error, spread in zip(row.means, row.errors, row.spreads, strict=True):
            numbers += [mean, error, *spread]
        rounded = [None if x is None else round(x, 4) for x in [*numbers, *row.summary]]
        rows.append((row.algorithm, row.source, *rounded))
    return rows


def latex(
    ours: Mapping[str, Selection],
    published: Sequence[Published] | None = None,
    benchmark: Benchmark = COLORED_MNIST,
) -> str:
    """A booktabs ``tabular`` with the best of each column in bold and our spreads below."""
    theirs, mine = _rows(ours, published, benchmark)
    columns = zip(*([mean for mean, _ in _numbers(row)] for row in [*theirs, *mine]), strict=True)
    best = [max((round(x, 1) for x in column if x is not None), default=0) for column in columns]
    heads = [*map(_latex_head, benchmark.environments), *summary_heads(benchmark)]
    spread_row = rf"\multicolumn{{{len(heads) + 2}}}{{l}}{{\footnotesize %s}} \\"
    sections = (
        [_latex_row(row, best) for row in theirs],
        [_latex_row(row, best) for row in mine],
        [spread_row % escape_latex(spread) for spread in _spreads(ours, benchmark)],
    )
    lines = [
        rf"\begin{{tabular}}{{ll{'c' * len(heads)}}}",
        r"\toprule",
        rf"{' & '.join(['Algorithm', 'Source', *heads])} \\",
    ]
    for section in filter(None, sections):
        lines += [r"\midrule", *section]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def write_tables(
    folder: Path,
    ours: Mapping[str, Selection],
    published: Sequence[Published] | None = None,
    benchmark: Benchmark = COLORED_MNIST,
) -> list[Path]:
    """Write table.md, table.csv and table.tex into ``folder``, making it; the files written."""
    files = [folder / f"table.{suffix}" for suffix in ("md", "csv", "tex")]
    write_text(files[0], markdown(ours, published, benchmark))
    rows = tuple(csv_rows(ours, published, benchmark))
    write_text(files[1], Table(benchmark.title, csv_columns(benchmark), rows).csv())
    write_text(files[2], latex(ours, published, benchmark))
    return files


def summary_heads(benchmark: Benchmark) -> list[str]:
    """The last columns: the average, and where ERM is compared the worst environment."""
    return ["Avg", "Worst"] if benchmark.compares_erm else ["Avg"]


def summarize(
    means: Sequence[float | None], average: float | None, benchmark: Benchmark
) -> tuple[float | None, ...]:
    """What stands under ``summary_heads``; the worst of an incomplete row is not known."""
    if not benchmark.compares_erm:
        return (average,)
    known = [mean for mean in means if mean is not None]
    return average, min(known) if len(known) == len(means) else None


def _rows(
    ours: Mapping[str, Selection], published: Sequence[Published] | None, benchmark: Benchmark
) -> tuple[list[_Row], list[_Row]]:
    """The published rows, and ours."""
    theirs = benchmark.published if published is None else published
    return (
        [_published_row(row, benchmark) for row in theirs],
        [_our_row(label, selection, benchmark) for label, selection in ours.items()],
    )


def _published_row(row: Published, benchmark: Benchmark) -> _Row:
    cells = [row.cells[env] for env in benchmark.environments]
    means = tuple(mean for mean, _ in cells)
    return _Row(
        row.algorithm,
        row.source,
        means=means,
        errors=tuple(error for _, error in cells),
        spreads=(_NONE,) * len(cells),
        summary=summarize(means, row.average, benchmark),
    )


def _our_row(label: str, selection: Selection, benchmark: Benchmark) -> _Row:
    cells = [selection.cells.get(env) for env in range(len(benchmark.environments))]
    means = tuple(100 * cell.mean if cell else None for cell in cells)
    average = None if selection.average is None else 100 * selection.average
    return _Row(
        label,
        "this run",
        means=means,
        # One trial has no spread to tell an error from.
        errors=tuple(100 * cell.error if cell and len(cell.trials) > 1 else None for cell in cells),
        spreads=tuple(
            (100 * cell.spread[0], 100 * cell.spread[1]) if cell else _NONE for cell in cells
        ),
        summary=summarize(means, average, benchmark),
    )


def _numbers(row: _Row) -> list[tuple[float | None, float | None]]:
    """All means of a row with their errors."""
    cells = zip(row.means, row.errors, strict=True)
    return [*cells, *((mean, None) for mean in row.summary)]


def _spreads(ours: Mapping[str, Selection], benchmark: Benchmark) -> list[str]:
    """A line for each of our cells."""
    return [
        f"{label}, {benchmark.environments[env]}: {100 * cell.spread[0]:.1f} to "
        f"{100 * cell.spread[1]:.1f} over all configurations and trials; chosen by trial: "
        f"{', '.join(map(str, cell.chosen))}"
        for label, selection in ours.items()
        for env, cell in selection.cells.items()
    ]


def _latex_row(row: _Row, best: Sequence[float]) -> str:
    texts = [escape_latex(row.algorithm), escape_latex(row.source)]
    for (mean, error), top in zip(_numbers(row), best, strict=True):
        if mean is None:
            texts.append("--")
            continue
        # What is printed decides, so that equal numbers look equal.
        number = rf"\textbf{{{mean:.1f}}}" if round(mean, 1) == top else f"{mean:.1f}"
        texts.append(number + plus_minus(error, r" $\pm$ "))
    return rf"{' & '.join(texts)} \\"


def plus_minus(error: float | None, sign: str) -> str:
    """The error behind ``sign``, or nothing if there is none."""
    return "" if error is None else f"{sign}{error:.1f}"


def _latex_head(name: str) -> str:
    """``name`` above a column; a sign in front of it is mathematics."""
    signed = name.startswith(("+", "-"))
    return f"${name[0]}${escape_latex(name[1:])}" if signed else escape_latex(name)
