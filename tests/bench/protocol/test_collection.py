"""``regraft collect`` on job folders as DomainBed writes them, with tables computed by hand."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from regraft.bench.protocol.collection import collect
from regraft.bench.protocol.results import RunKey
from regraft.bench.protocol.selection import Selection
from regraft.cli.collect import collect_command
from tests.helpers.commands import make_session

# Step -> accuracies in the 80% and in the 20% of each environment.
Checkpoints = Mapping[int, tuple[Sequence[float], Sequence[float]]]


def write_job(
    folder: Path,
    test_envs: list[int],
    checkpoints: Checkpoints,
    *,
    trial: int = 0,
    config: int = 0,
    dataset: str = "ColoredMNIST",
    algorithm: str = "ERM",
) -> Path:
    """A finished job as DomainBed leaves it behind; its path."""
    args = {
        "algorithm": algorithm,
        "checkpoint_freq": None,
        "data_dir": "/data",
        "dataset": dataset,
        "holdout_fraction": 0.2,
        "hparams": None,
        "hparams_seed": config,
        "save_model_every_checkpoint": False,
        "seed": 12345,
        "skip_model_save": False,
        "steps": 201,
        "task": "domain_generalization",
        "test_envs": test_envs,
        "trial_seed": trial,
        "uda_holdout_fraction": 0,
    }
    name = hashlib.md5(json.dumps(args, sort_keys=True).encode()).hexdigest()
    job = folder / name
    job.mkdir(parents=True)
    with (job / "results.jsonl").open("w") as file:
        for step, (inner, outer) in checkpoints.items():
            record: dict[str, Any] = {"args": args | {"output_dir": f"sweep/{name}"}}
            for i, (in_acc, out_acc) in enumerate(zip(inner, outer, strict=True)):
                record |= {f"env{i}_in_acc": in_acc, f"env{i}_out_acc": out_acc}
            record |= {"epoch": step / 10, "hparams": {"lr": 0.001, "batch_size": 64 + config}}
            record |= {"loss": 0.5, "mem_gb": 1.25, "step": step, "step_time": 0.01}
            if dataset == "Mine":  # ours: DomainBed's records have no such names
                record["env_names"] = ["a", "b", "c"]
            file.write(json.dumps(record, sort_keys=True) + "\n")
    (job / "out.txt").write_text("Environment:\n")
    (job / "done").write_text("done")
    return job


def accuracies(env: int, test: float, others: float) -> list[float]:
    return [test if i == env else others for i in range(3)]


def write_sweep(folder: Path, *, dataset: str = "ColoredMNIST", algorithm: str = "ERM") -> Path:
    """Two trials of three environments; the best checkpoint is the second of three."""
    tests = {0: (0.7, 0.72), 1: (0.8, 0.8), 2: (0.1, 0.3)}
    for env, by_trial in tests.items():
        for trial, test in enumerate(by_trial):
            checkpoints = {
                0: (accuracies(env, 0.9, 0.0), accuracies(env, 1.0, 0.5)),
                100: (accuracies(env, test, 1.0), accuracies(env, 0.0, 0.9)),
                200: (accuracies(env, 0.5, 1.0), accuracies(env, 0.5, 0.8)),
            }
            write_job(folder, [env], checkpoints, trial=trial, dataset=dataset, algorithm=algorithm)
    return folder


def test_a_table_by_hand_and_its_document(tmp_path: Path) -> None:
    collection = collect(write_sweep(tmp_path))
    assert (collection.runs, collection.records, collection.damaged) == (6, 18, [])
    assert collection.environments == {"ColoredMNIST": ("+90%", "+80%", "-90%")}
    assert list(collection.selections) == ["training-domain", "leave-one-domain-out", "oracle"]
    by_rule = {rule: rows["ColoredMNIST"]["ERM"] for rule, rows in collection.selections.items()}
    chosen = by_rule["training-domain"]
    assert [c.mean for c in chosen.cells.values()] == pytest.approx([0.71, 0.8, 0.2])
    errors = [0.01 / 2**0.5, 0, 0.1 / 2**0.5]
    assert [c.error for c in chosen.cells.values()] == pytest.approx(errors)
    # The trials' means over environments are 1.6/3 and 1.82/3.
    assert chosen.average == pytest.approx(0.57)
    assert chosen.average_error == pytest.approx(0.11 / 3 / 2**0.5)
    assert by_rule["leave-one-domain-out"] == Selection({}, None)
    assert [c.mean for c in by_rule["oracle"].cells.values()] == [0.5, 0.5, 0.5]
    document = json.loads(json.dumps(collection.to_dict()))
    assert (document["runs"], document["records"], document["damaged"]) == (6, 18, [])
    rule = document["selections"]["training-domain"]
    assert rule["overall"] == {"ERM": pytest.approx(0.57)}
    row = rule["datasets"]["ColoredMNIST"]["ERM"]
    assert list(row["cells"]) == ["+90%", "+80%", "-90%"]
    assert row["average"] == pytest.approx(0.57)
    hparams = {"lr": 0.001, "batch_size": 64}
    runs = [RunKey("ColoredMNIST", "ERM", frozenset({2}), trial, 0) for trial in (0, 1)]
    folders = [collection.folders[run] for run in runs]
    assert [path.parent for path in folders] == [tmp_path] * 2
    assert row["cells"]["-90%"] == {
        "mean": pytest.approx(0.2),
        "error": pytest.approx(0.1 / 2**0.5),
        "spread": [0.1, 0.3],
        "is_complete": True,
        "trials": [
            {
                "trial_seed": t,
                "accuracy": a,
                "hparams_seed": 0,
                "step": 100,
                "hparams": hparams,
                "folder": str(folder),
            }
            for t, a, folder in zip((0, 1), (0.1, 0.3), folders, strict=True)
        ],
    }
    empty = document["selections"]["leave-one-domain-out"]
    assert empty["datasets"]["ColoredMNIST"]["ERM"]["cells"] == {}
    assert empty["overall"] == {"ERM": None}


def test_the_rule_that_leaves_one_domain_out_uses_the_pairs(tmp_path: Path) -> None:
    same = accuracies(0, 0.0, 0.0)
    for config, test in ((0, 0.25), (1, 0.75)):
        write_job(tmp_path, [0], {100: (accuracies(0, test, 0.0), same)}, config=config)
        for other in (1, 2):
            seen = {100: (accuracies(other, 0.5 + config / 4, 0.0), same)}
            write_job(tmp_path, [0, other], seen, config=config)
    collection = collect(tmp_path, ["leave-one-domain-out"])
    cells = collection.selections["leave-one-domain-out"]["ColoredMNIST"]["ERM"].cells
    assert {env: (cell.mean, cell.chosen) for env, cell in cells.items()} == {0: (0.75, (1,))}


def test_datasets_and_algorithms_are_in_order(tmp_path: Path) -> None:
    for dataset, algorithm in (
        *(
            ("VLCS", "ERM"),
            ("VLCS", "CROLatent"),
            ("VLCS", "CRO"),
            ("VLCS", "aardvark"),
            ("VLCS", "Zebra"),
        ),
        *(("VLCS", "RSC"), ("VLCS", "IRM"), ("ColoredMNIST", "CRO"), ("Mine", "ERM")),
    ):
        write_sweep(tmp_path, dataset=dataset, algorithm=algorithm)
    collection = collect(tmp_path, ["oracle"])
    rows = collection.selections["oracle"]
    assert list(rows) == ["ColoredMNIST", "Mine", "VLCS"]
    assert list(rows["VLCS"]) == ["ERM", "IRM", "RSC", "Zebra", "aardvark", "CRO", "CROLatent"]
    assert collection.algorithms("oracle") == list(rows["VLCS"])
    # Three environments of VLCS's four cannot be told by name.
    assert collection.environments["VLCS"] == ("0", "1", "2")
    assert collection.environments["Mine"] == ("a", "b", "c")
    assert collection.overall("oracle", "IRM") is None
    assert collect(write_sweep(tmp_path / "one"), ["oracle"]).overall("oracle", "ERM") == 0.5


def test_incomplete_cells_are_marked_and_averaged_as_domainbed_does_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Environment 2 of the second trial is lacking, and a run of environment 0 is under way."""
    jobs = {
        path: json.loads(path.read_text().splitlines()[0])["args"]
        for path in write_sweep(tmp_path).glob("*/results.jsonl")
    }
    for path, args in jobs.items():
        if (args["test_envs"], args["trial_seed"]) == ([2], 1):
            path.unlink()
        if (args["test_envs"], args["trial_seed"]) == ([0], 0):
            (path.parent / "done").unlink()
    show(False, tmp_path, selection="training-domain")
    text = capsys.readouterr().out
    rows = [" ".join(line.split()) for line in text.splitlines() if line.startswith("  ERM ")]
    # The average is of trial 0 alone, which every environment has: (0.7 + 0.8 + 0.1) / 3.
    assert rows == [
        "ERM 71.0 ± 0.7* 80.0 ± 0.0 10.0* 53.3*",
        "ERM 53.3* 53.3*",
    ]
    assert "* marks what rests on fewer runs" in text
    show(False, tmp_path, selection="training-domain", compat=True)
    text = capsys.readouterr().out
    rows = [" ".join(line.split()) for line in text.splitlines() if "ERM" in line and "±" in line]
    # (71 + 80 + 10) / 3; then the mean of trials 1.6 / 3 and 1.52 / 2.
    assert rows == ["ERM 71.0 ± 0.7 80.0 ± 0.0 10.0 ± 0.0 53.7", "ERM 64.7 ± 8.0 64.7"]


