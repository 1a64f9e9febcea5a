"""The benchmark of fits in corners, on few rows."""

from collections.abc import Callable
from types import ModuleType

import pytest

SCRIPT = "corners"


def test_one_line_a_corner(
    script: ModuleType, run_script: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"200 classes", "1,000 classes", "100,000 x 2", "500 domains"}
    assert set(script.CORNERS) == names
    few = {"5 classes": (400, 6, 5, 2), "9 domains": (400, 3, 2, 9)}
    monkeypatch.setattr(script, "CORNERS", few)
    for name in few:
        (line,) = run_script(name).splitlines()
        assert line.startswith(f"{name}: ") and " s of one core, risk " in line
        assert line.endswith((", ERM's", ", the game's"))
