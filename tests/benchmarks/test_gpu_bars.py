"""The benchmark of the bars that need a GPU, on a processor with few rows and steps."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from regraft.bench.datasets import mnist
from tests.helpers.idx_files import write_mnist
from tests.helpers.problems import draw_blobs

SCRIPT = "gpu_bars"


def test_what_is_measured_is_kept_and_not_measured_again(
    script: ModuleType, run_script: Callable[..., str], tmp_path: Path
) -> None:
    options = ("--data", tmp_path, "--out", tmp_path / "gpu", "--device", "cpu", "--only", "fit")
    few = ("--rows", 600, "--features", 5)
    first = run_script(*options, *few)
    (line,) = (tmp_path / "gpu" / "bars.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert record["seconds"] > 0 and record["shape"] == "600 × 5"
    assert f"| fit | seconds {record['seconds']:.4g} | < 15 s |" in first
    assert run_script(*options, *few) == first  # the same seconds
    assert run_script(*options, "--rows", 900, "--features", 5) != first


def test_jobs_are_compared_with_the_faithful_loop(
    script: ModuleType,
    run_script: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, checksum in write_mnist(tmp_path, *draw_blobs()).items():
        monkeypatch.setitem(mnist.CHECKSUMS, name, checksum)
    monkeypatch.setattr(script.protocol_speed, "WORKERS", 0)
    monkeypatch.setattr(script.protocol_speed, "DataLoader", _without_workers(script))
    options = ("--data", tmp_path, "--out", tmp_path, "--device", "cpu", "--only", "jobs")
    few = ("--steps", 3, "--trial-steps", 2, "--peer-steps", 2, "--trials", 2)
    run_script(*options, *few)
    record = json.loads((tmp_path / "bars.jsonl").read_text())
    assert record["alone_ratio"] == pytest.approx(record["peer"] / record["seconds"])
    # Of two steps the loop takes less time than of three.
    assert 0 < record["together_ratio"] < 2 * record["peer"] / record["together"]


def test_commands_start_from_nothing(
    script: ModuleType,
    run_script: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands = []
    for name in ("cmnist", "algorithms"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "of before").touch()

    def launch(command: list[str], *, check: bool) -> None:
        assert check and not Path(command[-1]).exists()
        commands.append(command)

    monkeypatch.setattr(script.subprocess, "run", launch)
    options = ("--data", "MNIST", "--out", tmp_path, "--device", "cpu")
    printed = run_script(*options, "--only", "sweep,algorithms")
    assert commands[0][1:5] == ["-m", "regraft", "reproduce", "cmnist"]
    assert Path(commands[1][1]).name == "published_table.py" and Path(commands[1][1]).exists()
    assert "| < 35 s |" in printed and "| < 900 s |" in printed


def _without_workers(script: ModuleType) -> Callable[..., object]:
    loader = script.protocol_speed.DataLoader

    def make(*arguments: object, persistent_workers: bool = False, **options: object) -> object:
        return loader(*arguments, **options)

    return make
