"""How long a sweep would take, from records of known length."""

import json
from pathlib import Path
from typing import Any

import pytest

from regraft.bench.protocol.jobs import Job
from regraft.bench.protocol.run_times import estimate_seconds


def test_the_rest_takes_as_long_as_what_is_done(tmp_path: Path) -> None:
    jobs = [Job("toy", name, (env,)) for name in ("ERM", "IRM") for env in range(3)]
    assert estimate_seconds(jobs, tmp_path) == (0, 6)
    for job, step_time in zip(jobs[:2], (0.5, 1.5), strict=True):
        folder = tmp_path / job.id
        folder.mkdir()
        records: list[dict[str, Any]] = [{"step": step, "step_time": step_time} for step in (0, 3)]
        records.append({"step": 4, "step_time": "?"})  # damaged, and left out
        (folder / "results.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
        (folder / "done").touch()
    # Four steps of half a second and of one and a half: four seconds a run, and one ERM is left.
    assert estimate_seconds(jobs, tmp_path) == (pytest.approx(4), 3)


def test_evaluations_take_time_too(tmp_path: Path) -> None:
    done, left = (Job("toy", "ERM", (env,)) for env in range(2))
    (tmp_path / done.id).mkdir()
    records: list[dict[str, Any]] = [
        {"step": 0, "step_time": 0.5, "seconds": 2.0},
        {"step": 4, "step_time": 0.5, "seconds": 7.0},
    ]
    lines = "".join(json.dumps(r) + "\n" for r in records)
    (tmp_path / done.id / "results.jsonl").write_text(lines)
    (tmp_path / done.id / "done").touch()
    assert estimate_seconds([done, left], tmp_path) == (pytest.approx(9), 0)
