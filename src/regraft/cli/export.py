"""``regraft export``: a model in a format that runs without Regraft."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from regraft.cli.command import command
from regraft.cli.names import EXPORT_FORMATS
from regraft.cli.options import Model, choice, one_of, path_option
from regraft.cli.session import Session


@command()
def export(
    session: Session,
    model: Model,
    to: Annotated[str, choice(f"Format: {one_of(*EXPORT_FORMATS)}.", *EXPORT_FORMATS)],
    path: Annotated[Path, path_option("File to write, or for sklearn a folder.", "--out")],
) -> None:
    """Write a model, with its preprocessing, in a format that runs without Regraft."""
    from regraft.estimators.exporting import export as write
    from regraft.estimators.saving import load

    replaces = path.exists()
    with session.working(f"exporting {model}"):
        write(load(model), path, to=to)
    if replaces:
        session.say(f"{path} was there before and has been replaced.")
    session.finish({"format": to, "model": str(path)}, [path])