@pytest.mark.parametrize("compat", [False, True])
def test_one_trial_has_no_error_unless_as_in_domainbed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], compat: bool
) -> None:
    for path in write_sweep(tmp_path).glob("*/results.jsonl"):
        if json.loads(path.read_text().splitlines()[0])["args"]["trial_seed"]:
            path.unlink()
    show(False, tmp_path, selection="training-domain", compat=compat)
    text = capsys.readouterr().out
    rows = [" ".join(line.split()) for line in text.splitlines() if line.split()[:1] == ["ERM"]]
    if compat:
        assert rows == ["ERM 70.0 ± 0.0 80.0 ± 0.0 10.0 ± 0.0 53.3", "ERM 53.3 ± 0.0 53.3"]
        assert "Test accuracy (%) ± standard error over trials, from 3 runs" in text
    else:
        assert rows == ["ERM 70.0 80.0 10.0 53.3", "ERM 53.3 53.3"]
        assert "Test accuracy (%) in one trial, from 3 runs" in text


def test_wrong_names_and_mixtures_are_told(tmp_path: Path) -> None:
    write_sweep(tmp_path / "sweep")
    with pytest.raises(ValueError, match="'iid': choose from training-domain, leave-one-d") as told:
        collect(tmp_path / "sweep", ["iid"])
    assert str(told.value).endswith("oracle.")
    checkpoints = {100: (accuracies(0, 0.5, 0.5), accuracies(0, 0.5, 0.5))}
    write_job(tmp_path / "other", [0], checkpoints).rename(tmp_path / "sweep" / "again")
    with pytest.raises(ValueError, match="one sweep at a time"):
        collect(tmp_path / "sweep")


