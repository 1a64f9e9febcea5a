"""DomainBed's own command lines, as its README and users write them."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from regraft.domainbed import (
    collect_results,
    download,
    list_top_hparams,
    running,
    sweep,
    train,
)
from regraft.domainbed.flags import collect_arguments, sweep_arguments, train_arguments
from tests.helpers.errors import refused
from tests.helpers.toy_sweep import write_bank


def test_train() -> None:
    given = "--data_dir=./data/ --algorithm IGA --dataset ColoredMNIST --test_envs 0 2"
    assert train_arguments(given.split(), "cpu") == [
        "train",
        "--dataset",
        "ColoredMNIST",
        "--algorithm",
        "IGA",
        "--hparams-seed",
        "0",
        "--trial-seed",
        "0",
        "--seed",
        "0",
        "--test-envs",
        "0,2",
        "--data",
        "./data/",
        "--holdout-fraction",
        "0.2",
        "--out",
        "train_output",
        "--device",
        "cpu",
    ]
    more = [*given.split(), "--checkpoint_freq", "7", "--skip_model_save", "--device", "cuda"]
    found = train_arguments([*more, "--steps", "9", "--hparams", '{"lr": 1}', "--compat"], "cpu")
    assert found[found.index("--checkpoint-freq") + 1] == "7"
    assert found[found.index("--hparams") + 1] == '{"lr": 1}'
    assert found[-3:] == ["--device", "cuda", "--compat"] and "--skip-model-save" in found
    adapting = ["--task", "domain_adaptation", "--uda_holdout_fraction", "0.5"]
    found = train_arguments([*adapting, "--save_model_every_checkpoint"], "cpu")
    assert found[found.index("--task") + 1] == "domain_adaptation"
    assert found[found.index("--uda-holdout-fraction") + 1] == "0.5"
    assert "--save-model-every-checkpoint" in found


def test_flags_may_be_cut_short_as_there() -> None:
    """The README of DomainBed itself writes --test_env; --data is ours as well, and whole."""
    found = train_arguments(["--data=d", "--algo", "IGA", "--test_env", "2", "--out", "o"], "cpu")
    for option, value in (("data", "d"), ("algorithm", "IGA"), ("test-envs", "2"), ("out", "o")):
        assert found[found.index(f"--{option}") + 1] == value
    found = sweep_arguments(["launch", "--data", "d", "--output", "o", "--single"], "cpu")
    assert found is not None and "--pairs" not in found
    assert found[found.index("--data") + 1] == "d"


def test_sweep_and_collect() -> None:
    given = "launch --data_dir=d --output_dir=o --command_launcher multi_gpu --n_trials 1"
    assert sweep_arguments([*given.split(), "--algorithms", "ERM", "DANN"], "cuda") == [
        "sweep",
        "--datasets",
        "ColoredMNIST,RotatedMNIST,PACS,VLCS,OfficeHome,TerraIncognita,DomainNet,SVIRO,"
        "WILDSCamelyon,WILDSFMoW,SpawriousO2O_easy,SpawriousO2O_medium,SpawriousO2O_hard,"
        "SpawriousM2M_easy,SpawriousM2M_medium,SpawriousM2M_hard",
        "--algorithms",
        "ERM,DANN",
        "--n-hparams-from",
        "0",
        "--n-hparams",
        "20",
        "--n-trials",
        "1",
        "--pairs",
        "--engine",
        "local",
        "--data",
        "d",
        "--holdout-fraction",
        "0.2",
        "--out",
        "o",
        "--device",
        "cuda",
    ]
    found = sweep_arguments([*given.split(), "--single_test_envs", "--skip_confirmation"], "cpu")
    assert found is not None and "--pairs" not in found
    assert len(found[found.index("--algorithms") + 1].split(",")) == 34
    assert sweep_arguments(["delete_incomplete", *given.split()[1:]], "cpu") is None
    with refused("choose from local, multi_gpu, dummy, ray, slurm; in place of one of your own"):
        sweep_arguments([*given.split(), "--command_launcher", "my_cluster"], "cpu")
    with refused("leave --auto_lr out"):
        collect_arguments(["--input_dir", "o", "--auto_lr"])
    with refused("leave --auto_lr out"):
        train_arguments(["--dataset", "toy", "--auto_lr"], "cpu")
    with refused("leave --auto_lr out"):
        sweep_arguments(["launch", "--output_dir", "o", "--auto_lr"], "cpu")
    assert collect_arguments(["--input_dir", "o", "--latex"]) == [
        "collect",
        "o",
        "--compat",
        "--latex",
    ]


def test_the_scripts_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = str(write_bank(tmp_path / "data")), str(tmp_path / "out")
    place = ["--data_dir", data, "--output_dir", out, "--device", "cpu"]
    with pytest.raises(SystemExit) as ended:
        train.main(
            [
                *place,
                "--dataset",
                "toy",
                "--test_envs",
                "1",
                "--steps",
                "5",
                "--checkpoint_freq",
                "2",
                "--skip_model_save",
                "--seed",
                "4",
            ]
        )
    assert ended.value.code == 0
    assert "regraft train --dataset toy" in capsys.readouterr().err
    (path,) = Path(out).glob("*/results.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["step"] for record in records] == [0, 2, 4]
    assert {record["args"]["seed"] for record in records} == {4}
    with pytest.raises(SystemExit) as ended:
        sweep.main(
            [
                "launch",
                *place[:2],
                "--output_dir",
                str(tmp_path / "sweep"),
                "--datasets",
                "toy",
                "--algorithms",
                "ERM",
                "Fish",
                "--command_launcher",
                "dummy",
                "--n_hparams_from",
                "1",
                "--n_hparams",
                "2",
                "--n_trials",
                "1",
                "--single_test_envs",
                "--device",
                "cpu",
            ]
        )
    shown = capsys.readouterr().out
    assert ended.value.code == 0 and "6 runs, of which 0 are done." in shown
    assert "to do: Fish on toy, test environment 2, trial 0, configuration 1" in shown
    sweep.main(["delete_incomplete", "--data_dir", data, "--output_dir", out])
    assert "Nothing to delete" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        collect_results.main(["--input_dir", out])
    assert "toy, training-domain validation" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        train.main(["--task", "domain_adaptation"])
    assert ended.value.code == 2


def test_the_command_that_is_shown_can_be_pasted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "app", lambda *_, **__: None)
    words = train_arguments(["--hparams", '{"lr": 0.1}', "--data_dir", "my data"], "cpu")
    running.run(lambda: words)
    shown = capsys.readouterr().err
    assert "--hparams '{\"lr\": 0.1}'" in shown and shlex.split(shown) == ["regraft", *words]


def test_what_was_chosen_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = str(write_bank(tmp_path / "data")), str(tmp_path / "out")
    words = ["--data_dir", data, "--output_dir", out, "--dataset", "toy", "--steps", "2"]
    with pytest.raises(SystemExit):
        train.main([*words, "--test_envs", "1", "--device", "cpu", "--hparams", '{"lr": 0.25}'])
    capsys.readouterr()
    cell = ["--input_dir", out, "--dataset", "toy", "--algorithm", "ERM", "--test_env"]
    list_top_hparams.main([*cell, "1"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("Model")] == [
        "Model selection: training-domain validation",
        "Model selection: test-domain validation (oracle)",
    ]
    (path,) = Path(out).glob("*/results.jsonl")
    last = json.loads(path.read_text().splitlines()[-1])
    assert f"\ttest accuracy {last['env1_in_acc']}, hparams_seed 0, step 1, {path.parent}" in lines
    assert lines.count("trial_seed: 0") == lines.count("\t\tlr: 0.25") == 2
    with pytest.raises(SystemExit) as ended:
        list_top_hparams.main([*cell, "0"])
    assert ended.value.code == 2
    assert "no table with ERM on toy, test environment 0" in capsys.readouterr().err


def test_the_datasets_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        download.main(["--data_dir", str(tmp_path)])
    shown = capsys.readouterr()
    assert ended.value.code == 0 and f"regraft download --data {tmp_path}" in shown.err
    assert "PACS" in shown.out and "TerraIncognita" in shown.out


@pytest.mark.parametrize(("has_gpu", "device"), [(True, "cuda"), (False, "cpu")])
def test_a_gpu_is_taken_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, has_gpu: bool, device: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    words = train_arguments([], running.usual_device())
    assert words[words.index("--device") + 1] == device
    assert train_arguments(["--device", "mps"], device)[-1] == "mps"


def test_steps_of_zero_are_left_out_aloud(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--steps", "0", "--checkpoint_freq", "0"]
    assert train_arguments(given, "cpu") == train_arguments([], "cpu")
    assert capsys.readouterr().err.splitlines() == [
        f"regraft: --{name} 0 is left out, as DomainBed does: the dataset's own is used."
        for name in ("checkpoint_freq", "steps")
    ]
    sweep_arguments(["launch", "--output_dir", "o", "--steps", "0"], "cpu")
    assert "--steps 0 is left out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("main", "ours"),
    [
        (train.main, "--plugins, --compat or --swad"),
        (sweep.main, "--plugins, --compat, --swad or --workers"),
        (collect_results.main, "--selection, --markdown or --json"),
    ],
)
def test_every_flag_is_explained(
    main: Callable[[list[str]], None], ours: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0 and f"such as {ours}." in " ".join(shown.split())
    explained = re.split(r"\n  (?=--|{)", shown)[1:]
    assert len(explained) >= 3 and all(
        re.search(r"(?:\s{2,}|\n\s+)[A-Za-z].*[.]", each) for each in explained
    )
