"""What ``regraft diagnose`` does: a table in, verdicts and their numbers out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regraft.cli.console import Screen
from regraft.cli.session import Run
from regraft.data.domain_names import named_domains
from regraft.data.tables import read_table
from regraft.premises.diagnose import Diagnosis, diagnose
from regraft.premises.diagnosis_tables import details, markdown, verdicts
from regraft.support.files import write_text
from regraft.support.json_files import dumps
from regraft.support.table import Table


def run_diagnose(
    screen: Screen,
    run: Run,
    data: Path,
    *,
    label: str,
    domain: str,
    group: str | None,
    groups: int,
    seed: int,
    device: str,
) -> None:
    """Check the premises on the rows in ``data``; raises ``ValueError`` with one sentence."""
    with screen.working(f"reading {data}"):
        table = read_table(data, label=label, domain=domain, group=group)
        assert table.y is not None and table.domain is not None  # needed by default
    with screen.working("checking the premises") as step:
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
    files = [] if run.out is None else write_diagnosis(run.out, diagnosis)
    show_diagnosis(screen, diagnosis)
    run.finish(screen, diagnosis.to_dict(), files)


def show_diagnosis(screen: Screen, diagnosis: Diagnosis) -> None:
    """Print the verdicts, the sentences behind them, and the numbers behind these."""
    table = verdicts(diagnosis)
    screen.table(table.columns, table.rows)
    screen.say(*diagnosis.summary(), "")
    show_tables(screen, details(diagnosis))


def show_tables(screen: Screen, tables: Iterable[Table]) -> None:
    """Print tables under their titles."""
    for table in tables:
        screen.say(table.title)
        screen.table(table.columns, table.rows)


def write_diagnosis(folder: Path, diagnosis: Diagnosis) -> list[Path]:
    """Write diagnosis.json and diagnosis.md into ``folder``; the files written."""
    files = [folder / "diagnosis.json", folder / "diagnosis.md"]
    write_text(files[0], dumps(diagnosis_document(diagnosis)))
    words = "\n".join(f"- {sentence}" for sentence in diagnosis.summary())
    text = markdown([verdicts(diagnosis), *details(diagnosis)])
    write_text(files[1], f"# Diagnosis\n\n{words}\n\n{text}")
    return files


def diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    """All numbers, and the tables in which they are shown."""
    return diagnosis.to_dict() | {"tables": [table.to_dict() for table in details(diagnosis)]}
