"""``regraft collect``: the tables that follow from a folder of results."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from regraft.cli.command import command
from regraft.cli.names import RULES
from regraft.cli.options import Compat, Out, choice, one_of, path_argument
from regraft.cli.session import Session


@command("collect", html=True, loading=None)
def collect_command(
    session: Session,
    folder: Annotated[Path, path_argument("Folder of runs, ours or DomainBed's.")],
    selection: Annotated[
        str | None, choice(f"Selection rule: {one_of(*RULES)}. Default: all.", *RULES)
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX.")] = False,
    compat: Compat = False,
    out: Out = None,
) -> None:
    """Make the tables of a sweep by three selection rules, the last of which sees the test."""
    from regraft.bench.protocol import collection_tables as render
    from regraft.bench.protocol.collection import collect, warn_of_damage
    from regraft.support.files import write_text
    from regraft.support.json_files import dumps

    if latex and markdown:
        raise ValueError("both LaTeX and Markdown are asked for: choose one of them.")
    rules = RULES if selection is None else (selection,)
    # A document goes to a file or a clipboard, where lines of progress would be in its way.
    with nullcontext() if latex or markdown else session.working(f"reading {folder}"):
        collection = collect(folder, rules, compat=compat)
    warn_of_damage(folder, collection.damaged)
    if latex:
        session.document(render.latex(collection))
    elif markdown:
        session.document(render.markdown(collection))
    else:
        for remark in render.remarks(collection):
            session.note(remark)
        session.say(
            f"{render.describe_numbers(collection)}, from {collection.runs} runs "
            f"({collection.records} records).",
            "",
        )
        session.tables(render.tables(collection))
    document = collection.to_dict()
    files = []
    if (stage := session.stage) is not None:
        contents = (render.markdown(collection), render.latex(collection), dumps(document))
        files = [stage / f"collect.{suffix}" for suffix in ("md", "tex", "json")]
        for file, content in zip(files, contents, strict=True):
            write_text(file, content)
    session.finish(document, files, read=[folder])
