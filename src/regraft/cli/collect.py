"""``regraft collect``: the tables that follow from a folder of results."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from regraft.bench.protocol.collection import Collection, collect
from regraft.bench.protocol.collection_tables import latex as render_latex
from regraft.bench.protocol.collection_tables import markdown as render_markdown
from regraft.bench.protocol.collection_tables import remarks, tables
from regraft.bench.protocol.selection import RULES
from regraft.cli.console import Screen
from regraft.cli.session import Run
from regraft.support.files import write_text
from regraft.support.json_files import dumps


def run_collect(
    screen: Screen,
    run: Run,
    folder: Path,
    *,
    selection: str | None,
    latex: bool,
    markdown: bool,
) -> None:
    """Show the tables by one selection rule or by all, and write them to the run's folder.

    With ``latex`` or ``markdown`` nothing but the tables in that form is shown.
    """
    if latex and markdown:
        raise ValueError("both LaTeX and Markdown are asked for: choose one of them.")
    rules = tuple(RULES) if selection is None else (selection,)
    # A document goes to a file or a clipboard, where lines of progress would be in its way.
    with nullcontext() if latex or markdown else screen.working(f"reading {folder}"):
        collection = collect(folder, rules)
    if latex:
        screen.document(render_latex(collection))
    elif markdown:
        screen.document(render_markdown(collection))
    else:
        _show(screen, collection)
    document = collection.to_dict()
    files = []
    if run.out is not None:
        files = [run.out / f"collect.{suffix}" for suffix in ("md", "tex", "json")]
        contents = (render_markdown(collection), render_latex(collection), dumps(document))
        for file, content in zip(files, contents, strict=True):
            write_text(file, content)
    run.finish(screen, document, files)


def _show(screen: Screen, collection: Collection) -> None:
    for remark in remarks(collection):
        screen.note(remark)
    screen.say(
        f"Test accuracy (%) ± standard error over trials, from {collection.runs} runs "
        f"({collection.records} records).",
        "",
    )
    for table in tables(collection):
        screen.say(table.title)
        screen.table(table.columns, table.rows)
