"""``regraft diagnose``: a table in, verdicts and their numbers out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli.command import command
from regraft.cli.options import Data, Device, Domain, Label, Out, Seed
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.premises.diagnose import Diagnosis
    from regraft.support.table import Table


@command("diagnose", html=True)
def diagnose_command(
    session: Session,
    data: Data,
    label: Label = "label",
    domain: Domain = "domain",
    group: Annotated[
        str | None, typer.Option(help="Column of U, where it was observed (not in a bank).")
    ] = None,
    groups: Annotated[
        int, typer.Option(help="Number of unobserved groups to fit without --group.")
    ] = 2,
    seed: Seed = 0,
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Do the premises of the method look satisfied on these data? Verdicts, with their numbers."""
    from regraft.data.domain_names import named_domains
    from regraft.data.tables import read_table
    from regraft.premises.diagnose import diagnose

    with session.working(f"reading {data}"):
        table = read_table(data, label=label, domain=domain, group=group)
        assert table.y is not None and table.domain is not None  # needed by default
    with session.working("checking the premises") as step:
        diagnosis = diagnose(
            table.X,
            table.y,
            named_domains(data, table.domain),
            table.group,
            groups=groups,
            seed=seed,
            device=device,
            on_step=step,
        )
    files = [] if out is None else write_diagnosis(out, diagnosis)
    show_diagnosis(session, diagnosis)
    session.finish(diagnosis.to_dict(), files, read=[data])


def show_diagnosis(session: Session, diagnosis: Diagnosis) -> None:
    """Print the verdicts, the sentences behind them, and the numbers behind these."""
    from regraft.premises.diagnosis_tables import details, verdicts

    table = verdicts(diagnosis)
    session.table(table.columns, table.rows)
    session.say(*diagnosis.summary(), "")
    show_tables(session, details(diagnosis))


def show_tables(session: Session, tables: Iterable[Table]) -> None:
    """Print tables under their titles."""
    for table in tables:
        session.say(table.title)
        session.table(table.columns, table.rows)


def write_diagnosis(folder: Path, diagnosis: Diagnosis) -> list[Path]:
    """Write diagnosis.json and diagnosis.md into ``folder``; returns the files."""
    from regraft.premises.diagnosis_tables import details, markdown, verdicts
    from regraft.support.files import write_text
    from regraft.support.json_files import dumps

    files = [folder / "diagnosis.json", folder / "diagnosis.md"]
    write_text(files[0], dumps(diagnosis_document(diagnosis)))
    words = "\n".join(f"- {sentence}" for sentence in diagnosis.summary())
    text = markdown([verdicts(diagnosis), *details(diagnosis)])
    write_text(files[1], f"# Diagnosis\n\n{words}\n\n{text}")
    return files


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return all numbers, and the tables in which they are shown."""
    from regraft.premises.diagnosis_tables import details

    return diagnosis.to_dict() | {"tables": [table.to_dict() for table in details(diagnosis)]}
