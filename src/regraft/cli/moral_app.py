"""The command line's part for moral questions: ``regraft moral run | elicit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regraft.cli.console import Screen
from regraft.cli.options import Device, Folder, Html, Json, Quiet, Radius, Seed, app, command

# The library is imported inside the commands, so that --help does not wait for torch.

moral = typer.Typer(
    help="Moral questions, answered by people whose values are known.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(moral, name="moral")


@command("run", group=moral)
def moral_run(
    context: typer.Context,
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
    html: Html = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Section 5.4 of the paper: panels, the four diagnostics, and CRO on a panel held out."""
    screen = Screen(as_json, quiet)
    with screen.working("starting"):
        from regraft.cli.moral import DOWNLOAD, run_moral_command
        from regraft.cli.session import Run
    own = [] if scenarios in (None, DOWNLOAD) else [Path(str(scenarios))]
    run_moral_command(
        screen,
        Run.of(context, out, html=html, data=[*own, *([answers] if answers else [])]),
        scenarios=scenarios,
        answers=answers,
        model=model,
        records=records,
        encoder=encoder,
        radius=radius,
        seed=seed,
        device=device,
        out=out,
    )


@command("elicit", group=moral, resumes=True)
def moral_elicit(
    context: typer.Context,
    out: Annotated[Path, Folder],
    scenarios: Annotated[
        Path | None,
        typer.Option(
            help="MoralChoice's .csv file, or the folder with it; by default scenarios are "
            "generated.",
            readable=False,
        ),
    ] = None,
    # Written out here, because its module takes torch along.
    model: Annotated[str, typer.Option(help="Name of the model.")] = "claude-haiku-4-5-20251001",
    concurrency: Annotated[int, typer.Option(help="Requests at the same time.")] = 8,
    limit: Annotated[int | None, typer.Option(help="Ask about so many scenarios only.")] = None,
    input_price: Annotated[
        float | None, typer.Option(help="US dollars per million input tokens.")
    ] = None,
    output_price: Annotated[
        float | None, typer.Option(help="US dollars per million output tokens.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Spend without asking first.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Ask a language model, by the key in ANTHROPIC_API_KEY, what people with given values do.

    Tells the cost first. Answers are kept in --out: the same command goes on where it stopped.
    """
    screen = Screen(as_json, quiet)
    with screen.working("starting"):
        from regraft.cli.elicit import run_elicit
        from regraft.cli.session import Run
    run_elicit(
        screen,
        Run.of(context, out, data=[scenarios] if scenarios else []),
        scenarios,
        out=out,
        model=model,
        concurrency=concurrency,
        limit=limit,
        input_price=input_price,
        output_price=output_price,
        yes=yes,
        silent="--json" if as_json else "--quiet" if quiet else None,
    )
