"""What the documentation tells people to type works as it stands there, and the site is whole."""

import ast
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import typer

import regraft
from regraft.cli.app import app
from regraft.data.banks import write_bank
from regraft.data.examples import ConfoundedDomains, make_confounded_domains
from regraft.support.glossary import meaning, read_glossary
from tests.helpers.commands import Once, call
from tests.helpers.paths import ROOT
from tests.helpers.problems import make_problem

DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
COMMAND_PAGES = [page for page in PAGES if page.startswith("commands/")]
# These make the files that they use; other pages speak of the reader's own, and their commands
# are parsed.
RUN = ["tutorial.md", *COMMAND_PAGES]
# Of these, what takes long or needs data, a device or a service is parsed too: it has tests of its
# own.
LONG = {"demo", "doctor", "moral", "reproduce", "serve", "sweep"}
ELSEWHERE = {"cuda", "ray", "ColoredMNIST"}
PRINTED = {"tutorial.md", "should-i-use-this.md"}  # with ``text`` blocks of what was printed last
UNRUNNABLE = {"embedding.md": 1}  # blocks fenced as ``py``: a network of timm's, on a GPU
TESTED_ELSEWHERE = {"protocol.md"}  # by tests/project/test_protocol_doc.py
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\d[\d.]*(?:e-?\d+)?")


def _blocks(page: str) -> list[tuple[str, str]]:
    """The language and text of every block of a page, in order."""
    return _BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


def _commands(text: str) -> list[list[str]]:
    """The words of every line that calls regraft, without comments."""
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    return [words[1:] for words in lines if words[:1] == ["regraft"]]


def _find(words: list[str]) -> tuple[Any, list[str]]:
    """The command that ``words`` call, and its arguments."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        assert words and words[0] in command.commands, f"there is no command {words}"
        command, words = command.commands[words[0]], words[1:]
    return command, words


def parses(words: list[str]) -> None:
    """Check arguments and options as the command would, without running it."""
    command, arguments = _find(words)
    command.make_context(command.name, list(arguments))


def _placeholders() -> dict[str, Any]:
    """What the guides call the reader's own: arrays, and a bank in the working folder."""
    problem = make_problem(n=60, d=10, sources=3)
    group = np.arange(len(problem.y)) % 2
    write_bank("bank", problem.X, problem.y, problem.domain)
    names = {"X": problem.X, "y": problem.y, "domain": problem.domain, "group": group}
    return {**names, "sample_domain": problem.domain}


def _few_rows(n_samples: int, **options: Any) -> ConfoundedDomains:
    return make_confounded_domains(min(n_samples, 120), **options)


def _resembles(expected: str, line: str) -> bool:
    """Whether a line starts with the same words, and numbers that are the same up to machines."""
    words, found = expected.split(), line.split()[: len(expected.split())]
    if [_NUMBER.sub("#", word) for word in words] != [_NUMBER.sub("#", word) for word in found]:
        return False
    pairs = zip(_NUMBER.findall(expected), _NUMBER.findall(" ".join(found)), strict=True)
    return all(_near(float(a.rstrip(".")), float(b.rstrip("."))) for a, b in pairs)


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= max(0.05 * abs(a), 0.02)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in TESTED_ELSEWHERE])
@pytest.mark.slow
def test_blocks_of_a_page_work_in_their_order(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")  # tables and sentences in one line
    if page not in PRINTED:
        monkeypatch.setattr(regraft, "make_confounded_domains", _few_rows)
    state: dict[str, Any] = {} if page in RUN else _placeholders()
    printed = ""
    for language, text in _blocks(page):
        if language == "python":
            exec(compile(text, page, "exec"), state)
        for words in _commands(text) if language == "sh" else ():
            if page not in RUN or words[0] in LONG or ELSEWHERE & set(words):
                parses(words)
            else:
                call(words)
        if language == "text" and page in PRINTED:
            for line in text.splitlines():
                assert any(_resembles(line, said) for said in printed.splitlines()), line
        else:
            printed = capsys.readouterr().out


def test_few_blocks_cannot_run() -> None:
    found = {page: [language for language, _ in _blocks(page)].count("py") for page in PAGES}
    assert {page: count for page, count in found.items() if count} == UNRUNNABLE
    known = {"python", "py", "sh", "text"}
    assert {language for page in PAGES for language, _ in _blocks(page)} <= known


def test_resembling_lines() -> None:
    said = "  4                         1062             0.625                 68.8%  "
    assert _resembles("4 1062 0.625 68.8%", said) and _resembles("4 1050 0.63", said)
    assert not _resembles("4 1062 0.7 68.8%", said) and not _resembles("4 nats", said)


# Commands.


def _leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if not hasattr(command, "commands"):
        yield path
        return
    for name, child in command.commands.items():
        yield from _leaves(child, (*path, name))


def test_every_command_has_a_page_and_every_page_a_command() -> None:
    leaves = set(_leaves(typer.main.get_command(app)))
    assert {Path(page).stem for page in COMMAND_PAGES} == {leaf[0] for leaf in leaves} | {"index"}
    marks = {
        (page, tuple(words.split()))
        for page in COMMAND_PAGES
        for words in re.findall(r"<!-- options: (.+) -->", (DOCS / page).read_text())
    }
    assert marks == {(f"commands/{leaf[0]}.md", leaf) for leaf in leaves}
    index = (DOCS / "commands/index.md").read_text()
    assert all(f"]({leaf[0]}.md)" in index for leaf in leaves)


@pytest.mark.parametrize("page", [page for page in COMMAND_PAGES if "index" not in page])
def test_a_command_page_says_what_one_needs(page: str) -> None:
    headings = re.findall(r"^## (.+)$", (DOCS / page).read_text(), re.MULTILINE)
    assert headings[:3] == ["Example", "What it writes", "How to read it"]
    assert all(heading.startswith("Options") for heading in headings[3:]) and headings[3:]
    called = {words[0] for language, text in _blocks(page) for words in _commands(text)}
    assert Path(page).stem in called


# Names.


def test_every_public_name_and_every_theorems_test_is_named() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (DOCS / "method.md").read_text())
    assert len(named) > 50
    for path in {path for path, _ in named}:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert {name for file, name in named if file == path} <= defined, path
    tree = ast.parse((ROOT / "tests/core/test_theorems.py").read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    text = (DOCS / "method.md").read_text()
    assert {
        name for name in names if name.startswith("test_") and f"::{name}`" not in text
    } == set()
    documented = {
        name.rpartition(".")[2]
        for page in DOCS.glob("api/*.md")
        for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)
    }
    assert set(regraft.__all__) - {"__version__"} <= documented


