"""``regraft train | sweep | collect`` as a user types them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from regraft.bench.protocol import worker
from regraft.cli.app import app
from tests.helpers.commands import MAIN, run_apart
from tests.helpers.toy_sweep import write_bank


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bank(tmp_path_factory.mktemp("bank"))


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def train(data: Path, out: Path, *arguments: object) -> Result:
    return call("train", "--dataset", "toy", "--data", data, "--out", out, *arguments)


def test_train_tells_its_steps_and_its_trial(data: Path, tmp_path: Path) -> None:
    result = train(data, tmp_path, "--steps", 120, "--test-envs", "2")
    assert result.exit_code == 0, result.output
    assert "step 100: accuracy by domain" in result.output
    assert "held out" in result.output
    (run,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert {path.name for path in run.iterdir()} == {
        *(".lock", "done", "model.safetensors", "results.jsonl"),
    }
    assert str(run / "model.safetensors") in result.output.replace("\n", "")
    assert (
        train(data, tmp_path / "trial", "--steps", 5, "--trial-seed", 3, "--seed", 9).exit_code == 0
    )
    (results,) = tmp_path.glob("trial/*/results.jsonl")
    args = json.loads(results.read_text().splitlines()[0])["args"]
    assert (args["trial_seed"], args["seed"]) == (3, 9)


def test_train_and_sweep_take_domainbeds_further_options(data: Path, tmp_path: Path) -> None:
    adapting = ("--task", "domain_adaptation", "--uda-holdout-fraction", 0.5)
    every = ("--checkpoint-freq", 4, "--save-model-every-checkpoint", "--steps", 9)
    result = train(data, tmp_path / "a", "--algorithm", "DANN", *adapting, *every, "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record["args"]["task"] == "domain_adaptation" and "env0_uda_acc" in record
    models = {path.name for path in tmp_path.glob("a/*/model_step*.safetensors")}
    assert models == {f"model_step{step}.safetensors" for step in (0, 4, 8)}
    (model,) = tmp_path.glob("a/*/model.safetensors")
    settings = ("--algorithms", "ERM", "--n-hparams", 1, "--n-trials", 1, "--test-envs", 0)
    place = ("--datasets", "toy", "--data", data, "--out", tmp_path / "s", "--workers", 1)
    result = call("sweep", *settings, *place, "--steps", 9, "--swad", "--weights", model, *adapting)
    assert result.exit_code == 0, result.output
    (line,) = next(tmp_path.glob("s/*/results.jsonl")).read_text().splitlines()
    args = json.loads(line)["args"]
    assert args["swad"] and len(args["weights"]) == 12 and args["uda_holdout_fraction"] == 0.5
    assert "nothing to adapt to" in train(data, tmp_path / "b", *adapting[:2]).output
    assert "name the weights" in train(data, tmp_path / "b", "--weights", "none").output


def test_train_says_what_swad_averaged(data: Path, tmp_path: Path) -> None:
    words = ("--swad", "--checkpoint-freq", 5)
    result = train(data, tmp_path, *words, "--steps", 9)
    assert result.exit_code == 0 and "accuracy after step 8" in result.stdout
    assert "warning: SWAD averaged nothing, and this is the network after step 8:" in result.stderr
    result = train(data, tmp_path, *words, "--steps", 300)
    (record,) = (
        record
        for path in tmp_path.glob("*/results.jsonl")
        if (record := json.loads(path.read_text()))["swad_steps"]
    )
    first, last = record["swad_steps"]
    assert f"accuracy where SWAD averaged steps {first} to {last}\n" in result.stdout
    assert result.stderr == ""


def test_train_shows_the_accuracy_on_the_unlabelled_part(data: Path, tmp_path: Path) -> None:
    result = train(data, tmp_path / "plain", "--steps", 3)
    assert "validation part" in result.stdout and "unlabelled part" not in result.stdout
    adapting = ("--task", "domain_adaptation", "--uda-holdout-fraction", 0.5, "--steps", 3)
    result = train(data, tmp_path / "adapting", "--algorithm", "DANN", *adapting)
    (path,) = tmp_path.glob("adapting/*/results.jsonl")
    record = json.loads(path.read_text().splitlines()[-1])
    lines = [line.split() for line in result.stdout.splitlines()]
    assert any(line[-2:] == ["unlabelled", "part"] for line in lines)
    held, seen = (
        next(line for line in lines if line[:2] == [name, how])
        for name, how in (("0", "held"), ("1", "trained"))
    )
    assert held[-1] == f"{100 * record['env0_uda_acc']:.1f}%" and seen[-1] == "–"


def test_a_run_that_fails_is_told_in_one_sentence(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("the rows are too few: add some.")

    monkeypatch.setattr(worker, "Training", fail)
    result = train(data, tmp_path, "--steps", 3)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    reason = "the run failed (the rows are too few: add some)"
    assert result.exit_code == 2
    assert result.stderr == f"regraft: {reason}: see {folder / 'err.txt'}.\n"


def test_train_a_second_time_does_nothing_again(data: Path, tmp_path: Path) -> None:
    first = train(data, tmp_path, "--steps", 20, "--json", "--quiet", "--skip-model-save")
    assert first.stderr == ""
    (results,) = tmp_path.glob("*/results.jsonl")
    written = results.stat().st_mtime_ns
    second = train(data, tmp_path, "--steps", 20, "--json", "--skip-model-save")
    assert results.stat().st_mtime_ns == written
    document = json.loads(first.stdout)
    assert json.loads(second.stdout) == document
    assert document["step"] == 19
    assert not list(tmp_path.glob("*/model.safetensors"))
    again = train(data, tmp_path, "--steps", 20)
    assert again.exit_code == 0
    assert "made before without keeping its model" in again.output


def test_a_folder_that_cannot_be_made_is_refused_before_anything_runs(data: Path) -> None:
    for command in ("train", "sweep"):
        option = "--dataset" if command == "train" else "--datasets"
        result = call(command, option, "toy", "--data", data, "--out", "/proc/regraft")
        assert result.exit_code == 2
        assert "regraft: /proc/regraft" in result.stderr
        assert "choose another folder with --out." in result.stderr
        assert "runs" not in result.stdout


def test_sweep_and_collect(data: Path, tmp_path: Path) -> None:
    result = call(
        *("sweep", "--datasets", "toy", "--data", data, "--out", tmp_path / "sweep"),
        *("--algorithms", "ERM,GroupDRO", "--n-hparams", 2, "--n-trials", 1, "--steps", 20),
        *("--workers", 1, "--pairs"),
    )
    assert result.exit_code == 0, result.output
    assert "GroupDRO" in result.output
    shown = call("collect", tmp_path / "sweep", "--json", "--out", tmp_path / "tables")
    document = json.loads(shown.stdout)
    assert document["runs"] == 2 * 2 * (3 + 3)
    assert {rule: set(table["datasets"]) for rule, table in document["selections"].items()} == {
        rule: {"toy"} for rule in ("training-domain", "leave-one-domain-out", "oracle")
    }
    assert [Path(file).name for file in document["files"]] == [
        *("collect.md", "collect.tex", "collect.json", "provenance.json"),
    ]
    quiet = call("collect", tmp_path / "sweep", "--quiet", "--out", tmp_path / "quiet")
    assert (quiet.exit_code, quiet.output) == (0, "")
    tables = [(tmp_path / name / "collect.md").read_text() for name in ("quiet", "tables")]
    assert tables[0] == tables[1]
    assert call("collect", tmp_path / "sweep", "--markdown", "--quiet").output == ""
    markdown = call("collect", tmp_path / "sweep", "--markdown", "--selection", "oracle")
    lines = markdown.stdout.splitlines()
    assert sum(line.startswith("| ERM |") for line in lines) == 2  # and one of averages
    assert not any("reading" in line for line in lines)


def test_collect_tells_damage_and_what_cannot_be_compared(data: Path, tmp_path: Path) -> None:
    for env, steps, config in ((0, 5, 0), (0, 5, 1), (1, 7, 0)):
        options = ("--test-envs", env, "--steps", steps, "--hparams-seed", config)
        assert train(data, tmp_path, *options).exit_code == 0
    output = call("collect", tmp_path).output
    assert "runs on toy differ in steps: 5, 7" in output
    assert "ERM on toy with test environment 1 has 1 of 2 runs" in output
    results = next(tmp_path.glob("*/results.jsonl"))
    with results.open("a") as file:
        file.write("{}\n")
    result = call("collect", tmp_path)
    assert result.exit_code == 0
    assert f"{results} line 3" in result.output.replace("\n", "")


@pytest.mark.parametrize("command", ["train", "sweep"])
def test_cheap_checks_come_before_torch_is_imported(command: str, tmp_path: Path) -> None:
    code = MAIN.replace("main()", "\ntry:\n    main()\nfinally:\n    print('torch' in sys.modules)")
    for options, sentence in (
        (("--hparams", "{lr: 1}"), "hparams are '{lr: 1}': pass a JSON object"),
        (("--task", "adapt"), "task is 'adapt': choose domain_generalization or"),
        (("--holdout-fraction", 2), "--holdout-fraction is 2.0: pass a share"),
        (("--test-envs", "a"), "test-envs are 'a': pass numbers"),
    ):
        ran = run_apart(command, *options, "--out", tmp_path / "out", code=f"import sys; {code}")
        assert ran.code == 2 and sentence in ran.err and ran.out == "False\n", options


@pytest.mark.parametrize("command", ["train", "sweep"])
def test_help_names_folders_of_images(command: str) -> None:
    shown = " ".join(call(command, "--help").stdout.split())
    assert "a file of features or the name of a folder domain/class/image" in shown
