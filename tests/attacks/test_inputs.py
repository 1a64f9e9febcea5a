"""Fuzzed command lines and files: documented exit codes, one sentence, nothing left behind."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from itertools import pairwise
from pathlib import Path

import pytest

from regraft.cli.app import app
from regraft.data.banks import write_bank
from tests.attacks.mutations import Case, draw_case
from tests.attacks.outcomes import (
    DOCUMENTED,
    TookTooLong,
    find_fault,
    list_temporaries,
    show_tally,
    time_limit,
)
from tests.helpers.commands import Ran, call, run_apart
from tests.helpers.problems import make_problem, write_table
from tests.helpers.toy_sweep import write_bank as write_toy

Cases = Callable[..., range]
REPORTS = "regraft-error-*"  # tracebacks of internal errors


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Folders that every case may read: a model, a bank, a dataset, and odd files."""
    tmp = tmp_path_factory.mktemp("shared")
    problem = make_problem(n=40, d=3)
    write_table(tmp / "data.csv", problem)
    call(["fit", tmp / "data.csv", "--out", tmp / "fit", "--quiet"])
    write_bank(tmp / "bank", problem.X, problem.y, problem.domain)
    write_toy(tmp / "toy")
    os.mkfifo(tmp / "pipe.csv")
    (tmp / "deep.json").write_text("[" * 100_000)
    return {"tmp": tmp, "model": tmp / "fit", "bank": tmp / "bank", "toy": tmp / "toy"}


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def restore(folder: Path, before: Mapping[str, bytes]) -> None:
    """Take back what a command was told to write there."""
    for path in folder.rglob("*"):
        if path.is_file() and str(path) not in before:
            path.unlink()
    for name, content in before.items():
        Path(name).write_bytes(content)


def attack(words: list[str]) -> Ran:
    """Run a command in this process, with a limit of its time."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings(), time_limit():
        try:
            app(words, prog_name="regraft")
        except SystemExit as end:
            return Ran(int(end.code or 0), out.getvalue(), err.getvalue())
    raise AssertionError("the command did not end the process")


def describe(seed: int, case: Case, fault: str, ran: Ran | None) -> str:
    return f"seed {seed}: {fault}: {case.words!r}\n{ran.err[-3000:] if ran else ''}"


def test_every_command_in_this_process(
    shared: Mapping[str, Path],
    tmp_path: Path,
    attack_cases: Cases,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, trace = snapshot(shared["tmp"]), tmp_path / "executed"
    reports = tmp_path / "reports"
    reports.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(reports))
    tally, faults = Counter[str](), list[str]()
    for seed in attack_cases(40):
        place = tmp_path / "case"
        place.mkdir()
        monkeypatch.chdir(place)
        case = draw_case(seed, place, shared, trace)
        ran = None
        try:
            ran = attack(case.words)
            fault = find_fault(ran.code, ran.err)
            tally[DOCUMENTED.get(ran.code, f"exit code {ran.code}")] += 1
        except TookTooLong:
            fault = "it took too long"
        left = list_temporaries(place)
        if left and not fault:
            fault = f"left {left}"
        if fault:
            report = next(reports.glob(REPORTS), None)
            text = report.read_text()[-1500:] if report else ""
            faults.append(describe(seed, case, fault, ran) + text)
        for report in reports.glob(REPORTS):
            report.unlink()
        told = [named for option, named in pairwise(case.words) if option == "--out"]
        was_refused = ran is None or ran.code == 2
        if not was_refused and any(named.startswith(str(shared["tmp"])) for named in told):
            restore(shared["tmp"], before)
        shutil.rmtree(place)
    monkeypatch.chdir(tmp_path)
    print(show_tally("Inputs, in process", tally))
    assert not faults, f"{len(faults)} faults\n" + "\n\n".join(faults[:20])
    assert not trace.exists(), "a pickle was executed"
    assert snapshot(shared["tmp"]) == before, "an input was changed"


def test_some_commands_in_processes_of_their_own(
    shared: Mapping[str, Path], tmp_path: Path, attack_cases: Cases
) -> None:
    tally, faults = Counter[str](), list[str]()
    for seed in attack_cases(1, 1 / 200):
        place = tmp_path / "case"
        place.mkdir()
        case = draw_case(10**6 + seed, place, shared, tmp_path / "executed")
        words = [word.encode(errors="replace").decode() for word in case.words]
        ran = run_apart(*words, cwd=place, TMPDIR=str(place))
        fault = find_fault(ran.code, ran.err)
        tally[DOCUMENTED.get(ran.code, f"exit code {ran.code}")] += 1
        if fault:
            faults.append(describe(seed, case, fault, ran))
        shutil.rmtree(place)
    print(show_tally("Inputs, in processes", tally))
    assert not faults, "\n\n".join(faults[:20])
    assert not (tmp_path / "executed").exists()


def test_the_attack_notices_faults(tmp_path: Path) -> None:
    assert find_fault(0, "") is None
    assert find_fault(2, "warning: so.\nregraft: it is wrong: repair it.\n") is None
    assert find_fault(70, "regraft: internal error: KeyError: please report it.\n")
    assert find_fault(2, "regraft: one.\nregraft: two.\n") and find_fault(2, "")
    assert find_fault(0, "warning: again.\n" * 20)
    (tmp_path / ".out.0123abcd").touch()
    assert list_temporaries(tmp_path) == [".out.0123abcd"]
