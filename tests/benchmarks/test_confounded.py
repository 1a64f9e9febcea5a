"""The benchmark of planted confounders, on a small problem."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers.paths import ROOT

HEADS = "ERM,CRO,told balanced,ceiling,factor found"


@pytest.fixture
def confounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script with one problem, a few rows of the synthetic one."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    script = import_module("confounded")
    monkeypatch.setattr(script, "FOLDER", tmp_path)
    monkeypatch.setitem(script.SYNTHETIC, "n_samples", 400)
    monkeypatch.setitem(script.SYNTHETIC, "n_classes", 2)
    problem = script.Problem("small", "synthetic", script.draw_synthetic)
    monkeypatch.setattr(script, "list_problems", lambda: iter([problem]))
    return script


def run(script: ModuleType, monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    monkeypatch.setattr(sys, "argv", ["confounded.py", *options])
    script.main()


def test_finished_cells_are_kept(
    confounded: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = "--heads", HEADS, "--draws", "2"
    run(confounded, monkeypatch, *options)
    first = capsys.readouterr().out
    assert "| problem | ERM | CRO | told balanced | ceiling | factor found |" in first
    average, one, other = (
        [float(cell) for cell in line.split("|")[2:-1]]
        for line in first.splitlines()
        if line.startswith("| small") and line.count("|") == 7
    )
    assert average == pytest.approx([(a + b) / 2 for a, b in zip(one, other, strict=True)], abs=0.1)
    erm, cro, told, ceiling, area = average
    assert erm < 45 and min(cro, told, ceiling) > 60 and area > 95
    monkeypatch.setattr(confounded, "HEADS", dict.fromkeys(confounded.HEADS))  # cannot be called
    run(confounded, monkeypatch, *options)
    assert capsys.readouterr().out == first


def test_a_part_can_be_chosen(
    confounded: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(confounded, monkeypatch, "--heads", "ERM", "--draws", "1", "--problems", "synthetic")
    assert "| problem | ERM |" in capsys.readouterr().out
    for option, name in (("--heads", "ARM"), ("--problems", "paks")):
        with pytest.raises(SystemExit, match=f"there is no '{name}': choose among"):
            run(confounded, monkeypatch, option, name)


def test_every_problem_of_the_table_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    problems = list(import_module("confounded").list_problems())
    kinds = [problem.kind for problem in problems]
    assert [kinds.count(kind) for kind in ("pacs", "colour", "synthetic")] == [3, 9, 1]
    assert len({problem.name for problem in problems}) == len(problems)
