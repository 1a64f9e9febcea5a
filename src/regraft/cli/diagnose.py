"""``regraft diagnose``: a table in, answers, verdicts and their numbers out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regraft.cli.command import command
from regraft.cli.option_groups import TableColumns
from regraft.cli.options import Data, Device, Out, Seed
from regraft.cli.session import Session

_SHORT = 15  # rows of a table that is printed without being asked for

if TYPE_CHECKING:
    from regraft.premises.diagnose import Diagnosis


@command(html=True)
def diagnose(
    session: Session,
    data: Data,
    columns: TableColumns,
    group: Annotated[
        str | None, typer.Option(help="Column of U, where it was observed (not in a bank).")
    ] = None,
    groups: Annotated[
        int, typer.Option(help="Number of unobserved groups to fit without --group.")
    ] = 2,
    seed: Seed = 0,
    device: Device = "cpu",
    details: Annotated[
        bool, typer.Option("--details", help="Also print the long tables, such as all pairs.")
    ] = False,
    out: Out = None,
) -> None:
    """Say what the data show and what to do: four answers, and the method's premises."""
    from regraft.core.domains import check_domains
    from regraft.premises.diagnose import diagnose_domains
    from regraft.premises.diagnosis_tables import write_diagnosis
    from regraft.support.threads import threads_for

    with session.working(f"reading {data}"):
        table = columns.read(data, group)
    with session.working("checking the premises") as step:
        domains = check_domains(table.X, table.y, table.domain, device=device)
        with threads_for(domains.X.numel()):
            diagnosis = diagnose_domains(
                domains, table.group, groups=groups, seed=seed, on_progress=step
            )
    stage = session.stage
    files = [] if stage is None else write_diagnosis(stage, diagnosis)
    show_diagnosis(session, diagnosis, with_long=details)
    session.finish(diagnosis.to_dict(), files, read=[data])


def show_diagnosis(session: Session, diagnosis: Diagnosis, *, with_long: bool) -> None:
    """Print the answers, then the verdicts on the premises, and the numbers behind both.

    Long tables are named only, unless they are asked for.
    """
    from regraft.premises.diagnosis_tables import answers, details, verdicts

    sentences = diagnosis.paragraphs()
    n = len(diagnosis.answers)
    for table, said in ((answers(diagnosis), sentences[:n]), (verdicts(diagnosis), sentences[n:])):
        session.tables([table])
        session.say(*said, *filter(None, [table.note]), "")
    tables = details(diagnosis)
    shown = [table for table in tables if with_long or len(table.rows) <= _SHORT]
    session.tables(shown)
    if len(shown) < len(tables):
        named = [f"{each.title} ({len(each.rows)} rows)" for each in tables if each not in shown]
        session.say(f"Not printed: {'; '.join(named)}. Add --details to see them.", "")
