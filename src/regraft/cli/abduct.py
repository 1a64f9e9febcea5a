"""``regraft abduct``: a table or a bank in, the hidden factor and the rows at its ends out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli.command import command
from regraft.cli.options import Data, Device, Domain, Label, Out, path_option
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.data.bank_inputs import BankInput
    from regraft.data.labelled import LabelledTable
    from regraft.estimators.abduction import Abduction
    from regraft.estimators.abduction_ends import ClassEnds, End, EndRow
    from regraft.support.thumbnails import Pixels


@command("abduct", html=True)
def abduct_command(
    session: Session,
    data: Data,
    label: Label = "label",
    domain: Domain = "domain",
    show: Annotated[int, typer.Option(help="Rows to show of each class at either end.")] = 6,
    inputs: Annotated[
        Path | None,
        path_option("Folder or table that a bank was made from. Default: where it was then."),
    ] = None,
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Find the hidden factor that the sources disagree about, and show the rows at its ends."""
    from regraft.data.labelled import read_labelled
    from regraft.estimators.abduction import abduct
    from regraft.estimators.abduction_ends import abduction_document
    from regraft.support.files import write_text
    from regraft.support.json_files import dumps

    if show < 1:
        raise ValueError(f"show is {show}: pass 1 or more.")
    with session.working(f"reading {data}"):
        table = read_labelled(data, label, domain)
    with session.working(f"looking for a hidden factor in {len(table.y)} rows"):
        found = abduct(table.X, table.y, table.domain, device=device)
    with session.working("reading the rows at both ends"):
        ends, pictures = _describe_ends(found, table, data, show, inputs)
    document = abduction_document(found, ends) | {"rows": len(table.y)}
    files = []
    if out is not None:
        files = [out / "abduct.json"]
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
    if pictures and not session.draws:
        session.say("Pictures are shown by terminals in colours, and in the report (--html).")
    for each in map(ClassEnds.from_dict, document["ends"]):
        for end in (each.last, each.first):
            session.say(f"class {each.label}, {end.title}:")
            drawn = [pictures[row.number] for row in end.rows if row.number in pictures]
            if drawn and session.draws:
                session.pictures(drawn)
            else:
                session.say(*_lines(end))
        if each.columns:
            session.tables([each.column_table()])
    session.say("")


def _describe_ends(
    found: Abduction, table: LabelledTable, data: Path, show: int, inputs: Path | None
) -> tuple[tuple[ClassEnds, ...], Mapping[int, Pixels]]:
    """Find the rows at both ends, and the pictures, texts or columns that describe them."""
    from regraft.data.bank_inputs import read_inputs
    from regraft.data.banks import is_bank, open_bank
    from regraft.estimators.abduction_ends import compare_columns, find_ends

    ends = find_ends(found, table.y, table.domain, show)
    shown: Mapping[int, BankInput] = {}
    if is_bank(data):
        rows = [row.number - 1 for each in ends for row in each.rows]
        shown = read_inputs(open_bank(data), rows, inputs)
    if not shown:
        return compare_columns(found, table.X, table.y, ends, table.features), {}
    return tuple(
        each.change_rows(lambda row: _describe_row(row, shown[row.number - 1])) for each in ends
    ), {row + 1: each.pixels for row, each in shown.items() if each.pixels is not None}


def _describe_row(row: EndRow, made_from: BankInput) -> EndRow:
    from regraft.estimators.abduction_ends import shorten
    from regraft.support.thumbnails import encode_png

    picture = "" if made_from.pixels is None else encode_png(made_from.pixels)
    text = shorten(made_from.text)
    return dataclasses.replace(row, name=shorten(made_from.name), text=text, picture=picture)


def _lines(end: End) -> list[str]:
    """Write a line for each text or file; row numbers alone fit into one."""
    if not any(row.name or row.text for row in end.rows):
        numbers = ", ".join(str(row.number) for row in end.rows)
        return [f"  rows {numbers} (the first row is 1)" if numbers else "  none"]
    return [f"  {row.describe()}" for row in end.rows]
