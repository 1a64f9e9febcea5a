"""The benchmarks of a target at hand, on small problems."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from regraft import make_confounded_domains
from tests.helpers.paths import ROOT


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script of the curves, with one small problem."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    script = import_module("target")
    monkeypatch.setattr(script, "FOLDER", tmp_path)
    monkeypatch.setattr(script, "LABELS", (0, 40))
    monkeypatch.setattr(script, "RADIUS", 1.0)

    def draw(seed: int) -> Any:
        return make_confounded_domains(200, strengths=(0.9, 0.7), random_state=seed)

    monkeypatch.setattr(script, "PROBLEMS", {"small": script.Problem("small", draw)})
    script.load.cache_clear()
    script.fit.cache_clear()
    return script


def run(script: ModuleType, monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    monkeypatch.setattr(sys, "argv", ["target.py", *options])
    script.main()


def test_finished_cells_of_the_curves_are_kept(
    target: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(target, monkeypatch, "curves", "--problems", "small", "--draws", "1")
    first = capsys.readouterr().out
    lines = [line.split("|")[1:-1] for line in first.splitlines() if line.startswith("| ")]
    assert [line[0].strip() for line in lines] == ["labels", "0", "40"]
    none, many = ([cell.strip() for cell in line] for line in lines[1:])
    assert none[1] == none[4] == "–"  # no labels: nothing to refit on
    assert float(many[1].split()[0]) > 60
    monkeypatch.setattr(target, "measure_labels", pytest.fail)
    run(target, monkeypatch, "curves", "--problems", "small", "--draws", "1")
    assert capsys.readouterr().out == first
    with pytest.raises(SystemExit, match="there is no 'paks': choose among"):
        run(target, monkeypatch, "--problems", "paks")


def test_a_missing_peer_is_said(target: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skada", None)
    with pytest.raises(SystemExit, match="pip install skada"):
        run(target, monkeypatch, "peers", "--problems", "small")


def test_a_miss_is_told_by_the_standard_error(target: ModuleType) -> None:
    def record(adapted: float, refit: float) -> dict[str, Any]:
        return {"accuracy": {"adapt": adapted, "refit": refit, "no adaptation": 0.5}}

    worse = target.show_curves({10: [record(0.80, 0.90), record(0.81, 0.92)]}, {10: 0.86})
    assert "-10.5 ± 0.5 (missed); bar 86 missed" in worse
    even = target.show_curves({10: [record(0.80, 0.90), record(0.92, 0.81)]}, {10: 0.86})
    assert "+0.5 ± 10.5; bar 86 met" in even


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    script = import_module("target_checks")
    monkeypatch.setattr(script, "FOLDER", tmp_path)
    monkeypatch.setattr(script, "ROWS", (60,))
    monkeypatch.setattr(script, "FRESH_ROWS", 500)
    monkeypatch.setattr(script, "SOURCE_ROWS", 400)
    monkeypatch.setattr(script, "PROBLEMS", ("seen",))
    return script


def test_targets_are_placed_once(
    checks: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks.main(["placing", "--repetitions", "1"])
    first = capsys.readouterr().out
    assert "| seen | 60 | " in first
    monkeypatch.setattr(checks, "place_domains", pytest.fail)
    checks.main(["placing", "--repetitions", "1"])
    assert capsys.readouterr().out == first


def test_the_bayes_conditional_beats_any_other(checks: ModuleType) -> None:
    random = np.random.default_rng(0)
    groups = import_module("target_rows").draw_groups(random)
    X, y = groups.draw(4000, 0.3, random)
    risks = [-groups.log_p(X, share)[np.arange(len(y)), y].mean() for share in (0.3, 0.01, 0.99)]
    assert risks[0] < min(risks[1:])
    np.testing.assert_allclose(np.exp(groups.log_p(X, 0.3)).sum(axis=1), 1)


def test_printed_digits_differ_and_fill_the_image(checks: ModuleType) -> None:
    printed = import_module("target_rows").print_digits(
        np.array([1, 8, 8], np.uint8), np.random.default_rng(0)
    )
    assert printed.shape == (3, 28, 28)
    assert (printed.reshape(3, -1).max(axis=1) > 200).all()
    assert printed[1].sum() > printed[0].sum()
