"""Pages that are made while the site is built: gallery, glossary and the measured results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from regraft.support.glossary import read_glossary

ROOT = Path(__file__).parents[2]
OUTPUT = ROOT / "docs" / "gallery"
RESULTS = "benchmarks/RESULTS.md"
_CELL = re.compile(r"^# %%(.*)$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> None:
    """Put the gallery's pages, where there are some, before the guides."""
    pages = [{_title(script): f"gallery/{script.stem}.md"} for script in _scripts()]
    if pages and config.nav is not None:
        place = next(i for i, entry in enumerate(config.nav) if "Guides" in entry)
        config.nav.insert(place, {"Gallery": pages})


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages to those of the folder of documents."""
    made = {f"gallery/{script.stem}.md": render_script(script) for script in _scripts()}
    made[RESULTS] = (ROOT / RESULTS).read_text(encoding="utf-8")
    made["glossary.md"] = render_glossary()
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links that leave the folder of documents in the repository stay inside it on the site."""
    if page.file.src_uri.startswith("gallery/"):
        return markdown.replace("](../docs/", "](../")
    return markdown.replace(f"](../{RESULTS})", f"]({RESULTS})")


def render_glossary() -> str:
    """Return the page of all words with their meanings."""
    parts = ["# Words", "The words of the method, as the report and the help use them."]
    for title, words in read_glossary().items():
        rows = [f"| **{word}** | {meaning} |" for word, meaning in words.items()]
        parts.append("\n".join([f"## {title}\n", "| | |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def render_script(script: Path) -> str:
    """A script in the percent format as Markdown: its text cells, and its code in blocks."""
    name = f"gallery/{script.name}"
    parts = [*_blocks(script.read_text(encoding="utf-8")), *_output(script.stem)]
    return "\n\n".join([*parts, f"This page is the script `{name}`."]) + "\n"


def _output(name: str) -> Iterator[str]:
    """What a script printed and drew when ``benchmarks/gallery.py`` ran it."""
    printed = OUTPUT / f"{name}.txt"
    if not printed.exists():
        return
    yield f"## What it printed\n\n```text\n{printed.read_text(encoding='utf-8').strip()}\n```"
    pictures = sorted(OUTPUT.glob(f"{name}_*.png"))
    yield from (f"![{picture.stem.replace('_', ' ')}]({picture.name})" for picture in pictures)


def _blocks(text: str) -> Iterator[str]:
    head, *cells = _CELL.split(text)
    for kind, body in zip(("", *cells[::2]), (head, *cells[1::2]), strict=True):
        body = body.strip("\n")
        if "[markdown]" in kind:
            yield re.sub(r"^# ?", "", body, flags=re.MULTILINE)
        elif body:
            yield f"```python\n{body}\n```"


def _scripts() -> list[Path]:
    return sorted((ROOT / "gallery").glob("*.py"))


def _title(script: Path) -> str:
    heading = re.search(r"^# (.+)$", render_script(script), re.MULTILINE)
    return heading.group(1) if heading else script.stem
