"""The rooms of the package: who may import whom."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.paths import SOURCE

PACKAGE = SOURCE / "regraft"
# A folder may import only itself and the folders before it.
LAYERS = (
    *("support", "core", "premises", "estimators", "data"),
    *("encoders", "report", "bench", "moral", "cli", "domainbed"),
)
ROOT_FILES = {"__init__.py", "__main__.py", "_version.py", "py.typed"}
MOST_LINES = 400


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE)


def imported(text: str) -> Iterator[str]:
    """The folders of the package that ``text`` imports anywhere, inside functions too."""
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("regraft."):
                yield name.split(".")[1]


def upward(layer: str, text: str) -> set[str]:
    below = LAYERS[: LAYERS.index(layer) + 1]
    return {name for name in imported(text) if name not in (*below, "_version")}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_folders_before_its_own(path: Path) -> None:
    layer = path.relative_to(PACKAGE).parts[0]
    assert not upward(layer, path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "text",
    [
        "from regraft.cli.app import main",
        "import regraft.cli",
        "def f():\n    from regraft.estimators import cro",
        "if TYPE_CHECKING:\n    from regraft.bench.protocol.jobs import Job",
        "from regraft import CROClassifier",
    ],
)
def test_an_import_of_a_later_folder_is_noticed(text: str) -> None:
    assert upward("core", text)


def test_the_root_holds_no_module_of_its_own_and_no_file_is_too_long() -> None:
    files = {path.name for path in PACKAGE.iterdir() if path.is_file()}
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert files == ROOT_FILES
    assert folders == set(LAYERS)
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in modules()}
    assert {path: n for path, n in lengths.items() if n > MOST_LINES} == {}
