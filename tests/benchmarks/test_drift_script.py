"""The benchmark of streams, on a short one."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = "drift"


@pytest.mark.slow
def test_alarms_are_counted_inside_and_outside_of_the_stretch(
    script: ModuleType,
    run_script: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(script, "SOURCE_ROWS", 500)
    out = tmp_path / "drift.json"
    shown = run_script("--rows", 4000, "--batch", 200, "--folder", tmp_path, "--out", out)
    (found,) = json.loads(out.read_text())["runs"]
    assert found["inside"][0] == 1 and found["outside"][0] == 19
    assert found["outside"][1] == 0 and found["covered"] > 14
    assert found["peak_bytes"] > 1e8 and found["report_bytes"] > 1e5
    assert "| 4,000 |" in shown and "of 19" in shown
    assert [path.name for path in tmp_path.iterdir()] == ["drift.json"]
