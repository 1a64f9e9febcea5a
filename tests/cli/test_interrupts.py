"""Ctrl-C: what it says is true, and what can go on goes on to the same end."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import typer

from regraft.cli.command import RESUMES, guard
from regraft.cli.compare import RECORDS
from regraft.data.banks import open_bank
from tests.helpers.commands import MAIN, Run, interrupt
from tests.helpers.problems import make_problem, write_npz

pytestmark = pytest.mark.slow

# Texts are hashed slowly, so that there is a moment between the blocks.
SLOW_HASHES = """
import time
from regraft.encoders.text_models import HashedEncoder
encode = HashedEncoder.encode
HashedEncoder.encode = lambda self, texts: (time.sleep(0.2), encode(self, texts))[1]
"""


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


TIMED = ("seconds", "run")  # and the id of the run, which follows from all


def results(folder: Path) -> Any:
    """All but how long it took."""
    text = (folder / "comparison.json").read_text()
    return json.loads(
        text, object_hook=lambda d: {k: d[k] for k in d if k not in ("seconds", "run")}
    )


def test_compare_goes_on(tmp_path: Path, run: Run) -> None:
    data = write_npz(tmp_path / "data.npz", make_problem(seed=3, n=80, d=8, sources=3))
    out = tmp_path / "out"
    line = ("compare", data, "--radii", "1,4", "--out", out)
    stopped = interrupt(tmp_path, lambda _: count_lines(out / RECORDS) >= 3, *line)
    assert (stopped.code, stopped.err) == (130, f"regraft: interrupted: {RESUMES}.\n")
    kept = (out / RECORDS).read_bytes()
    assert 3 <= kept.count(b"\n") < 33 and not (out / "comparison.json").exists()
    assert run(*line).code == 0
    assert (out / RECORDS).read_bytes().startswith(kept)
    assert run(*line[:-1], tmp_path / "whole").code == 0
    first, second = map(results, (out, tmp_path / "whole"))
    assert first == second and len(first["cells"]) == 33


def test_embed_goes_on(tmp_path: Path, run: Run) -> None:
    table, out = tmp_path / "texts.csv", tmp_path / "bank"
    with table.open("w", newline="") as file:
        rows = ((f"word{i} and word{i % 7}", i % 2, "ab"[i % 3 == 0]) for i in range(5000))
        csv.writer(file).writerows([("text", "label", "domain"), *rows])
    line = ("embed", "text", table, "--encoder", "hashed", "--out", out)
    journal = out / ".unfinished" / "journal.jsonl"
    code = SLOW_HASHES + MAIN
    stopped = interrupt(tmp_path, lambda _: count_lines(journal) >= 2, *line, code=code)
    assert (stopped.code, stopped.err) == (130, f"regraft: interrupted: {RESUMES}.\n")
    assert count_lines(journal) >= 2 and not (out / "bank.json").exists()
    assert run(*line).code == 0
    assert run(*line[:-1], tmp_path / "whole").code == 0
    assert open_bank(out).checksum == open_bank(tmp_path / "whole").checksum


def test_fit_and_demo_leave_nothing(tmp_path: Path) -> None:
    problem = make_problem(seed=5, n=4000, d=100, classes=4, sources=3)
    data = write_npz(tmp_path / "data.npz", problem)
    for when, *line in (("fitting 12000 rows", "fit", data), ("fitting ERM", "demo")):
        stopped = interrupt(tmp_path, lambda out: when in out, *line, "--out", "out")  # noqa: B023
        assert (stopped.code, stopped.err) == (130, "regraft: interrupted: nothing was written.\n")
        assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]


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

    def write_nothing(out: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit):
        guard(write_nothing, resumes=True)(out=tmp_path / "new")
    assert capsys.readouterr().err == "regraft: interrupted: nothing was written.\n"
