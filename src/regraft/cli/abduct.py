"""``regraft abduct``: a table or a bank in, the hidden factor and the rows at its ends out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli.command import command
from regraft.cli.large_tables import open_large, take_sample
from regraft.cli.option_groups import EngineSettings, TableColumns
from regraft.cli.options import (
    Data,
    Device,
    Inputs,
    Out,
)
from regraft.cli.session import Session
from regraft.cli.shown_rows import SHOWN_ROWS, announce_pictures, describe_ends, show_rows

if TYPE_CHECKING:
    from regraft.support.thumbnails import Pixels


@command("abduct", html=True)
def abduct_command(
    session: Session,
    data: Data,
    *,
    columns: TableColumns,
    show: Annotated[
        int, typer.Option(help="Rows to show of each class at either end.")
    ] = SHOWN_ROWS,
    inputs: Inputs = None,
    device: Device = "cpu",
    settings: EngineSettings,
    out: Out = None,
) -> None:
    """Find the hidden factor that the sources disagree about, and show the rows at its ends."""
    from regraft.estimators.abduction import abduct
    from regraft.estimators.abduction_ends import abduction_document
    from regraft.premises.sample_size import describe_small_cells
    from regraft.support.files import write_text
    from regraft.support.json_files import dumps

    if show < 1:
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
        ends, pictures = describe_ends(found, table, data, show, inputs, numbers)
    document = abduction_document(found, ends) | {"rows": n_rows}
    if few := describe_small_cells(cells):
        document["warnings"] = [few, *document["warnings"]]
    if numbers is not None:
        document["sampled_rows"] = len(table.y)
    files = []
    if (stage := session.stage) is not None:
        files = [stage / "abduct.json"]
        write_text(files[0], dumps(document))
    show_abduction(session, document, pictures)
    session.finish(document, files, read=[data])


def show_abduction(
    session: Session, document: Mapping[str, Any], pictures: Mapping[int, Pixels]
) -> None:
    """Print what was found, and the rows at both ends, with ``pictures`` by row number."""
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
    for each in map(ClassEnds.from_dict, document["ends"]):
        for end in (each.last, each.first):
            show_rows(session, f"class {each.label}, {end.title}:", end.rows, pictures)
        if each.columns:
            session.tables([each.column_table(document["n_groups"])])
    session.say("")
