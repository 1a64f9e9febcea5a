"""The benchmark of speed prints its tables; the numbers are for the machine that runs it."""

from collections.abc import Callable
from types import ModuleType

import pytest

from regraft import make_confounded_domains

SCRIPT = "speed"


def test_it_prints_a_row_for_each_problem(
    script: ModuleType, run_script: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_confounded_domains(150, n_features=6, random_state=0)
    problem = "small", data.X, data.y, data.sample_domain
    monkeypatch.setattr(script, "list_problems", lambda: iter([problem]))
    monkeypatch.setattr(script, "REPEATS", 1)
    assert "| small, 300 × 6, 2 sources | " in run_script("--largest", 0)
