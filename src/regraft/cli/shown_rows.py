"""Rows that commands show: as pictures, as lines of text, or by their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regraft.cli.session import Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regraft.data.labelled import LabelledTable
    from regraft.data.tables import FeatureTable
    from regraft.estimators.abduction import Abduction
    from regraft.estimators.abduction_ends import ClassEnds, ShownRow
    from regraft.support.thumbnails import Pixels


SHOWN_ROWS = 6  # of each class, at either end of a hidden factor
_MOST_CELLS = 5  # of a row of a table


@dataclass(frozen=True)
class Described:
    """Rows with what they were made from, and their pictures, by number; empty for tables."""

    rows: Mapping[int, Any]  # of the kind that was described
    pictures: Mapping[int, Pixels]


def describe_rows(rows: Sequence[ShownRow], data: Path, inputs: Path | None) -> Described:
    """Add the names, texts and pictures that rows of a bank were made from."""
    from regraft.data.bank_inputs import read_inputs
    from regraft.data.banks import is_bank, open_bank
    from regraft.estimators.abduction_ends import shorten
    from regraft.support.thumbnails import encode_png

    if not is_bank(data):
        return Described({}, {})
    made_from = read_inputs(open_bank(data), [row.number - 1 for row in rows], inputs)
    described, pictures = {}, {}
    for row in rows:
        if (found := made_from.get(row.number - 1)) is None:
            continue
        picture = "" if found.pixels is None else encode_png(found.pixels)
        described[row.number] = replace(
            row, name=shorten(found.name), text=shorten(found.text), picture=picture
        )
        if found.pixels is not None:
            pictures[row.number] = found.pixels
    return Described(described, pictures)


def describe_ends(
    found: Abduction,
    table: LabelledTable,
    data: Path,
    show: int,
    inputs: Path | None = None,
    numbers: Sequence[int] | None = None,
) -> tuple[tuple[ClassEnds, ...], Mapping[int, Pixels]]:
    """Find the rows at both ends, and the pictures, texts or columns that describe them.

    ``numbers`` are those of the table's rows in ``data``, from 0, if it is a sample of them.
    """
    from regraft.estimators.abduction_ends import compare_columns, find_ends

    def renumber(ends: Iterable[ClassEnds]) -> tuple[ClassEnds, ...]:
        if numbers is None:
            return tuple(ends)
        return tuple(_renumber(each, numbers) for each in ends)

    ends = find_ends(found, table.y, table.domain, show)
    numbered = renumber(ends)
    shown = describe_rows([row for each in numbered for row in each.rows], data, inputs)
    if not shown.rows:
        if (ids := table.id) is not None:
            ends = tuple(
                each.change_rows(lambda row: replace(row, name=str(ids[row.number - 1])))
                for each in ends
            )
        columns = compare_columns(found, table.unscaled(), table.y, ends, table.features)
        return renumber(columns), {}
    changed = tuple(each.change_rows(lambda row: shown.rows[row.number]) for each in numbered)
    return changed, shown.pictures


def _renumber(ends: ClassEnds, numbers: Sequence[int]) -> ClassEnds:
    return ends.change_rows(lambda row: replace(row, number=int(numbers[row.number - 1]) + 1))


def tell_columns(
    rows: Sequence[ShownRow],
    table: FeatureTable,
    X: NDArray[Any],
    usual: NDArray[Any],
    names: Sequence[str],
    at: Sequence[int],
) -> tuple[ShownRow, ...]:
    """Add the cells in which each row is furthest from the ``usual`` rows (m, d) of the sources.

    ``X`` (n, d) are the features of the table's rows, with their ``names``; the rows stand ``at``
    these places there. Rows of files whose columns have no names stay as they are.
    """
    import numpy as np

    from regraft.estimators.abduction_ends import shorten
    from regraft.estimators.column_kinds import EQUALS, IS_MISSING

    cells = table.X
    if not isinstance(cells, Mapping) or not names:
        return tuple(rows)
    spread = usual.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    own = np.array([_column_of(name, cells, (EQUALS, IS_MISSING)) for name in names])

    def tell(row: ShownRow, i: int) -> ShownRow:
        distance = abs(np.asarray(X[i], np.float64) - usual.mean(axis=0)) / spread
        columns = dict.fromkeys(own[np.argsort(-distance, kind="stable")].tolist())
        values = [_tell_cell(name, cells[name][i]) for name in columns if name in cells]
        named = f"row {row.number} ({row.name})" if row.name else f"row {row.number}"
        return replace(row, text=shorten(f"{named}: {', '.join(values[:_MOST_CELLS])}"))

    return tuple(map(tell, rows, at))


def _column_of(feature: str, cells: Mapping[str, Any], signs: Sequence[str]) -> str:
    """Return the column that a feature was made of."""
    begun = (name for name in cells if feature.startswith(tuple(name + sign for sign in signs)))
    return feature if feature in cells else max(begun, key=len, default=feature)


def _tell_cell(name: str, value: Any) -> str:
    """Write a cell; a gap is None, NaN or an empty text."""
    is_missing = value is None or value != value or value == ""
    if is_missing:
        return f"{name} is missing"
    return f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"


def announce_pictures(session: Session, pictures: Mapping[int, Pixels]) -> None:
    """Say where pictures are seen, if that is not here."""
    if pictures and not session.draws:
        session.say("Pictures are shown by terminals in colours, and in the report (--html).")


def show_rows(
    session: Session, title: str, rows: Sequence[ShownRow], pictures: Mapping[int, Pixels]
) -> None:
    """Print rows under a title: pictures, a line for each text or file, or the numbers in one."""
    session.say(title)
    drawn = [pictures[row.number] for row in rows if row.number in pictures]
    if drawn and session.draws:
        session.pictures(drawn)
    elif any(row.name or row.text for row in rows):
        session.say(*(f"  {row.describe()}" for row in rows))
    else:
        numbers = ", ".join(str(row.number) for row in rows)
        session.say(f"  rows {numbers} (the first row is 1)" if numbers else "  none")
