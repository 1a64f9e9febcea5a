"""The tests that the method's statements name, on a page of their own, and links to them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
METHOD, CHECKS = "method.md", "checks.md"
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the page of tests."""
    text = (ROOT / "docs" / METHOD).read_text(encoding="utf-8")
    named = dict.fromkeys(_NAMED.findall(text))
    parts = [
        "# The tests behind the method",
        f"Those that [the method]({METHOD}) names, as they stand in the repository; `make test` "
        "runs them.",
    ]
    for path, name in named:
        parts.append(f"## {name}\n\n`{path}`\n\n```python\n{_source(ROOT / path, name)}\n```")
    files.append(File.generated(config, CHECKS, content="\n\n".join(parts) + "\n"))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Link the names of tests to their source."""
    if page.file.src_uri != METHOD:
        return markdown
    return _NAMED.sub(lambda found: f"[`{found[2]}`]({CHECKS}#{found[2]})", markdown)


def _source(path: Path, name: str) -> str:
    """A test with its decorators."""
    text = path.read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            first = min(line.lineno for line in (node, *node.decorator_list))
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    raise ValueError(f"{path} has no test {name}: correct it in docs/{METHOD}.")