# The site.


class _Loads(HTMLParser):
    """Addresses that a browser loads by itself to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.found.append(given.get("href") or "")
        elif tag != "a":
            self.found.append(given.get("src") or "")


def _load_hook(name: str) -> ModuleType:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    spec = importlib.util.spec_from_file_location(name, DOCS / "hooks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def site(once: Once) -> Path:
    for needed in ("material", "mkdocstrings"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")

    def build(folder: Path) -> None:
        built = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
            cwd=ROOT,
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
            capture_output=True,
            text=True,
        )
        assert built.returncode == 0, built.stderr

    return once("site", build)


def test_the_site_builds_with_options_docstrings_and_every_word(site: Path) -> None:
    pages = {page.relative_to(site).with_suffix(".md").as_posix() for page in site.rglob("*.html")}
    assert set(PAGES) <= pages
    for page in site.rglob("*.html"):
        loads = _Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        assert any(address.endswith(".css") for address in loads.found)
        assert [a for a in loads.found if a.startswith(("http:", "https:", "//"))] == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )[\"']?(https?:)?//", sheet.read_text()), sheet
    fit = (site / "commands" / "fit.html").read_text(encoding="utf-8")
    command, _ = _find(["fit"])
    for option in command.params:
        assert all(f"<code>{name}</code>" in fit for name in option.opts if name.startswith("-"))
    assert "<!-- options" not in fit and meaning("radius") in fit
    audits = (site / "api" / "audits.html").read_text(encoding="utf-8")
    assert "the head's value on the worst target of the game" in audits  # a comment beside a field
    estimators = (site / "api" / "estimators.html").read_text(encoding="utf-8")
    assert "how far a target may lie" in estimators and ":class:" not in estimators
    assert "---" not in re.sub(r"<[^>]*>|<!--.*?-->", "", audits + estimators)  # parsed sections
    page = unescape((site / "glossary.html").read_text(encoding="utf-8"))
    for words in read_glossary().values():
        for word, text in words.items():
            assert f"<strong>{word}</strong>" in page and text in page
    scripts = {script.stem for script in (ROOT / "gallery").glob("*.py")}
    assert {page.stem for page in site.glob("gallery/*.html")} == scripts
    method = (site / "method.html").read_text(encoding="utf-8")
    linked = set(re.findall(r'href="checks\.html#(\w+)"', method))
    named = re.findall(r"`tests/[\w/]+\.py::(\w+)`", (DOCS / "method.md").read_text())
    checks = (site / "checks.html").read_text(encoding="utf-8")
    assert linked == set(named) == set(re.findall(r'<h2 id="(\w+)"', checks))


def test_scripts_become_pages(tmp_path: Path) -> None:
    script = tmp_path / "small.py"
    script.write_text("# %% [markdown]\n# # Small\n#\n# Text.\n\n# %%\nx = 1\n\n# %%\n\nprint(x)\n")
    page = _load_hook("pages").render_script(script)
    assert page.startswith(
        "# Small\n\nText.\n\n```python\nx = 1\n```\n\n```python\nprint(x)\n```\n"
    )
    assert page.endswith("`gallery/small.py`.\n")
