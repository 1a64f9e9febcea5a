"""``regraft moral run``: scenarios in, the tables of section 5.4 and a transfer out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regraft.cli.command import command, make_group
from regraft.cli.diagnose import show_diagnosis
from regraft.cli.options import Device, Folder, HullRadius, Seed, path_option
from regraft.cli.session import Session

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
        path_option("Folder of regraft moral elicit; by default a documented model responds."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Whose answers, if there are several models'.")
    ] = None,
    permissiveness: Annotated[
        float,
        typer.Option(
            help="Of the documented model: how much less people at +1 on all axes mind violations "
            "in general. At 1.68 the panels are as far apart as the paper's.",
        ),
    ] = 0.0,
    records: Annotated[int, typer.Option(help="Of each panel.")] = 14_000,
    encoder: Annotated[
        str, typer.Option(help="hashed, minilm, roberta-base or any text encoder's name.")
    ] = "hashed",
    radius: HullRadius = None,
    seed: Seed = 0,
    device: Device = "cpu",
) -> None:
    """Run section 5.4 of the paper: panels, the four diagnostics, and CRO on a panel held out."""
    from regraft.core.hull import check_radius
    from regraft.encoders import load_text_encoder
    from regraft.moral.answers import choose_responses
    from regraft.moral.experiment import run_moral
    from regraft.moral.library import DOWNLOAD, choose_library
    from regraft.moral.tables import remarks, result_tables, write_moral

    if records < 1:
        raise ValueError(f"records is {records}: pass 1 or more of each panel.")
    if model is not None and answers is None:
        raise ValueError(
            "--model chooses among elicited answers: pass their folder with --answers."
        )
    if permissiveness and answers is not None:
        raise ValueError(
            "--permissiveness changes the documented model: leave it or --answers out."
        )
    if radius is not None:
        check_radius(radius)
    with session.working("reading the scenarios"):
        library = choose_library(scenarios, out)
        library, probabilities, mechanism = choose_responses(
            library, answers, model, permissiveness
        )
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
            on_progress=step,
        )
    files = write_moral(session.stage or out, result, library, drawn)
    show_diagnosis(session, result.diagnosis, with_long=True)
    session.tables(result_tables(result))
    session.say(*remarks(result))
    own = None if scenarios in (None, DOWNLOAD) else Path(str(scenarios))
    session.finish(result.to_dict(), files, read=[own, answers])
