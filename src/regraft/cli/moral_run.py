"""``regraft moral run``: scenarios in, the tables of section 5.4 and a transfer out."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regraft.cli.command import command, make_group
from regraft.cli.diagnose import show_diagnosis, show_tables, write_diagnosis
from regraft.cli.options import Device, Folder, Radius, Seed
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.moral.experiment import MoralResult, Probabilities
    from regraft.moral.process import Records
    from regraft.moral.scenarios import Library
    from regraft.support.table import Table

DOWNLOAD = "download"

group = make_group("moral", "Moral questions, answered by people whose values are known.")


@command("run", group=group, html=True)
def run_command(
    session: Session,
    out: Annotated[Path, Folder],
    scenarios: Annotated[
        str | None,
        typer.Option(
            help="MoralChoice's .csv file, or the folder with it, or 'download'; by default "
            "scenarios are generated.",
        ),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            help="Folder of regraft moral elicit; by default a documented model responds.",
            readable=False,
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Whose answers, if there are several models'.")
    ] = None,
    records: Annotated[int, typer.Option(help="Of each panel.")] = 14_000,
    encoder: Annotated[
        str, typer.Option(help="hashed, minilm, roberta-base or any text encoder's name.")
    ] = "hashed",
    radius: Radius = 8.0,
    seed: Seed = 0,
    device: Device = "cpu",
) -> None:
    """Section 5.4 of the paper: panels, the four diagnostics, and CRO on a panel held out."""
    from regraft.core.hull import check_radius
    from regraft.encoders import load_text_encoder
    from regraft.moral.experiment import run_moral

    if records < 1:
        raise ValueError(f"records is {records}: pass 1 or more of each panel.")
    if model is not None and answers is None:
        raise ValueError(
            "--model chooses among elicited answers: pass their folder with --answers."
        )
    check_radius(radius)
    with session.working("reading the scenarios"):
        library = _choose_library(scenarios, out)
        library, probabilities, mechanism = _choose_responses(library, answers, model)
    session.say(f"Scenarios: {library.origin}.", mechanism, "")
    with session.working("loading the encoder") as step:
        result, drawn = run_moral(
            library,
            probabilities,
            mechanism,
            load_text_encoder(encoder, device=device),
            records=records,
            radius=radius,
            seed=seed,
            device=device,
            on_step=step,
        )
    files = _write(out, result, library, drawn)
    show_diagnosis(session, result.diagnosis)
    show_tables(session, _tables(result))
    session.say(*_remarks(result))
    own = None if scenarios in (None, DOWNLOAD) else Path(str(scenarios))
    session.finish(result.to_dict(), files, read=[own, answers])


def _choose_library(scenarios: str | None, out: Path) -> Library:
    """Read the scenarios from a file or folder, download them, or generate them if None."""
    from regraft.moral.library import make_library
    from regraft.moral.scenarios import download_library, read_library

    if scenarios is None:
        return make_library()
    return download_library(out) if scenarios == DOWNLOAD else read_library(Path(scenarios))


def _choose_responses(
    library: Library, answers: Path | None, model: str | None
) -> tuple[Library, Probabilities, str]:
    """Return the probabilities of action 1 by elicited answers, or by the documented model if None.

    With them come the scenarios that have them, and a sentence that says what made the labels.
    """
    from regraft.moral.answers import read_answers, usable
    from regraft.moral.responses import MECHANISM, response_probabilities

    if answers is None:
        return library, response_probabilities(library), MECHANISM
    elicited = read_answers(answers, library, model=model)
    library, probabilities = usable(library, elicited)
    return library, probabilities, elicited.mechanism


def _tables(result: MoralResult) -> list[Table]:
    from regraft.moral.tables import paper_tables, targets_table, transfer_table

    transfer = result.transfer
    return [*paper_tables(result), transfer_table(transfer), targets_table(transfer)]


def _remarks(result: MoralResult) -> list[str]:
    angles = ", ".join(f"{angle:.1f}° at {n}" for n, angle in result.median_angles.items())
    return [
        f"On scenarios that no map has seen: {result.new_scenarios.sentence}",
        f"Median principal angle by records a panel: {angles}.",
        *result.transfer.certificate.summary(),
        *result.transfer.sentences(),
    ]


def _write(out: Path, result: MoralResult, library: Library, drawn: Records) -> list[Path]:
    """Write the diagnosis, the result and the records drawn into ``out``; returns the files."""
    from regraft.moral.scenarios import TOPICS
    from regraft.moral.values import PROFILES, profile_name
    from regraft.premises.diagnosis_tables import markdown
    from regraft.support.files import write_text
    from regraft.support.json_files import write_result
    from regraft.support.plots import plot_audit
    from regraft.support.table import Table

    files = write_diagnosis(out, result.diagnosis)
    draw = functools.partial(plot_audit, result.transfer.curves)
    document = result.to_dict() | {"tables": [table.to_dict() for table in _tables(result)]}
    files += write_result(out, "moral.json", document, "stress_curve.png", draw)
    head = [f"Scenarios: {result.origin}.", result.mechanism, *_remarks(result)]
    words = "\n".join(f"- {sentence}" for sentence in head)
    write_text(out / "moral.md", f"# Moral questions\n\n{words}\n\n{markdown(_tables(result))}")
    rows = tuple(
        (
            drawn.names[panel],
            profile_name(PROFILES[profile]),
            TOPICS[library.topics[scenario]],
            library.scenarios[scenario].id,
            int(y),
        )
        for panel, profile, scenario, y in zip(
            drawn.panel, drawn.profile, drawn.scenario, drawn.y, strict=True
        )
    )
    columns = "panel", "profile", "topic", "scenario", "action1"
    write_text(out / "records.csv", Table("Records", columns, rows).csv())
    return [*files, out / "moral.md", out / "records.csv"]
