"""The benchmark of planted confounders, on a small problem."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = "confounded"
HEADS = "ERM,CRO,told balanced,ceiling,factor found"


@pytest.fixture
def small(script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script with one problem, a few rows of the synthetic one."""
    monkeypatch.setattr(script, "FOLDER", tmp_path)
    monkeypatch.setitem(script.SYNTHETIC, "n_samples", 400)
    monkeypatch.setitem(script.SYNTHETIC, "n_classes", 2)
    problem = script.Problem("small", "synthetic", script.draw_synthetic)
    monkeypatch.setattr(script, "list_problems", lambda: iter([problem]))
    return script


def test_finished_cells_are_kept(
    small: ModuleType, run_script: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = "--heads", HEADS, "--draws", 2
    first = run_script(*options)
    assert "| problem | ERM | CRO | told balanced | ceiling | factor found |" in first
    average, one, other = (
        [float(cell) for cell in line.split("|")[2:-1]]
        for line in first.splitlines()
        if line.startswith("| small") and line.count("|") == 7
    )
    assert average == pytest.approx([(a + b) / 2 for a, b in zip(one, other, strict=True)], abs=0.1)
    erm, cro, told, ceiling, area = average
    assert erm < 45 and min(cro, told, ceiling) > 60 and area > 95
    monkeypatch.setattr(small, "HEADS", dict.fromkeys(small.HEADS))  # cannot be called
    assert run_script(*options) == first


@pytest.mark.usefixtures("small")
def test_a_part_can_be_chosen(run_script: Callable[..., str]) -> None:
    printed = run_script("--heads", "ERM", "--draws", 1, "--problems", "synthetic")
    assert "| problem | ERM |" in printed
    for option, name in (("--heads", "ARM"), ("--problems", "paks")):
        with pytest.raises(SystemExit, match=f"there is no '{name}': choose among"):
            run_script(option, name)


def test_every_problem_of_the_table_is_listed(script: ModuleType) -> None:
    problems = list(script.list_problems())
    kinds = [problem.kind for problem in problems]
    assert [kinds.count(kind) for kind in ("pacs", "colour", "synthetic")] == [3, 9, 1]
    assert len({problem.name for problem in problems}) == len(problems)
