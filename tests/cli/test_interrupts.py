"""Ctrl-C: what it says is true, and what can go on goes on to the same end."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from regraft.cli.command import RESUMES, guard
from regraft.cli.compare import RECORDS
from regraft.data.banks import open_bank
from tests.helpers.commands import Ran
from tests.helpers.paths import SOURCE
from tests.helpers.problems import make_problem

pytestmark = pytest.mark.slow

# A shell that starts tests in the background may leave SIGINT ignored. Texts are hashed slowly, so
# that there is a moment between the blocks.
PROGRAM = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from regraft.encoders.hashing import HashedEncoder
encode = HashedEncoder.encode
HashedEncoder.encode = lambda self, texts: (time.sleep(0.2), encode(self, texts))[1]
from regraft.cli.app import main
main()
"""


def interrupt(log: Path, when: Callable[[], bool], *arguments: object) -> Ran:
    """Start a command, whose output goes to ``log``; press Ctrl-C as soon as ``when`` says so."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    start = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    with (
        log.open("w") as file,
        subprocess.Popen(
            start, env=environment, stdout=file, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        while not when():
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    return Ran(process.returncode, log.read_text(), err)


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    problem = make_problem(seed=3, n=150, d=8, sources=3)
    path = tmp_path_factory.mktemp("interrupts") / "data.npz"
    np.savez(path, X=problem.X, label=problem.y, domain=problem.domain)
    return path


def results(folder: Path) -> Any:
    """All but how long it took."""
    text = (folder / "comparison.json").read_text()
    return json.loads(text, object_hook=lambda d: {k: d[k] for k in d if k != "seconds"})


def test_compare_goes_on(tmp_path: Path, data: Path, run: Callable[..., Ran]) -> None:
    out = tmp_path / "out"
    line = ("compare", data, "--radii", "1,4", "--out", out)
    stopped = interrupt(tmp_path / "log", lambda: count_lines(out / RECORDS) >= 3, *line)
    assert (stopped.code, stopped.err) == (130, f"regraft: interrupted: {RESUMES}.\n")
    kept = (out / RECORDS).read_bytes()
    assert 3 <= kept.count(b"\n") < 21 and not (out / "comparison.json").exists()
    assert run(*line).code == 0
    assert (out / RECORDS).read_bytes().startswith(kept)
    assert run(*line[:-1], tmp_path / "whole").code == 0
    first, second = map(results, (out, tmp_path / "whole"))
    assert first == second and len(first["cells"]) == 21


def test_embed_goes_on(tmp_path: Path, run: Callable[..., Ran]) -> None:
    table, out = tmp_path / "texts.csv", tmp_path / "bank"
    with table.open("w", newline="") as file:
        rows = ((f"word{i} and word{i % 7}", i % 2, "ab"[i % 3 == 0]) for i in range(8000))
        csv.writer(file).writerows([("text", "label", "domain"), *rows])
    line = ("embed", "text", table, "--encoder", "hashed", "--out", out)
    journal = out / ".unfinished" / "journal.jsonl"
    stopped = interrupt(tmp_path / "log", lambda: count_lines(journal) >= 2, *line)
    assert (stopped.code, stopped.err) == (130, f"regraft: interrupted: {RESUMES}.\n")
    assert count_lines(journal) >= 2 and not (out / "bank.json").exists()
    assert run(*line).code == 0
    assert run(*line[:-1], tmp_path / "whole").code == 0
    assert open_bank(out).checksum == open_bank(tmp_path / "whole").checksum


def test_fit_leaves_nothing(tmp_path: Path) -> None:
    problem = make_problem(seed=5, n=6000, d=150, classes=4, sources=3)
    data, log = tmp_path / "data.npz", tmp_path / "log"
    np.savez(data, X=problem.X, label=problem.y, domain=problem.domain)

    def is_fitting() -> bool:
        return "fitting 18000 rows" in log.read_text()

    stopped = interrupt(log, is_fitting, "fit", data, "--out", tmp_path / "out")
    assert (stopped.code, stopped.err) == (130, "regraft: interrupted: nothing was written.\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.npz", "log"]


def test_an_interrupt_between_two_files_does_not_say_that_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old.txt").write_text("old")
    (tmp_path / "older.txt").write_text("older")

    def write(out: Path) -> None:
        (out / ".hidden").touch()
        (out / "first.json").write_text("{}")
        (out / "older.txt").write_text("newer")
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as ended:
        guard(write)(out=tmp_path)
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == (
        f"regraft: interrupted: of its files only first.json, older.txt in {tmp_path} are new.\n"
    )
    with pytest.raises(typer.Exit):
        guard(write, resumes=True)(out=tmp_path)
    assert capsys.readouterr().err == f"regraft: interrupted: {RESUMES}.\n"
