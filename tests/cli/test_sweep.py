"""``regraft sweep`` behind its options: from names to the table, and what goes wrong on the way."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from regraft.bench import engines
from regraft.bench.datasets import open_dataset
from regraft.bench.protocol.run_folder import RunFolder
from regraft.cli.command import RESUMES
from regraft.cli.option_groups import RunSettings
from regraft.cli.sweep import _together
from regraft.cli.sweep import sweep as run_sweep
from tests.helpers.commands import interrupt, make_session
from tests.helpers.toy_sweep import Here, is_free, make_jobs, read_records, write_bank


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine "local" is this process, which saves the start of others."""
    kind = engines._EngineEntry(lambda options: Here())
    monkeypatch.setitem(engines.ENGINES, "local", kind)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_bank(tmp_path / "data")


def sweep(data: Path, as_json: bool = False, **options: Any) -> None:
    options = {"n_trials": 1, "n_hparams": 1, "steps": 11} | options
    options = {"datasets": ["toy"], "algorithms": ["ERM"]} | options
    typed = {
        name: ",".join(map(str, value)) if isinstance(value, list) else value
        for name, value in options.items()
    }
    shared = {each.name: typed.pop(each.name) for each in fields(RunSettings) if each.name in typed}
    out, settings = data.parent / "out", RunSettings(**shared)
    session = make_session(out, as_json=as_json)
    run_sweep(session, data=data, out=out, settings=settings, **typed)


def test_a_sweep_ends_with_its_table(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep(data, algorithms=["ERM", "GroupDRO"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["looking at the data ...", "0 of 6 runs"]
    assert "6 of 6 runs" in lines
    assert "Test accuracy (%) in one trial, toy, training-domain validation" in lines
    # The second table is of the averages.
    names = [line.split()[0] for line in lines if line.split()[:1] in (["ERM"], ["GroupDRO"])]
    assert names == ["ERM", "GroupDRO"] * 2
    sweep(data, algorithms=["ERM", "GroupDRO"])
    again = capsys.readouterr().out.splitlines()
    assert again[1] == "6 of 6 runs"
    assert again[2:] == lines[lines.index("6 of 6 runs") + 1 :]


def test_trials_are_numbered_from_the_seed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 2):
        sweep(data, test_envs=[0], n_trials=2, seed=seed)
    shown = capsys.readouterr().out
    assert "Test accuracy (%) ± standard error over trials, toy, training-domain" in shown
    records = read_records(data.parent / "out").values()
    assert sorted(run[0]["args"]["trial_seed"] for run in records) == [0, 1, 2, 3]


def test_the_document_counts_and_selects(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep(data, as_json=True, n_hparams=2, pairs=True)
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert "12 of 12 runs" in output.err
    assert document["sweep"].pop("seconds") > 0
    assert document["sweep"] == {"total": 12, "done": 12, "done_before": 0, "failed": []}
    assert document["runs"] == 12
    cells = document["selections"]["training-domain"]["datasets"]["toy"]["ERM"]["cells"]
    assert cells.keys() == {"0", "1", "2"}


def test_options_reach_the_runs(data: Path) -> None:
    out = data.parent / "out"
    sweep(
        data,
        test_envs=[2],
        hparams='{"lr": 0.5}',
        holdout_fraction=0.5,
        compat=True,
        keep_models=True,
    )
    [[*_, last]] = read_records(out).values()
    assert last["step"] == 10
    assert last["hparams"]["lr"] == 0.5
    args = last["args"]
    assert (args["test_envs"], args["holdout_fraction"], args["compat"]) == ([2], 0.5, True)
    assert len(list(out.glob("*/model.safetensors"))) == 1
    toy, pacs = open_dataset("toy", data), open_dataset("PACS", data)
    assert _together([toy]) is None
    assert _together([toy, pacs]) == 1


def test_without_names_all_algorithms_are_run_that_make_sense(data: Path) -> None:
    sweep(data, algorithms=[], test_envs=[0], steps=2)
    done = {
        records[0]["args"]["algorithm"] for records in read_records(data.parent / "out").values()
    }
    assert {"ERM", "IRM", "VREx"} <= done


def test_unknown_names_and_another_sweep_are_refused(data: Path) -> None:
    with pytest.raises(ValueError, match=r"^algorithm is 'Erm': choose from .*ERM"):
        sweep(data, algorithms=["Erm"])
    with pytest.raises(ValueError, match=r"^dataset is 'toys': choose from .*toy"):
        sweep(data, datasets=["toys"])
    sweep(data)
    with pytest.raises(ValueError, match="choose another folder with --out"):
        sweep(data, steps=12)


def test_failures_are_listed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = data.parent / "out"
    done, *others = make_jobs(data, "ERM", steps=11, n_trials=4, n_hparams=1)
    out.mkdir()
    for job in others:
        (out / job.id).write_text("a file where the folder of a run should be")
    with pytest.raises(ValueError) as error:
        sweep(data, n_trials=4)
    assert str(error.value) == (
        "11 of 12 runs failed: see err.txt in their folders, then run the same command again."
    )
    lines = capsys.readouterr().out.splitlines()
    failures = [line for line in lines if line.startswith("failed: ")]
    assert len(failures) == 10
    assert all(f"{job.label} ({out / job.id}): " in "".join(failures) for job in others[:10])
    assert "and 1 more" in lines
    assert [line.split()[0] for line in lines if line.split()[:1] == ["ERM"]] == ["ERM"]
    assert done.id in read_records(out)


@pytest.mark.slow
def test_an_interrupt_stops_the_workers_quietly(data: Path) -> None:
    out = data.parent / "out"
    line = ("sweep", "--datasets", "toy", "--algorithms", "ERM", "--steps", 300_000, "--workers", 1)

    def is_running(_: str) -> bool:
        return any(path.stat().st_size for path in out.glob("*/results.jsonl"))

    stopped = interrupt(data.parent, is_running, *line, "--data", data, "--out", out)
    assert (stopped.code, stopped.err) == (130, f"regraft: interrupted: {RESUMES}.\n")
    assert "0 of 180 runs" in stopped.out
    assert all(is_free(RunFolder(folder, folder.name)) for folder in out.iterdir())


def test_a_dry_run_tells_the_time_if_it_is_known(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep(data, dry_run=True)
    shown = capsys.readouterr().out
    assert "3 runs, of which 0 are done." in shown and "takes about" not in shown
    assert not (data.parent / "out").exists()
    sweep(data, test_envs=[0])
    capsys.readouterr()
    out = data.parent / "out"
    written = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    sweep(data, algorithms=["ERM", "IRM"], dry_run=True)
    shown = capsys.readouterr().out
    assert "6 runs, of which 1 is done." in shown
    assert written == {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert "one after another, without 3 of which nothing is known yet." in shown
