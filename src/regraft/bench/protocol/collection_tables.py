"""The tables of a collection as Markdown and LaTeX, in percent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regraft.bench.protocol.selection import RULES, Selection
from regraft.support.table import Number, Table, escape_latex

if TYPE_CHECKING:
    from regraft.bench.protocol.collection import Collection

_LATEX_CAPTION = r"test accuracy (\%) $\pm$ standard error over trials"


def tables(collection: Collection) -> list[Table]:
    """Make for each rule the tables of datasets and of their averages that have a number."""
    found = []
    for rule, datasets in collection.selections.items():
        title = RULES[rule].title
        for dataset, rows in datasets.items():
            names = collection.environments[dataset]
            found.append(
                Table(
                    f"{dataset}, {title}",
                    ("Algorithm", *names, "Avg"),
                    tuple((name, *_numbers(row, len(names))) for name, row in rows.items()),
                )
            )
        if len(datasets) > 1:
            found.append(_averages(collection, rule))
    return [table for table in found if any(any(row[1:]) for row in table.rows)]


def remarks(collection: Collection) -> list[str]:
    """List what the tables lack: runs, skipped lines, rules without enough runs."""
    lacking = [RULES[rule] for rule in collection.selections if not collection.has_cells(rule)]
    unfinished = collection.unfinished
    return [
        *([f"{unfinished} of {collection.runs} runs are not finished"] if unfinished else []),
        *collection.uneven,
        *(f"skipped {damage}" for damage in collection.damaged),
        *(f"no table by {rule.title}: it needs {rule.needs}" for rule in lacking),
    ]


def markdown(collection: Collection) -> str:
    """Write the tables under headings, and the remarks as a list."""
    lines = ["Test accuracy (%) ± standard error over trials, by held-out environment.", ""]
    for table in tables(collection):
        lines += [f"## {table.title}", "", table.markdown(), ""]
    found = [f"- {remark}" for remark in remarks(collection)]
    return "\n".join([*lines, *found, ""] if found else lines)


def latex(collection: Collection) -> str:
    """Write floats with booktabs tables, and the remarks as comments."""
    lines = [f"% {remark}" for remark in remarks(collection)]
    for table in tables(collection):
        lines += [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape_latex(table.title)}: {_LATEX_CAPTION}}}",
            f"{table.latex()}\\end{{table}}",
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
        rows.append((algorithm, *numbers, None if overall is None else Number(100 * overall)))
    return Table(f"Averages, {RULES[rule].title}", ("Algorithm", *datasets, "Avg"), tuple(rows))


def _numbers(selection: Selection, n_envs: int) -> list[Number | None]:
    cells = [selection.cells.get(env) for env in range(n_envs)]
    numbers = [Number(100 * cell.mean, 100 * cell.error) if cell else None for cell in cells]
    return [*numbers, None if selection.average is None else Number(100 * selection.average)]


def _average(selection: Selection) -> Number | None:
    if selection.average is None or selection.average_error is None:
        return None
    return Number(100 * selection.average, 100 * selection.average_error)
