"""The gallery's notebooks are in step with its scripts, and run in a real kernel."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from benchmarks.notebooks import convert
from tests.helpers.paths import ROOT

SCRIPTS = sorted((ROOT / "gallery").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_notebooks_are_in_step_with_the_scripts(script: Path) -> None:
    written = script.with_suffix(".ipynb").read_text("utf-8")
    assert written == convert(script.read_text("utf-8")), "run python benchmarks/notebooks.py"
    notebook = nbformat.reads(written, as_version=4)
    assert notebook.cells[0].source.startswith("# ")
    assert not any(cell.get("outputs") for cell in notebook.cells)


def test_there_is_no_notebook_without_a_script() -> None:
    notebooks = sorted(path.stem for path in (ROOT / "gallery").glob("*.ipynb"))
    assert notebooks == [script.stem for script in SCRIPTS]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["colored_mnist", "text"])
def test_notebooks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGRAFT_SMALL", "1")
    monkeypatch.delenv("REGRAFT_REVIEWS", raising=False)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(ROOT / "gallery" / f"{name}.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    printed = "".join(
        output.get("text", "")
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "stream"
    )
    assert "| CRO |" in printed and "Certified: " in printed
    assert (tmp_path / f"{name}_stress.png").is_file()
