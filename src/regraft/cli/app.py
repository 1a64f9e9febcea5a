"""The command line ``regraft``: importing the modules of its commands registers them."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from regraft._version import __version__
from regraft.cli import (  # noqa: F401
    abduct,
    adapt,
    audit,
    collect,
    compare,
    compare_sweeps,
    demo,
    diagnose,
    doctor,
    download,
    drift,
    embed,
    export,
    fit,
    frontier,
    moral_elicit,
    moral_run,
    place,
    predict,
    report,
    reproduce,
    serve,
    sweep,
    train,
)
from regraft.cli.command import app
from regraft.cli.failures import PROGRAM


def main() -> None:
    """Run the command that the user typed."""
    if isinstance(sys.stdout, TextIOWrapper):
        # What a terminal or a file of another encoding lacks is written as \u2260 and such.
        sys.stdout.reconfigure(errors="backslashreplace")
    app(prog_name=PROGRAM)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"regraft {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
]


@app.callback()
def _options(version: Version = False) -> None:
    pass
