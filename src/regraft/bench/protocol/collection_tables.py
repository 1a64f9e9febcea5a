"""The tables of a collection as text, Markdown and LaTeX, in percent."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regraft.bench.paper.report import plus_minus
from regraft.bench.protocol.selection import RULES, Selection
from regraft.support.markup import escape_latex, escape_markdown

if TYPE_CHECKING:
    from regraft.bench.protocol.collection import Collection

_LATEX_CAPTION = r"test accuracy (\%) $\pm$ standard error over trials"
_Number = tuple[float, float | None] | None  # mean and, where it has one, its error


@dataclass(frozen=True)
class Table:
    """Rows of an algorithm and its numbers; None where there is no number."""

    title: str
    columns: tuple[str, ...]  # of the algorithm, then of the numbers
    rows: tuple[tuple[str, tuple[_Number, ...]], ...]

    def texts(self) -> list[tuple[str, ...]]:
        """The rows as one shows them."""
        return [(algorithm, *map(_text, numbers)) for algorithm, numbers in self.rows]


def tables(collection: Collection) -> list[Table]:
    """By rule a table for each dataset and, of several, their averages; none without a number."""
    found = []
    for rule, datasets in collection.selections.items():
        title = RULES[rule].title
        for dataset, rows in datasets.items():
            names = collection.environments[dataset]
            found.append(
                Table(
                    f"{dataset}, {title}",
                    ("Algorithm", *names, "Avg"),
                    tuple((name, _numbers(row, len(names))) for name, row in rows.items()),
                )
            )
        if len(datasets) > 1:
            found.append(_averages(collection, rule))
    return [table for table in found if any(any(numbers) for _, numbers in table.rows)]


def remarks(collection: Collection) -> list[str]:
    """What is missing from the tables: runs, lines that were skipped, rules that lack runs."""
    lacking = [RULES[rule] for rule in collection.selections if not collection.has_cells(rule)]
    unfinished = collection.unfinished
    return [
        *([f"{unfinished} of {collection.runs} runs are not finished"] if unfinished else []),
        *collection.uneven,
        *(f"skipped {damage}" for damage in collection.damaged),
        *(f"no table by {rule.title}: it needs {rule.needs}" for rule in lacking),
    ]


def markdown(collection: Collection) -> str:
    """The tables under headings, and the remarks as a list."""
    lines = ["Test accuracy (%) ± standard error over trials, by held-out environment.", ""]
    for table in tables(collection):
        heads = " | ".join(map(escape_markdown, table.columns))
        lines += [f"## {table.title}", "", f"| {heads} |"]
        lines.append(f"|---|{'---:|' * (len(table.columns) - 1)}")
        lines += [f"| {' | '.join(map(escape_markdown, row))} |" for row in table.texts()]
        lines.append("")
    found = [f"- {remark}" for remark in remarks(collection)]
    return "\n".join([*lines, *found, ""] if found else lines)


def latex(collection: Collection) -> str:
    """Floats with booktabs tables, the best of each column in bold, the remarks as comments."""
    lines = [f"% {remark}" for remark in remarks(collection)]
    for table in tables(collection):
        lines += [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape_latex(table.title)}: {_LATEX_CAPTION}}}",
            rf"\begin{{tabular}}{{l{'c' * (len(table.columns) - 1)}}}",
            r"\toprule",
            rf"{' & '.join(map(_latex_head, table.columns))} \\",
            r"\midrule",
            *_latex_rows(table),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    return "\n".join(lines)


def _averages(collection: Collection, rule: str) -> Table:
    datasets = collection.selections[rule]
    rows = []
    for algorithm in collection.algorithms(rule):
        numbers = [
            _average(selections[algorithm]) if algorithm in selections else None
            for selections in datasets.values()
        ]
        overall = collection.overall(rule, algorithm)
        rows.append((algorithm, (*numbers, None if overall is None else (100 * overall, None))))
    return Table(f"Averages, {RULES[rule].title}", ("Algorithm", *datasets, "Avg"), tuple(rows))


def _numbers(selection: Selection, n_envs: int) -> tuple[_Number, ...]:
    cells = [selection.cells.get(env) for env in range(n_envs)]
    average = None if selection.average is None else (100 * selection.average, None)
    return (*((100 * cell.mean, 100 * cell.error) if cell else None for cell in cells), average)


def _average(selection: Selection) -> _Number:
    if selection.average is None or selection.average_error is None:
        return None
    return 100 * selection.average, 100 * selection.average_error


def _text(number: _Number) -> str:
    if number is None:
        return "–"
    mean, error = number
    return f"{mean:.1f}{plus_minus(error, ' ± ')}"


def _latex_rows(table: Table) -> Iterable[str]:
    columns = zip(*(numbers for _, numbers in table.rows), strict=True)
    best = [max((round(x[0], 1) for x in column if x), default=None) for column in columns]
    for algorithm, numbers in table.rows:
        texts = [_latex_number(x, top) for x, top in zip(numbers, best, strict=True)]
        yield rf"{' & '.join([escape_latex(algorithm), *texts])} \\"


def _latex_number(number: _Number, best: float | None) -> str:
    if number is None:
        return "--"
    mean, error = number
    # What is printed decides, so that equal numbers look equal.
    text = rf"\textbf{{{mean:.1f}}}" if round(mean, 1) == best else f"{mean:.1f}"
    return text + plus_minus(error, r" $\pm$ ")


def _latex_head(name: str) -> str:
    """A sign in front of a number is a minus, not a hyphen."""
    signed = re.fullmatch(r"([+-])(\d.*)", name)
    return f"${signed[1]}${escape_latex(signed[2])}" if signed else escape_latex(name)