def show(as_json: bool, folder: Path, **options: Any) -> None:
    collect_command(make_session(options.get("out"), as_json=as_json), folder, **options)


def test_the_command_shows_tables_and_what_it_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = sorted(write_sweep(tmp_path).iterdir())[0]
    with (job / "results.jsonl").open("a") as file:
        file.write('{"torn')
    show(False, tmp_path)
    text = capsys.readouterr().out
    assert "results.jsonl line 4: not JSON, cut off" in text
    assert "from 6 runs (18 records)" in text
    assert text.index("ColoredMNIST, training-domain") < text.index("ColoredMNIST, test-domain")
    rows = [line.split() for line in text.splitlines() if line.split()[:1] == ["ERM"]]
    assert [" ".join(row) for row in rows] == [
        "ERM 71.0 ± 0.7 80.0 ± 0.0* 20.0 ± 7.1 57.0*",
        "ERM 57.0 ± 2.6* 57.0*",  # the averages, of one dataset too
        "ERM 50.0 ± 0.0 50.0 ± 0.0* 50.0 ± 0.0 50.0*",
        "ERM 50.0 ± 0.0* 50.0*",
    ]
    assert "no table by leave-one-domain-out validation (selection rule): it needs runs" in text
    show(False, tmp_path, selection="oracle")
    text = capsys.readouterr().out
    assert "training-domain" not in text and "no table" not in text


def test_documents_are_shown_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_sweep(tmp_path)
    show(False, tmp_path, markdown=True, selection="training-domain", out=tmp_path.parent / "out")
    text = capsys.readouterr().out
    assert text.startswith("Test accuracy (%)") and "Written" not in text
    assert "| ERM | 71.0 ± 0.7 | 80.0 ± 0.0 | 20.0 ± 7.1 | 57.0 |" in text.splitlines()
    show(False, tmp_path, latex=True, selection="training-domain")
    text = capsys.readouterr().out
    assert text.startswith(r"\begin{table}") and text.rstrip().endswith(r"\end{table}")
    with pytest.raises(ValueError, match="choose one of them"):
        show(False, tmp_path, latex=True, markdown=True)


def test_files_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = sorted(write_sweep(tmp_path / "sweep").iterdir())[0]
    with (job / "results.jsonl").open("a") as file:
        file.write("?\n")
    with pytest.warns(UserWarning, match="has 1 damaged line, left out of the tables, the first"):
        show(True, tmp_path / "sweep", out=tmp_path / "out")
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert f"skipped {job / 'results.jsonl'} line 4: not JSON" in printed.err.replace("\n", "")
    damage = {"path": str(job / "results.jsonl"), "line": 4, "reason": "not JSON"}
    assert document["damaged"] == [damage]
    cells = document["selections"]["training-domain"]["datasets"]["ColoredMNIST"]["ERM"]["cells"]
    assert not all(cell["is_complete"] for cell in cells.values())
    names = ["collect.md", "collect.tex", "collect.json", "provenance.json"]
    assert document.pop("files") == [str(tmp_path / "out" / name) for name in names]
    assert json.loads((tmp_path / "out" / "collect.json").read_text()) == document
    assert "| ERM | 71.0 ± 0.7 " in (tmp_path / "out" / "collect.md").read_text()
    assert (tmp_path / "out" / "collect.tex").read_text().startswith("% * marks ")
