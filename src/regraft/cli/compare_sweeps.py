"""``regraft compare-sweeps``: where two folders of runs lead to other tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from regraft.cli.command import command
from regraft.cli.names import RULES
from regraft.cli.options import Compat, Out, choice, one_of, path_argument
from regraft.cli.session import Session


@command("compare-sweeps", loading=None)
def compare_sweeps_command(
    session: Session,
    first: Annotated[Path, path_argument("Folder of runs, ours or DomainBed's.")],
    second: Annotated[Path, path_argument("Another one.")],
    selection: Annotated[
        str | None, choice(f"Selection rule: {one_of(*RULES)}. Default: all.", *RULES)
    ] = None,
    compat: Compat = False,
    out: Out = None,
) -> None:
    """Compare the tables of two sweeps cell by cell, and tell why cells differ."""
    from regraft.bench.protocol.sweep_differences import (
        compare_sweeps,
        count_differences,
        difference_tables,
    )
    from regraft.support.files import write_text
    from regraft.support.json_files import dumps

    rules = RULES if selection is None else (selection,)
    with session.working(f"reading {first} and {second}"):
        pairs = compare_sweeps(first, second, rules, compat=compat)
    differ = [pair for pair in pairs if not pair.is_same]
    document = {"cells": len(pairs), "differ": [pair.to_dict() for pair in differ]}
    session.say(count_differences(pairs))
    session.tables(difference_tables(pairs))
    files = []
    if out is not None:
        files = [out / "compare_sweeps.json"]
        write_text(files[0], dumps(document))
    session.finish(document, files, read=[first, second])
