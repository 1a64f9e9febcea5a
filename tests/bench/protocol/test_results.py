"""Folders of results: what is read, what is told to be damaged and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from regraft.bench.protocol.results import Damage, Results, last_record, read_results, run_key
from regraft.bench.protocol.run_folder import RunFolder
from tests.helpers.errors import refused


def record(
    step: int = 0, test_envs: tuple[int, ...] = (0,), trial: int = 0, config: int = 0, **more: Any
) -> dict[str, Any]:
    args = {
        "dataset": "Toy",
        "algorithm": "ERM",
        "test_envs": list(test_envs),
        "trial_seed": trial,
        "hparams_seed": config,
        "steps": 201,
    }
    accuracies = {f"env{i}_{part}_acc": 0.5 for i in range(3) for part in ("in", "out")}
    return {"step": step, "args": args, "hparams": {"lr": 0.1}} | accuracies | more


def write(job: Path, *lines: dict[str, Any] | str, end: str = "\n") -> Path:
    job.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path = job / "results.jsonl"
    path.write_text("\n".join(texts) + end, encoding="utf-8")
    return path


def test_all_checkpoints_of_all_jobs_are_read(tmp_path: Path) -> None:
    write(tmp_path / "b", record(0, loss=1.5), record(100, loss=0.5, mem_gb=2))
    write(tmp_path / "a", record(0, test_envs=(1, 2)))
    (tmp_path / "b" / "done").touch()
    (tmp_path / "c").mkdir()  # launched, but nothing written yet
    (tmp_path / "notes.txt").write_text("{}")
    first = record(0, test_envs=(1, 2))
    assert read_results(tmp_path) == Results(
        *([first, record(0), record(100)], 2, 1, []),
        open_runs=frozenset({run_key(first)}),
        folders={run_key(first): tmp_path / "a", run_key(record(0)): tmp_path / "b"},
    )
    only = read_results(tmp_path / "b")
    folders = {run_key(record(0)): tmp_path / "b"}
    assert only == Results([record(0), record(100)], 1, 0, [], frozenset(), folders)
    # One copy of what all lines of a run share.
    assert only.records[0]["args"] is only.records[1]["args"]
    assert only.records[0]["hparams"] is only.records[1]["hparams"]
    again = record(100, env0_in_acc=0.75)
    write(tmp_path / "b", record(0), record(100), record(200), again)
    assert read_results(tmp_path / "b").records == [record(0), again, record(200)]
    write(tmp_path / "b", record(config=0), record(config=1), record(config=0, step=100))
    results = read_results(tmp_path / "b")
    assert results.runs == 2
    assert [run_key(r).hparams_seed for r in results.records] == [0, 1, 0]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("null", "not a JSON object"),
        (record(step=1.0), "'step' is not an integer"),
        (record(step=True), "'step' is not an integer"),
        (record(hparams=None), "'hparams' is not an object"),
        (record(args=[]), "'args' is not an object"),
        ({"step": 0, "hparams": {}}, "'args' is missing"),
        (record(args=record()["args"] | {"test_envs": 0}), "'test_envs' is not a list"),
        (record(args=record()["args"] | {"trial_seed": "0"}), "'trial_seed' is not an integer"),
        (record(args={"dataset": "Toy"}), "'algorithm' is missing"),
        (record(test_envs=(3,)), "'test_envs' are not among the 3 environments with accuracies"),
        (record(env1_out_acc=float("nan")), "'env1_out_acc' is not a number from 0 to 1"),
        (record(env1_out_acc=float("inf")), "'env1_out_acc' is not a number from 0 to 1"),
        (record(env0_in_acc=None), "'env0_in_acc' is not a number from 0 to 1"),
        (record(env2_in_acc=71.7), "'env2_in_acc' is not a number from 0 to 1"),
        (record(env3_out_acc=0.5), "'env3_in_acc' is not a number from 0 to 1"),
        (
            {k: v for k, v in record().items() if not re.match("env[12]", k)},
            "no accuracies of two environments or more",
        ),
    ],
)
def test_damaged_lines_are_told(tmp_path: Path, line: dict[str, Any] | str, reason: str) -> None:
    path = write(tmp_path / "job", record(0), "", line, record(100))
    results = read_results(tmp_path)
    assert results.records == [record(0), record(100)]
    assert results.damaged == [Damage(path, 3, reason)]
    assert str(results.damaged[0]) == f"{path} line 3: {reason}"


@pytest.mark.parametrize(
    ("line", "reason"),
    [("?", "it has no records"), (record(args=[]), "'args' is not an object")],
)
def test_the_last_record_of_a_damaged_run_is_refused(
    tmp_path: Path, line: dict[str, Any] | str, reason: str
) -> None:
    write(tmp_path, line)
    with refused(rf"is damaged \({reason}\): remove it to run it again\.$"):
        last_record(RunFolder(tmp_path, "run"))
    write(tmp_path, line, record(100, loss=1.0))
    assert last_record(RunFolder(tmp_path, "run")) == record(100, loss=1.0)


def test_a_torn_last_line_is_told_and_a_whole_one_kept(tmp_path: Path) -> None:
    torn = json.dumps(record(100))[:-20]
    path = write(tmp_path / "a", record(0), torn, end="")
    write(tmp_path / "b", record(0, config=1), record(100, config=1), end="")
    (tmp_path / "c").mkdir()
    binary = tmp_path / "c" / "results.jsonl"
    binary.write_bytes(b"\xff\xfe\n")
    results = read_results(tmp_path)
    assert results.records == [record(0), record(0, config=1), record(100, config=1)]
    assert results.damaged == [Damage(path, 2, "not JSON, cut off"), Damage(binary, 1, "not JSON")]


def seal_lines(job: Path, *records: dict[str, Any]) -> Path:
    """Write records as a run does."""
    folder = RunFolder(job, "run")
    job.mkdir()
    for each in records:
        folder.append(each)
    return job / "results.jsonl"


CHANGED = "it was changed since it was written"


def test_a_line_of_ours_that_was_changed_is_told_and_left_out(tmp_path: Path) -> None:
    path = seal_lines(tmp_path / "job", record(0), record(100), record(200))
    assert read_results(tmp_path).damaged == []
    lines = path.read_text().splitlines()
    better = lines[1].replace('"env0_out_acc": 0.5', '"env0_out_acc": 0.75')
    assert better != lines[1]
    path.write_text("\n".join([lines[0], better, lines[2]]) + "\n")
    results = read_results(tmp_path)
    assert results.records == [record(0), record(200)]
    assert results.damaged == [Damage(path, 2, CHANGED)]
    # Nor may it lose its checksum.
    without = json.dumps(record(100, env0_out_acc=0.75))
    path.write_text("\n".join([lines[0], without, lines[2]]) + "\n")
    assert read_results(tmp_path).damaged == [Damage(path, 2, CHANGED)]
    path.write_text("\n".join([lines[0], lines[1], better.replace("100", "200")]) + "\n")
    with refused(rf"is damaged \(its last line is .*{CHANGED[2:]}\): remove it"):
        last_record(RunFolder(path.parent, "run"))


def test_the_same_values_in_another_order_are_no_change(tmp_path: Path) -> None:
    path = seal_lines(tmp_path / "job", record(0))
    turned = dict(reversed(json.loads(path.read_text()).items()))
    path.write_text(json.dumps(turned, indent=None, separators=(",", ":")) + "\n")
    results = read_results(tmp_path)
    assert (results.records, results.damaged) == ([record(0)], [])


@pytest.mark.parametrize("line", [0, 1, 2])
def test_a_damaged_name_of_a_checksum_is_told(tmp_path: Path, line: int) -> None:
    path = seal_lines(tmp_path / "job", record(0), record(100), record(200))
    lines = path.read_text().splitlines()
    lines[line] = lines[line].replace('"sha256"', '"sa256"')
    path.write_text("\n".join(lines) + "\n")
    assert read_results(tmp_path).damaged == [Damage(path, line + 1, CHANGED)]


def test_lines_of_other_programs_are_believed(tmp_path: Path) -> None:
    write(tmp_path / "job", record(0), record(100))
    results = read_results(tmp_path)
    assert (len(results.records), results.damaged) == (2, [])


def test_mixed_sweeps_are_refused(tmp_path: Path) -> None:
    longer = record()["args"] | {"steps": 5001, "test_envs": [2, 1]}
    write(tmp_path / "a", record(0, test_envs=(1, 2)), record(100, test_envs=(1, 2)))
    write(tmp_path / "b", record(100, args=longer))
    with refused("collect one sweep at a time") as caught:
        read_results(tmp_path)
    message = str(caught.value)
    assert str(tmp_path / "a") in message and str(tmp_path / "b") in message
    run = "ERM on Toy with test environment 1 and 2, trial 0 and hparams_seed 0"
    assert f"both hold {run} (with steps 201 and 5001): collect" in message
    # Also if they have no step in common, as runs that were asked for other steps.
    write(tmp_path / "b", record(200, args=longer))
    with pytest.raises(ValueError, match="collect one sweep at a time"):
        read_results(tmp_path)
    write(tmp_path / "b", record(200, test_envs=(1, 2)))
    with refused(r"\(with the same settings\): collect one sweep"):
        read_results(tmp_path)


def test_folders_without_results_are_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not a folder: pass the folder of a sweep"):
        read_results(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="holds no records: pass a folder"):
        read_results(tmp_path)
    write(tmp_path / "job", "?", "?")
    with refused(r"holds no records \(2 damaged lines\): pass"):
        read_results(tmp_path)
