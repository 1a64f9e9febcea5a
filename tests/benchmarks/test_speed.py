"""The benchmark of speed prints its tables; the numbers are for the machine that runs it."""

import sys
from importlib import import_module

import pytest

from regraft import make_confounded_domains
from tests.helpers.paths import ROOT


def test_it_prints_a_row_for_each_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    speed = import_module("speed")
    data = make_confounded_domains(150, n_features=6, random_state=0)
    problem = "small", data.X, data.y, data.sample_domain
    monkeypatch.setattr(speed, "list_problems", lambda: iter([problem]))
    monkeypatch.setattr(speed, "REPEATS", 1)
    monkeypatch.setattr(sys, "argv", ["speed.py", "--largest", "0"])
    speed.main()
    assert "| small, 300 × 6, 2 sources | " in capsys.readouterr().out
