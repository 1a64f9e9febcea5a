"""The benchmark of ever more rows, on few."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

SCRIPT = "scale"


def _run(rows: int, seconds: float, **more: Any) -> dict[str, Any]:
    return {
        "rows": rows, "features": 64, "workers": 0, "nodes": 1, "kill": 0.0, "kills": 0,
        "seconds": seconds, "cpu_seconds": seconds, "passes": 24, "coefficients": [[1.0, 2.0]],
        "driver_peak_bytes": 10**9, "worker_peak_bytes": 0, "sent_bytes": 0, "received_bytes": 0,
        **more,
    }  # fmt: skip


def test_the_slope_is_that_of_the_two_largest_local_fits(script: ModuleType) -> None:
    runs = [_run(1000, 1.0, passes=0), _run(10**6, 20.0), _run(10**7, 155.0)]
    slope, fixed = script.slope_of(runs)
    assert slope == pytest.approx(15e-6) and fixed == pytest.approx(5.0)


def test_few_rows_tell_no_slope(script: ModuleType) -> None:
    runs = [_run(1000, 1.0, passes=0), _run(10**5, 5.0, passes=0), _run(10**6, 20.0)]
    assert script.slope_of(runs[:2]) is script.slope_of(runs) is None
    text = script.report(runs[:2])
    assert "| 100,000 | local | 5 |" in text and "What a row costs is not known" in text


def test_the_report_says_how_far_workers_are_from_one_process(script: ModuleType) -> None:
    ray = {"workers": 2, "nodes": 2, "kill": 20.0, "kills": 3, "coefficients": [[1.0, 2.5]]}
    sizes = {"worker_peak_bytes": 10**9, "sent_bytes": 10**6, "received_bytes": 10**7}
    text = script.report([_run(10**5, 5.0), _run(10**6, 20.0), _run(10**6, 30.0, **ray, **sizes)])
    [line] = [line for line in text.splitlines() if "Ray" in line]
    assert "Ray, 2 workers on 2 nodes, one killed every 20 s" in line
    assert line.endswith("| 3 | 5e-01 |")
    assert "100,000,000 rows on 64 workers, on paper" in text


def test_bytes_of_arguments_are_counted(script: ModuleType) -> None:
    from regraft.core.row_risks import Problem

    ones = torch.ones(3, dtype=torch.float64)
    assert script.count_bytes((ones, [Problem(ones)], "name", 3)) == 48


def test_the_curve_is_drawn(script: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    files = script.draw([_run(1000, 1.0), _run(10**6, 20.0)], tmp_path / "scale")
    assert [file.name for file in files] == ["scale.png", "scale.svg"]
    assert all(file.stat().st_size > 0 for file in files)
