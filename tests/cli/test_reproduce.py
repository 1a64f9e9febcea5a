"""``regraft reproduce`` from idx files to its table, and what stopping it leaves behind."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from regraft.bench.datasets import mnist
from regraft.bench.paper import experiment
from regraft.bench.paper.pretraining import PRESETS, Preset
from regraft.bench.paper.reproduce import reproduce
from regraft.cli.command import RESUMES
from tests.helpers.commands import Ran, Run, apart, interrupt
from tests.helpers.idx_files import write_mnist
from tests.helpers.problems import Digits

RANKS = (1, 128)
TINY = Preset("paper", steps=4, batch=8)
PROGRAM = """
import json, sys
from regraft.bench.datasets import mnist
from regraft.bench.paper.pretraining import PRESETS, Preset
from regraft.cli.app import main
mnist.CHECKSUMS.update(json.loads(sys.argv.pop(1)))
PRESETS["paper"] = Preset("paper", steps=100_000, batch=8)
main()
"""
HOLDER = """
import sys
from filelock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def checksums(blobs: Digits, tmp_path: Path) -> dict[str, str]:
    """Of files with tiny digits, which are written to the folder "data"."""
    (tmp_path / "data").mkdir()
    sums = write_mnist(tmp_path / "data", *blobs)
    assert sums.keys() == mnist.CHECKSUMS.keys()
    return sums


@pytest.fixture
def tiny(checksums: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny digits pass for MNIST, and the preset `paper` takes four steps."""
    for name, checksum in checksums.items():
        monkeypatch.setitem(mnist.CHECKSUMS, name, checksum)
    monkeypatch.setitem(PRESETS, "paper", TINY)
    monkeypatch.setattr(experiment, "RANKS", RANKS)


@pytest.mark.usefixtures("tiny")
@pytest.mark.slow
def test_quick_runs_one_cell_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    line = "reproduce", "cmnist", "--quick", "--data", "data"
    shown = run(*line)
    assert shown.code == 0 and shown.err == ""
    for text in (
        "Phase 1, steps: 4 of 4",
        f"Phase 2, runs: {3 + len(RANKS)} of {3 + len(RANKS)}",
        "CRO, hull (regraft, preset paper)",
        "CRO (CRO paper)",
        "Time: data",
        "Written: regraft-cmnist/paper-hull-reweighted/table.md",
    ):
        assert text in shown.out
    folder = tmp_path / "regraft-cmnist" / "paper-hull-reweighted"

    def runs(part: str) -> dict[tuple[int, int], list[bytes]]:
        """What the runs have written, by trial and configuration."""
        found: dict[tuple[int, int], list[bytes]] = {}
        for path in folder.glob(f"{part}/*/results.jsonl"):
            args = json.loads(path.read_bytes())["args"]
            assert args["test_envs"] == [2]
            key = args["trial_seed"], args["hparams_seed"]
            found.setdefault(key, []).append(path.read_bytes())
        return found

    before = runs("cpu")
    assert sorted(before) == [(0, config) for config in range(3)]
    # Another trial is added to these, with a rank sweep of its own.
    assert run(*line, "--configs", 1, "--seed", 2, "--quiet") == Ran(0, "", "")
    after = runs("cpu")
    assert before.items() <= after.items() and after.keys() - before.keys() == {(2, 0)}
    ranks = {key: len(written) for key, written in runs("cpu-ranks").items()}
    assert ranks == {(0, 0): len(RANKS), (2, 0): len(RANKS)}
    document = json.loads(run(*line, "--configs", 1, "--json").out)
    assert document["runs"] == 1 and list(document["cells"]) == ["-90%"]
    assert document["seconds"]["Phase 1"] == 0 and runs("cpu") == after


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"cells": []}, "cells are"),
        ({"cells": [3]}, "cells are"),
        ({"configs": -1}, "configs is -1"),
        ({"device": "abacus"}, "device 'abacus'"),
    ],
)
def test_wrong_arguments_are_told_before_any_work(
    blobs: Digits, tmp_path: Path, bad: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        reproduce(*blobs, **{"preset": TINY} | bad, out=tmp_path / "new")
    assert str(caught.value).endswith(".") and ". " not in str(caught.value)
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("tiny")
def test_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    line = "reproduce", "cmnist", "--quick", "--configs", 1, "--data", "data", "--out", "out"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(**apart("out/.lock", code=HOLDER), **pipes) as holder:
        assert holder.stdout.readline() == "held\n"
        refused = run(*line)
        assert refused.code == 2 and os.listdir("out") == [".lock"]
        assert refused.err == (
            "regraft: out is in use by another process: wait for it or choose another folder "
            "with --out.\n"
        )
        holder.kill()
    assert run(*line).code == 0  # a kill gives the folder back


@pytest.mark.slow
def test_an_interrupt_says_how_to_go_on(checksums: dict[str, str], tmp_path: Path) -> None:
    line = ("reproduce", "cmnist", "--quick", "--data", "data", "--out", "out")
    stopped = interrupt(
        *(tmp_path, lambda out: "Phase 1, steps: 50 of" in out),
        *(json.dumps(checksums), *line),
        code=PROGRAM,
    )
    assert (stopped.code, stopped.err) == (130, f"regraft: interrupted: {RESUMES}.\n")
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left - {".lock"} == {"settings.json"}
