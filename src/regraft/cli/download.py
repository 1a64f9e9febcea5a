"""``regraft download``: a dataset of the protocol, verified and unpacked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regraft.cli.command import command
from regraft.cli.names import DATASETS, DRAWN_DATASETS
from regraft.cli.options import among, path_option
from regraft.cli.session import Session

_FROM_FILES = [name for name in DATASETS if name not in DRAWN_DATASETS]


@command("download", traced=False, loading=None, resumes=True)
def download_command(
    session: Session,
    dataset: Annotated[
        str | None,
        typer.Argument(help="Its name. Default: list them.", autocompletion=among(*_FROM_FILES)),
    ] = None,
    data: Annotated[Path, path_option("Folder of the data.")] = Path("."),
    origin: Annotated[
        str | None, typer.Option("--from", help="Address or file of the archive.")
    ] = None,
    checksum: Annotated[
        str | None, typer.Option(help="The archive's sha256 or md5, to compare.")
    ] = None,
) -> None:
    """Bring a dataset of the protocol into the folder of the data.

    A download that was stopped goes on when the same command is run again. Archives are compared
    with --checksum, and nothing in them can leave the folder that they are unpacked to.
    """
    from regraft.bench.dataset_sources import list_sources

    if dataset is None:
        sources = list_sources()
        rows = [(name, each.folder, each.page or "by itself") for name, each in sources.items()]
        session.table(("dataset", "folder", "where to get it"), rows)
        session.finish({"datasets": {name: vars(each) for name, each in sources.items()}}, [])
        return
    from regraft.bench.dataset_downloads import get_dataset

    with session.working(f"getting {dataset}") as step:
        told = -1

        def tell(have: int, total: int | None) -> None:
            nonlocal told
            share = int(20 * have / total) if total else have >> 27
            if share != told:
                told = share
                step(f"{have / 1e6:,.0f} MB" + (f" of {total / 1e6:,.0f}" if total else ""))

        folder, digest = get_dataset(dataset, data, origin, checksum, tell)
    if digest is not None and checksum is None:
        session.note(f"nothing was compared: note the sha256 {digest} for the next time.")
    session.finish({"dataset": dataset, "folder": str(folder), "sha256": digest}, [folder])
