"""``regraft report``: a page from what other commands have written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regraft.cli.command import command
from regraft.cli.options import path_option
from regraft.cli.session import Session

_BEGINNING = b"<!doctype html"  # of a page, which may be replaced


@command(loading=None)
def report(
    session: Session,
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_DIR", help="Folder that a command wrote to with --out.", readable=False
        ),
    ],
    path: Annotated[
        Path | None, path_option("File for the page. Default: RUN_DIR/report.html.", "--out")
    ] = None,
) -> None:
    """Make a page to look at and to pass on from what other commands have written."""
    if path is not None and path.is_dir():
        raise ValueError(f"{path} is a folder: name a file with --out, such as {path}/report.html.")
    if path is not None and path.is_file() and not _is_page(path):
        raise ValueError(f"{path} is there, and no page: name another file with --out.")
    with session.working(f"reading {folder}"):
        from regraft.report import write_report

        written = write_report(folder, path)
    session.finish({"report": str(written)}, [written])


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_BEGINNING)).lower() == _BEGINNING
