"""Two folders of runs compared cell by cell, by changes whose effect is known."""

import json
import shutil
from pathlib import Path

import pytest

from regraft.bench.protocol.sweep_differences import compare_sweeps
from regraft.cli.compare_sweeps import compare_sweeps_command
from tests.bench.protocol.test_collection import accuracies, write_job, write_sweep
from tests.helpers.commands import make_session

RULE = ("training-domain",)


def change(folder: Path, env: int, key: str, value: float) -> None:
    """Set a number of the second checkpoint of trial 0 with this test environment."""
    for path in folder.glob("*/results.jsonl"):
        records = [json.loads(line) for line in path.read_text().splitlines()]
        args = records[0]["args"]
        if (args["test_envs"], args["trial_seed"]) == ([env], 0):
            records[1][key] = value
            path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    first = write_sweep(tmp_path / "first")
    return first, Path(shutil.copytree(first, tmp_path / "second"))


def test_a_copy_differs_nowhere(folders: tuple[Path, Path]) -> None:
    pairs = compare_sweeps(*folders)
    assert len(pairs) == 3 + 3  # by two rules: there are no pairs for the third
    assert all(pair.is_same and pair.reason == "" and pair.difference == 0 for pair in pairs)


def test_each_kind_of_difference_is_told(folders: tuple[Path, Path]) -> None:
    first, second = folders
    change(second, 0, "env0_in_acc", 0.8)  # was 0.7
    change(second, 1, "env0_out_acc", 0.0)  # the best checkpoint is now the last
    both = [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]
    write_job(second, [2], {100: both}, config=1)  # a worse configuration more
    write_job(second, [0], {100: (accuracies(0, 0.4, 1), both[0])}, algorithm="IRM")
    found = {(p.algorithm, p.environment): p for p in compare_sweeps(first, second, RULE)}
    assert {key: pair.reason for key, pair in found.items()} == {
        ("ERM", "+90%"): "other accuracies of the same runs",
        ("ERM", "+80%"): "another step chosen",
        ("ERM", "-90%"): "2 and 3 runs to choose from",
        ("IRM", "+90%"): "only in the second",
    }
    assert found["ERM", "+90%"].difference == pytest.approx(0.05)
    assert found["ERM", "-90%"].difference == 0
    assert found["IRM", "+90%"].difference is None


def test_other_settings_of_the_chosen_runs_are_told(folders: tuple[Path, Path]) -> None:
    first, second = folders
    for number, folder in enumerate(folders):
        changes = {"compat": True} if number else {"compat": False, "swad": True}
        for path in folder.glob("*/results.jsonl"):
            records = [json.loads(line) for line in path.read_text().splitlines()]
            env = records[0]["args"]["test_envs"][0]
            # Of the first domain DomainBed's, which know nothing of faults that are kept.
            own = {"steps": 51} if env == 0 and number else {} if env == 0 else changes
            for record in records:
                record["args"] |= own
                record["env0_in_acc"] = min(1, record["env0_in_acc"] + 0.01 * number)
                record["env1_in_acc"] = min(1, record["env1_in_acc"] + 0.01 * number)
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
    reasons = {pair.environment: pair.reason for pair in compare_sweeps(first, second, RULE)}
    assert reasons == {
        "+90%": "steps 201 and 51",
        "+80%": "compat false and true, swad true and false",
        "-90%": "",  # the same cell all the same
    }


def test_the_command_shows_and_writes_them(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(folders[1], 0, "env0_in_acc", 0.8)
    out = tmp_path / "out"
    compare_sweeps_command(make_session(out), *folders, selection=RULE[0], out=out)
    text = capsys.readouterr().out
    assert "1 of 3 cells differ: 1 in their numbers, 0 only in the runs behind them." in text
    assert "Cells whose numbers differ" in text and "Cells of the same numbers" not in text
    assert "71.0 ± 0.7 76.0 ± 2.8 +5.0 other accuracies of the same runs" in " ".join(text.split())
    document = json.loads((out / "compare_sweeps.json").read_text())
    assert document["cells"] == 3
    (cell,) = document["differ"]
    assert (cell["environment"], cell["reason"]) == ("+90%", "other accuracies of the same runs")


def test_the_same_numbers_from_other_runs_are_told_apart(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = folders
    change(second, 0, "env0_in_acc", 0.7002)  # was 0.7, the mean of two trials 0.71
    both = [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]
    write_job(second, [2], {100: both}, config=1)  # a worse configuration more
    pairs = {pair.environment: pair for pair in compare_sweeps(first, second, RULE)}
    assert not pairs["+90%"].has_same_numbers and not pairs["-90%"].is_same
    assert pairs["-90%"].has_same_numbers and pairs["+80%"].has_same_numbers
    compare_sweeps_command(make_session(), *folders, selection=RULE[0])
    text = " ".join(capsys.readouterr().out.split())
    assert "2 of 3 cells differ: 1 in their numbers, 1 only in the runs behind them." in text
    one, other = text.split("Cells whose numbers differ")[1].split("Cells of the same numbers")
    assert "+0.01 other accuracies of the same runs" in one and "-90%" not in one
    assert "+0.0 2 and 3 runs to choose from" in other and "+90%" not in other
    compare_sweeps_command(make_session(), first, first, selection=RULE[0])
    text = capsys.readouterr().out
    assert "0 of 3 cells differ." in text and "Cells" not in text
