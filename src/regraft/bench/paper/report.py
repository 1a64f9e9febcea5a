"""Our accuracies beside the published ones, as Markdown, CSV and LaTeX.

Everywhere ``ours`` maps labels such as "CRO (regraft, preset paper)" to selections, beside which
stand the published rows of the benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regraft.bench.paper.benchmark import COLORED_MNIST, Benchmark
from regraft.bench.protocol.selection import Cell, Selection
from regraft.support.files import write_text
from regraft.support.table import Number, Table

_DECIMALS = 4  # of a percentage in the CSV file


@dataclass(frozen=True)
class _Row:
    """The numbers of one algorithm in percent, None where there is none."""

    algorithm: str
    source: str
    numbers: tuple[Number | None, ...]  # by environment, then under ``summary_heads``
    spreads: tuple[tuple[float | None, float | None], ...]  # by environment


def summary_heads(benchmark: Benchmark) -> list[str]:
    """Name the last columns: the average, and where ERM is compared the worst environment."""
    return ["Avg", "Worst"] if benchmark.compares_erm else ["Avg"]


def accuracy_table(ours: Mapping[str, Selection], benchmark: Benchmark = COLORED_MNIST) -> Table:
    """Build the table of the published rows and ours; its note has the spread of our cells."""
    sections = [
        [(row.algorithm, row.source, *row.numbers) for row in rows]
        for rows in _rows(ours, benchmark)
    ]
    return Table.from_sections(
        f"{benchmark.title}, test accuracy (%) ± standard error over trials",
        ("Algorithm", "Source", *benchmark.environments, *summary_heads(benchmark)),
        *sections,
        align="ll",
        note="\n".join(
            f"{label}, {benchmark.environments[env]}: {100 * cell.spread[0]:.1f} to "
            f"{100 * cell.spread[1]:.1f} over all configurations and trials; chosen by trial: "
            f"{', '.join(map(str, cell.chosen))}"
            for label, selection in ours.items()
            for env, cell in selection.cells.items()
        ),
    )


def short_rows(
    ours: Mapping[str, Selection], benchmark: Benchmark
) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return the means of ERM, of the best other algorithm and of the paper, then our own."""
    by_name = {row.algorithm: row for row in benchmark.published}
    others = [row for name, row in by_name.items() if name not in ("ERM", "CRO")]
    best = max(others, key=lambda row: row.average)
    theirs, mine = _rows(ours, replace(benchmark, published=(by_name["ERM"], best, by_name["CRO"])))

    def texts(row: _Row, label: str) -> tuple[str, ...]:
        return label, *("–" if number is None else number.digits for number in row.numbers)

    return (
        [texts(row, f"{row.algorithm} ({row.source})") for row in theirs],
        [texts(row, row.algorithm) for row in mine],
    )


def full_table(ours: Mapping[str, Selection], benchmark: Benchmark = COLORED_MNIST) -> Table:
    """Build the table of all numbers, the errors and the spreads in columns of their own."""
    kinds = ("mean", "error", "lowest", "highest")
    heads = (f"{env} {kind}" for env in benchmark.environments for kind in kinds)
    rows = []
    for row in (row for part in _rows(ours, benchmark) for row in part):
        numbers: list[float | None] = []
        for mean, spread in zip(row.numbers, row.spreads, strict=False):
            numbers += [mean.value, mean.error, *spread] if mean is not None else [None] * 4
        summary = row.numbers[len(row.spreads) :]
        numbers += [None if x is None else x.value for x in summary]
        rounded = (None if x is None else round(x, _DECIMALS) for x in numbers)
        rows.append((row.algorithm, row.source, *rounded))
    last = ("average", "worst") if benchmark.compares_erm else ("average",)
    return Table(benchmark.title, ("algorithm", "source", *heads, *last), tuple(rows))


def write_tables(
    folder: Path, ours: Mapping[str, Selection], benchmark: Benchmark = COLORED_MNIST
) -> list[Path]:
    """Write table.md, table.csv and table.tex into ``folder``, making it; return the files."""
    table = accuracy_table(ours, benchmark)
    texts = {
        "md": f"{table.title}, by held-out environment.\n\n{table.markdown()}\n",
        "csv": full_table(ours, benchmark).csv(),
        "tex": table.latex(),
    }
    files = {suffix: folder / f"table.{suffix}" for suffix in texts}
    for suffix, text in texts.items():
        write_text(files[suffix], text)
    return list(files.values())


def _rows(ours: Mapping[str, Selection], benchmark: Benchmark) -> tuple[list[_Row], list[_Row]]:
    """Return the published rows, and ours."""
    theirs, mine = [], []
    for row in benchmark.published:
        published = [Number(*row.cells[env]) for env in benchmark.environments]
        unknown = ((None, None),) * len(published)
        numbers = _add_summary(published, row.average, benchmark)
        theirs.append(_Row(row.algorithm, row.source, numbers, unknown))
    for label, selection in ours.items():
        cells = [selection.cells.get(env) for env in range(len(benchmark.environments))]
        spreads = tuple(
            (100 * c.spread[0], 100 * c.spread[1]) if c else (None, None) for c in cells
        )
        average = None if selection.average is None else 100 * selection.average
        means = [_percent(cell) if cell else None for cell in cells]
        mine.append(_Row(label, "this run", _add_summary(means, average, benchmark), spreads))
    return theirs, mine


def _add_summary(
    means: Sequence[Number | None], average: float | None, benchmark: Benchmark
) -> tuple[Number | None, ...]:
    """Append what stands under ``summary_heads``; of an incomplete row no worst is known."""
    known = [mean.value for mean in means if mean is not None]
    worst = Number(min(known)) if len(known) == len(means) else None
    summary = None if average is None else Number(average), worst
    return *means, *summary[: len(summary_heads(benchmark))]


def _percent(cell: Cell) -> Number:
    # One trial has no spread to tell an error from.
    return Number(100 * cell.mean, 100 * cell.error if len(cell.trials) > 1 else None)
