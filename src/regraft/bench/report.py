"""Our accuracies on Colored MNIST beside the published ones, as Markdown, CSV and LaTeX.

Everywhere ``ours`` maps labels such as "CRO (regraft, preset paper)" to selections, and
``published`` are the rows to compare with, chosen by the same rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regraft.bench.colored_mnist import ENVIRONMENTS
from regraft.bench.published import TRAINING_DOMAIN, Published
from regraft.bench.selection import Selection
from regraft.files import write_text
from regraft.persistence import write_csv

CSV_COLUMNS = (
    "algorithm",
    "source",
    *(f"{env} {what}" for env in ENVIRONMENTS for what in ("mean", "error", "lowest", "highest")),
    "average",
)
_LATEX_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}
_NONE = (None, None)


@dataclass(frozen=True)
class _Row:
    """A row in percent, with None where there is no number."""

    algorithm: str
    source: str
    means: tuple[float | None, ...]  # by environment, then the average
    errors: tuple[float | None, ...]  # by environment
    spreads: tuple[tuple[float | None, float | None], ...]  # by environment


def markdown(
    ours: Mapping[str, Selection], published: Sequence[Published] = TRAINING_DOMAIN
) -> str:
    """The table and, for each of our cells, the spread over configurations."""
    lines = [
        "Colored MNIST, test accuracy (%) ± standard error over trials, by held-out environment.",
        "",
        f"| Algorithm | Source | {' | '.join(ENVIRONMENTS)} | Avg |",
        f"|---|---|{'---:|' * (len(ENVIRONMENTS) + 1)}",
    ]
    for row in [*map(_published_row, published), *_our_rows(ours)]:
        numbers = [
            "–" if mean is None else f"{mean:.1f}{plus_minus(error, ' ± ')}"
            for mean, error in zip(row.means, (*row.errors, None), strict=True)
        ]
        label = row.algorithm.replace("|", r"\|")
        lines.append(f"| {' | '.join([label, row.source, *numbers])} |")
    return "\n".join([*lines, "", *(f"- {spread}" for spread in _spreads(ours)), ""])


def csv_rows(
    ours: Mapping[str, Selection], published: Sequence[Published] = TRAINING_DOMAIN
) -> list[tuple[Any, ...]]:
    """The rows under ``CSV_COLUMNS``, in percent; None where there is no number."""
    rows = []
    for row in [*map(_published_row, published), *_our_rows(ours)]:
        *means, average = row.means
        numbers: list[float | None] = []
        for mean, error, spread in zip(means, row.errors, row.spreads, strict=True):
            numbers += [mean, error, *spread]
        rounded = [None if x is None else round(x, 4) for x in [*numbers, average]]
        rows.append((row.algorithm, row.source, *rounded))
    return rows


def latex(ours: Mapping[str, Selection], published: Sequence[Published] = TRAINING_DOMAIN) -> str:
    """A booktabs ``tabular`` with the best of each column in bold and our spreads below."""
    theirs, mine = [_published_row(row) for row in published], _our_rows(ours)
    columns = zip(*(row.means for row in [*theirs, *mine]), strict=True)
    best = [max((round(x, 1) for x in column if x is not None), default=0) for column in columns]
    heads = [f"${env[0]}${escape(env[1:])}" for env in ENVIRONMENTS]
    spread_row = rf"\multicolumn{{{len(heads) + 3}}}{{l}}{{\footnotesize %s}} \\"
    sections = (
        [_latex_row(row, best) for row in theirs],
        [_latex_row(row, best) for row in mine],
        [spread_row % escape(spread) for spread in _spreads(ours)],
    )
    lines = [
        rf"\begin{{tabular}}{{ll{'c' * (len(heads) + 1)}}}",
        r"\toprule",
        rf"{' & '.join(['Algorithm', 'Source', *heads, 'Avg'])} \\",
    ]
    for section in filter(None, sections):
        lines += [r"\midrule", *section]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def write_tables(
    folder: Path, ours: Mapping[str, Selection], published: Sequence[Published] = TRAINING_DOMAIN
) -> list[Path]:
    """Write table.md, table.csv and table.tex into ``folder``, making it; the files written."""
    files = [folder / f"table.{suffix}" for suffix in ("md", "csv", "tex")]
    write_text(files[0], markdown(ours, published))
    write_csv(files[1], CSV_COLUMNS, csv_rows(ours, published))
    write_text(files[2], latex(ours, published))
    return files


def _published_row(row: Published) -> _Row:
    cells = [row.cells[env] for env in ENVIRONMENTS]
    return _Row(
        row.algorithm,
        row.source,
        means=(*(mean for mean, _ in cells), row.average),
        errors=tuple(error for _, error in cells),
        spreads=(_NONE,) * len(cells),
    )


def _our_rows(ours: Mapping[str, Selection]) -> list[_Row]:
    rows = []
    for label, selection in ours.items():
        cells = [selection.cells.get(env) for env in range(len(ENVIRONMENTS))]
        average = None if selection.average is None else 100 * selection.average
        row = _Row(
            label,
            "this run",
            means=(*(100 * cell.mean if cell else None for cell in cells), average),
            errors=tuple(100 * cell.error if cell else None for cell in cells),
            spreads=tuple(
                (100 * cell.spread[0], 100 * cell.spread[1]) if cell else _NONE for cell in cells
            ),
        )
        rows.append(row)
    return rows


def _spreads(ours: Mapping[str, Selection]) -> list[str]:
    """A line for each of our cells."""
    return [
        f"{label}, {ENVIRONMENTS[env]}: {100 * cell.spread[0]:.1f} to {100 * cell.spread[1]:.1f} "
        f"over all configurations and trials; chosen by trial: {', '.join(map(str, cell.chosen))}"
        for label, selection in ours.items()
        for env, cell in selection.cells.items()
    ]


def _latex_row(row: _Row, best: Sequence[float]) -> str:
    texts = [escape(row.algorithm), escape(row.source)]
    for mean, error, top in zip(row.means, (*row.errors, None), best, strict=True):
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


def escape(text: str) -> str:
    """``text`` as LaTeX writes it."""
    return "".join(_LATEX_SIGNS.get(character, character) for character in text)
