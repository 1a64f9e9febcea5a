"""``regraft abduct``: a table or a bank in, the hidden factor and the rows at its ends out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli.command import command
from regraft.cli.large_tables import open_large, take_sample
from regraft.cli.option_groups import EngineSettings, TableColumns
from regraft.cli.options import DataOrParts, Device, Inputs, Out
from regraft.cli.session import Session
from regraft.cli.shown_rows import SHOWN_ROWS, announce_pictures, describe_ends, show_rows

_MOST_LINES = 24  # of rows, where there are many classes
_FEW_CLASSES = 3  # with a table of columns each

if TYPE_CHECKING:
    from regraft.support.thumbnails import Pixels


@command("abduct", html=True)
def abduct_command(
    session: Session,
    data: DataOrParts,
    *,
    columns: TableColumns,
    show: Annotated[
        int | None,
        typer.Option(
            help=f"Rows to show of each class at either end. Default: {SHOWN_ROWS}, or fewer in "
            "the terminal where there are many classes."
        ),
    ] = None,
    inputs: Inputs = None,
    device: Device = "cpu",
    settings: EngineSettings,
    out: Out = None,
) -> None:
    """Find the hidden factor that the sources disagree about, and show the rows at its ends."""
    from regraft.estimators.abduction import abduct
    from regraft.estimators.abduction_ends import abduction_document
    from regraft.premises.sample_size import describe_small_cells

    if show is not None and show < 1:
        raise ValueError(f"show is {show}: pass 1 or more.")
    numbers: list[int] | None = None
    cells: Mapping[str, Mapping[str, int]]
    if settings.is_streamed:
        with open_large(session, data, columns, settings) as large:
            sampled = take_sample(large, data, columns.choose())
            table, n_rows, numbers = sampled.table, sampled.n_rows, sampled.numbers
            cells = sampled.cells
    else:
        with session.working(f"reading {data}"):
            table = columns.read(data)
            n_rows, cells = len(table.y), table.count_rows()
    if n_rows > len(table.y):
        session.note(f"the factor is looked for in a sample of the {n_rows} rows.")
    with session.working(f"looking for a hidden factor in {len(table.y)} rows"):
        found = abduct(table.X, table.y, table.domain, device=device)
    with session.working("reading the rows at both ends"):
        ends, pictures = describe_ends(found, table, data, show or SHOWN_ROWS, inputs, numbers)
    document = abduction_document(found, ends) | {"rows": n_rows}
    if few := describe_small_cells(cells):
        document["warnings"] = [few, *document["warnings"]]
    if numbers is not None:
        document["sampled_rows"] = len(table.y)
    files = session.write_json("abduct.json", document)
    n_rows_shown = _rows_that_fit(len(ends)) if show is None else show
    show_abduction(session, document, pictures, n_rows_shown)
    session.finish(document, files, read=[data])


def _rows_that_fit(n_classes: int) -> int:
    """Return how many rows at either end of each class make no more than a page or two."""
    return min(SHOWN_ROWS, max(1, _MOST_LINES // (2 * max(n_classes, 1))))


def show_abduction(
    session: Session, document: Mapping[str, Any], pictures: Mapping[int, Pixels], show: int
) -> None:
    """Print what was found, and ``show`` rows at both ends, with ``pictures`` by row number."""
    from regraft.estimators.abduction_ends import ClassEnds, share_table

    session.say(document["summary"])
    session.say(*(f"But: {doubt}" for doubt in document["warnings"]))
    if not document["ends"]:
        return
    session.say(
        f"Neighbouring groups lie {document['separation']:.1f} standard deviations apart.", ""
    )
    session.tables([share_table(document)])
    announce_pictures(session, pictures)
    if not show:
        session.say("")
        return
    ends = [ClassEnds.from_dict(each) for each in document["ends"]]
    for each in ends:
        for end in (each.last, each.first):
            show_rows(session, f"class {each.label}, {end.title}:", end.rows[:show], pictures)
        if each.columns and len(ends) <= _FEW_CLASSES:
            session.tables([each.column_table(document["n_groups"])])
        elif each.columns:
            session.say(f"  groups differ most in: {each.describe_columns()}")
    if any(len(each.last.rows) > show for each in ends):
        session.say(f"More rows: --show {SHOWN_ROWS}, --json, or the report (--html).")
    session.say("")
