"""The tables of a comparison: accuracy by domain, other metrics, and all numbers for files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from regraft.estimators.comparison import Comparison, ComparisonRow
from regraft.estimators.comparison_metrics import METRICS, Estimate
from regraft.support.files import write_text
from regraft.support.table import Cell, Number, Table, share

SOURCES = "sources, fitted rows"  # the only accuracy on rows that a head has seen
CAPTION = (
    "Accuracy (%) in the domain left out, by domain. Sources: on the rows fitted on, mean over "
    "their domains and over what was left out."
)
MEANING = (
    "±: half of the 95 % interval, by a bootstrap over the rows of each domain. AUC: each class "
    "against the others, mean over the classes; – where a domain lacks a class. Log-loss in nats. "
    "ECE: expected calibration error, the mean distance of confidence and accuracy over 15 bins of "
    "equally many rows, fewer where they would have less than 20."
)


@dataclass(frozen=True)
class _Look:
    """How a metric is written."""

    title: str
    scale: float = 100.0  # in percent
    format: str = ".1f"

    def number(self, found: Estimate | None, sign: str = "") -> Number | None:
        """Return a value with half of its interval; None where there is none."""
        if found is None:
            return None
        half = self.scale * (found.high - found.low) / 2
        return Number(self.scale * found.value, half, f"{sign}{self.format}")


_LOOKS = {
    "accuracy": _Look("accuracy (%)"),
    "auc": _Look("AUC (%)"),
    "log_loss": _Look("log-loss", 1.0, ".3f"),
    "calibration_error": _Look("ECE (%)"),
}


def markdown(comparison: Comparison) -> str:
    """Write accuracy by domain with the points above ERM, then all metrics with intervals."""
    table = _table(comparison, with_gains=True)
    parts = [f"{CAPTION} In brackets: points above ERM.", table.markdown()]
    for more in (means_table(comparison), *(metric_table(comparison, m) for m in METRICS)):
        parts += [f"{more.title}.", more.markdown()]
    return "\n\n".join([*parts, MEANING]) + "\n"


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


def accuracy_table(comparison: Comparison) -> Table:
    """Show accuracy in each unseen domain, on average and in the worst, and on the sources."""
    sections: tuple[list[tuple[Cell, ...]], ...] = ([], [])
    for row in comparison.rows:
        numbers = (*row.accuracy.values(), row.source, row.average, row.worst)
        sections[row.radius is not None].append((row.head, *map(share, numbers)))
    columns = "unseen domain", *comparison.targets, SOURCES, "average", "worst"
    return Table.from_sections("Accuracy in the domain left out", columns, *sections)


def means_table(comparison: Comparison) -> Table:
    """Show all metrics on average over the unseen domains, and how far accuracy is from ERM's."""
    sections: tuple[list[tuple[Cell, ...]], ...] = ([], [])
    for row in comparison.rows:
        numbers = {name: _LOOKS[name].number(row.metrics.get(name)) for name in METRICS}
        gain = _LOOKS["accuracy"].number(row.minus_erm.get("accuracy"), "+z")
        accuracy, *others = numbers.values()
        sections[row.radius is not None].append((row.head, accuracy, gain, *others))
    first, *rest = (_LOOKS[name].title for name in METRICS)
    columns = "head", first, "above ERM", *rest
    return Table.from_sections("On average over the unseen domains", columns, *sections)


def narrow(table: Table) -> Table:
    """Return a table of texts without spaces around ±, so that it fits a terminal."""
    rows = tuple(tuple(text.replace(" ± ", "±") for text in row) for row in table.texts())
    return replace(table, rows=rows)


def metric_table(comparison: Comparison, metric: str) -> Table:
    """Show one metric in each unseen domain, with intervals."""
    cells = {(cell.head, cell.target): cell.metrics.get(metric) for cell in comparison.cells}
    sections: tuple[list[tuple[Cell, ...]], ...] = ([], [])
    for row in comparison.rows:
        numbers = (_LOOKS[metric].number(cells.get((row.head, t))) for t in comparison.targets)
        sections[row.radius is not None].append((row.head, *numbers))
    title = f"{_LOOKS[metric].title} in each unseen domain"
    return Table.from_sections(
        title[0].upper() + title[1:], ("head", *comparison.targets), *sections
    )


def overview(comparison: Comparison) -> Table:
    """Show what people ask for first: accuracy by domain, then the metrics on average."""
    accuracy, means = _table(comparison, with_gains=False), means_table(comparison)
    columns = *accuracy.columns[:-3], "Worst", "Sources", "Average", *means.columns[2:]
    rows = tuple(
        (*a[:-3], a[-2], a[-1], *m[1:]) for a, m in zip(accuracy.rows, means.rows, strict=True)
    )
    return Table("Accuracy (%) in the domain left out", columns, rows, note=MEANING)


def cells_table(comparison: Comparison) -> Table:
    """Show all numbers of each head in each domain, a row for each pair."""
    columns = ("head", "domain", "rows", "source accuracy", *_metric_columns(), "seconds")
    rows = tuple(
        (
            *(cell.head, cell.target, cell.rows, cell.source_accuracy),
            *_ends(cell.metrics.get(name) for name in METRICS),
            *_ends(cell.minus_erm.get(name) for name in METRICS),
            cell.seconds,
        )
        for cell in comparison.cells
    )
    return Table("Every head in every domain left out", columns, rows, align="ll")


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
    return Table(CAPTION, (*columns, *gains, "seconds", *_metric_columns()), rows)


def _csv_row(row: ComparisonRow) -> tuple[Cell, ...]:
    accuracy = map(_points, (*row.accuracy.values(), row.average, row.worst))
    rest = map(_points, (row.source, row.average_gain, row.worst_gain))
    ends = _ends(each.get(name) for each in (row.metrics, row.minus_erm) for name in METRICS)
    return row.head, row.radius, *accuracy, row.worst_target, *rest, round(row.seconds, 2), *ends


def _metric_columns() -> Iterator[str]:
    """Name the metrics, the ends of their intervals, and the same minus ERM's; shares of one."""
    for minus in ("", " minus ERM"):
        for name in METRICS:
            what = name.replace("_", " ") + minus
            yield from (what, f"{what}, low", f"{what}, high")


def _ends(found: Iterable[Estimate | None]) -> Iterator[float | None]:
    for each in found:
        yield from (None,) * 3 if each is None else (each.value, each.low, each.high)


def _points(value: float) -> float:
    return round(100 * value, 4)
