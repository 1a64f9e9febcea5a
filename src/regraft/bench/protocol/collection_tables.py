"""The tables of a collection as Markdown and LaTeX, in percent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from regraft.bench.protocol.selection import RULES
from regraft.support.table import Number, Table, escape_latex

if TYPE_CHECKING:
    from regraft.bench.protocol.collection import Collection
    from regraft.bench.protocol.selection import Selection

_MARK = "*"  # behind the numbers of incomplete cells
_LEGEND = (
    f"{_MARK} marks what rests on fewer runs than other cells of its dataset, on unfinished ones, "
    "or on some with skipped lines"
)
_ERROR = " ± standard error over trials"


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
                    tuple((name, *_numbers(collection, rule, dataset, name)) for name in rows),
                )
            )
        found.append(_averages(collection, rule))
    return [table for table in found if any(any(row[1:]) for row in table.rows)]


def describe_numbers(collection: Collection) -> str:
    """Say what the numbers in the tables are: without an error if all are of one trial."""
    return f"Test accuracy (%){_ERROR if _has_errors(collection) else ' in one trial'}"


def remarks(collection: Collection) -> list[str]:
    """List what the tables lack: runs, skipped lines, rules without enough runs."""
    lacking = [RULES[rule] for rule in collection.selections if not collection.has_cells(rule)]
    unfinished = collection.unfinished
    return [
        *([f"{unfinished} of {collection.runs} runs are not finished"] if unfinished else []),
        *collection.uneven,
        *([_LEGEND] if _has_marks(collection) else []),
        *(f"skipped {damage}" for damage in collection.damaged),
        *(f"no table by {rule.title}: it needs {rule.needs}" for rule in lacking),
    ]


def markdown(collection: Collection) -> str:
    """Write the tables under headings, and the remarks as a list."""
    lines = [f"{describe_numbers(collection)}, by held-out environment.", ""]
    for table in tables(collection):
        lines += [f"## {table.title}", "", table.markdown(), ""]
    found = [f"- {remark}" for remark in remarks(collection)]
    return "\n".join([*lines, *found, ""] if found else lines)


def latex(collection: Collection) -> str:
    """Write floats with booktabs tables, and the remarks as comments."""
    lines = [f"% {remark}" for remark in remarks(collection)]
    what = escape_latex(describe_numbers(collection)).replace("±", r"$\pm$")
    what = what[0].lower() + what[1:]
    for table in tables(collection):
        lines += [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape_latex(table.title)}: {what}}}",
            f"{table.latex()}\\end{{table}}",
            "",
        ]
    return "\n".join(lines)


def _averages(collection: Collection, rule: str) -> Table:
    datasets = collection.selections[rule]
    rows = []
    for algorithm in collection.algorithms(rule):
        averages = collection.dataset_averages(rule, algorithm)
        numbers = [
            None
            if average is None
            else _number(
                100 * average,
                _average_error(collection, selections[algorithm]),
                mark=_mark(collection, rule, dataset, algorithm),
            )
            for (dataset, selections), average in zip(datasets.items(), averages, strict=True)
        ]
        rows.append((algorithm, *numbers, _mean(numbers)))
    return Table(f"Averages, {RULES[rule].title}", ("Algorithm", *datasets, "Avg"), tuple(rows))


def _numbers(
    collection: Collection, rule: str, dataset: str, algorithm: str
) -> list[Number | None]:
    """Return the row of an algorithm: a number for each environment, and their average."""
    selection = collection.selections[rule][dataset][algorithm]
    envs = range(len(collection.environments[dataset]))
    numbers = [
        _number(
            100 * cell.mean,
            cell.error if collection.compat else cell.known_error,
            mark=_mark(collection, rule, dataset, algorithm, env),
        )
        if (cell := selection.cells.get(env))
        else None
        for env in envs
    ]
    mark = _mark(collection, rule, dataset, algorithm)
    if collection.compat or selection.average is None:
        return [*numbers, _mean(numbers) if collection.compat else None]
    return [*numbers, _number(100 * selection.average, mark=mark)]


def _average_error(collection: Collection, selection: Selection) -> float | None:
    """Return the error of an average; DomainBed prints 0 for one trial."""
    return selection.average_error if collection.compat else selection.known_average_error


def _number(percent: float, error: float | None = None, mark: str = "") -> Number:
    return Number(percent, None if error is None else 100 * error, mark=mark)


def _mean(numbers: Sequence[Number | None]) -> Number | None:
    """Average what is printed in percent, in DomainBed's order; None if a number is lacking."""
    known = [number for number in numbers if number is not None]
    if not known or len(known) < len(numbers):
        return None
    mark = max(number.mark for number in known)
    return Number(sum(number.value for number in known) / len(known), mark=mark)


def _mark(
    collection: Collection, rule: str, dataset: str, algorithm: str, env: int | None = None
) -> str:
    """Return a mark for an incomplete cell, or for the average of cells of which one is."""
    envs = range(len(collection.environments[dataset])) if env is None else [env]
    if collection.compat:
        return ""
    complete = all(collection.is_complete(rule, dataset, algorithm, each) for each in envs)
    return "" if complete else _MARK


def _has_marks(collection: Collection) -> bool:
    return any(number.mark for number in _all_numbers(collection))


def _has_errors(collection: Collection) -> bool:
    return any(number.error is not None for number in _all_numbers(collection))


def _all_numbers(collection: Collection) -> list[Number]:
    cells = (cell for table in tables(collection) for row in table.rows for cell in row)
    return [cell for cell in cells if isinstance(cell, Number)]
