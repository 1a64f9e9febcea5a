"""Names and docstrings that a stranger understands at first reading."""

import ast
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.helpers.paths import SOURCE

PACKAGE = SOURCE / "regraft"
# Folders whose docstrings are checked.
CHECKED = (
    *("support/", "core/", "premises/", "estimators/", "data/", "encoders/"),
    *("report/", "bench/", "moral/", "cli/"),
)
# Class names that still stand for two things. This set only ever gets smaller.
KNOWN_DUPLICATES: set[str] = set()
NOUN_PHRASES = (
    *("The ", "A ", "An ", "What ", "Whether ", "How ", "Where ", "Who ", "Of ", "By ", "All "),
    *("Each ", "One ", "Its ", "This ", "That ", "These ", "Inverse ", "Plain ", "As ", "With "),
)
MOST_COLUMNS = 100

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def parsed() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def documented(tree: ast.Module) -> Iterator[tuple[_Function, str]]:
    """Public functions and methods, each with the first line of its docstring."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for scope in (tree, *(each for each in classes if not each.name.startswith("_"))):
        for node in scope.body:
            if not isinstance(node, _Function) or node.name.startswith("_"):
                continue
            if not any("property" in ast.unparse(each) for each in node.decorator_list):
                yield node, (ast.get_docstring(node) or "").partition("\n")[0]


def faults(line: str, indent: int = 4) -> list[str]:
    """What is wrong with the first line of a function's docstring."""
    found = []
    if not line[:1].isupper() or line.startswith(NOUN_PHRASES):
        found.append("does not begin with a verb")
    if not line.endswith("."):
        found.append("does not end with a period")
    if indent + len('"""') + len(line) > MOST_COLUMNS:
        found.append("is too long")
    return found


@pytest.mark.parametrize(
    ("path", "tree"), [pytest.param(*x, id=x[0]) for x in parsed() if x[0].startswith(CHECKED)]
)
def test_docstrings_of_functions_begin_with_a_verb(path: str, tree: ast.Module) -> None:
    wrong = {
        f"{path}:{node.lineno} {node.name}: {line}": faults(line, node.col_offset + 4)
        for node, line in documented(tree)
    }
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize(
    "line",
    [
        "The head of a target.",
        "(n,) cross-entropy of each row.",
        "Whether it has rows.",
        "Of ``fit.json``.",
        "By domain.",
        "``X`` as a matrix.",
        "Return the head",
        "Return " + "a very long sentence " * 5 + ".",
        "",
    ],
)
def test_riddles_are_noticed(line: str) -> None:
    assert faults(line)


def test_no_two_classes_have_one_name_and_every_folder_exists() -> None:
    places = defaultdict(list)
    for path, tree in parsed():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    found = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: found[name] for name in found.keys() - KNOWN_DUPLICATES} == {}
    assert all((PACKAGE / folder).exists() for folder in CHECKED)
    assert faults("Flush ``file`` to disk (fsync).") == []
