"""The benchmark that sets Colored MNIST beside DomainBed's published numbers."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

SCRIPT = "published_table"


def write_run(folder: Path, algorithm: str, env: int, accuracy: float) -> None:
    """Write a finished run whose test accuracy this is."""
    run = folder / f"{algorithm}{env}"
    run.mkdir(parents=True)
    args = {"dataset": "ColoredMNIST", "algorithm": algorithm, "test_envs": [env]}
    shares = {f"env{i}_{part}_acc": accuracy for i in range(3) for part in ("in", "out")}
    record = {"step": 0, "hparams": {}, "args": args | {"trial_seed": 0, "hparams_seed": 0}}
    (run / "results.jsonl").write_text(json.dumps(record | shares) + "\n")
    (run / "done").touch()


def test_numbers_that_are_far_from_the_published_ones_are_marked(
    script: ModuleType,
    run_script: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    commands = []

    def launch(command: list[str], *, check: bool) -> SimpleNamespace:
        commands.append(command)
        for env, accuracy in enumerate((0.717, 0.70, 0.119)):  # published: 71.7, 72.9 and 10.0
            write_run(tmp_path, "ERM", env, accuracy)
        write_run(tmp_path, "Fishr", 0, 0.5)  # which is not in the tables of 2020
        return SimpleNamespace(returncode=3)

    monkeypatch.setattr(script.subprocess, "run", launch)
    with pytest.raises(SystemExit) as ended:
        run_script("--out", tmp_path, "--algorithms", "ERM,Fishr", "--device", "cpu")
    assert ended.value.code == 3  # as the sweep ended
    printed = capsys.readouterr().out.splitlines()
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in printed[2:] if line}
    assert [cell.strip() for cell in rows["ERM"]] == (
        ["71.7", "71.7", "70.0 !", "72.9", "11.9", "10.0"]
    )
    assert [cell.strip() for cell in rows["Fishr"]][:2] == ["50.0", "–"]
    (command,) = commands
    assert command[1:4] == ["-m", "regraft", "sweep"] and "--together" not in command
    assert command[command.index("--algorithms") + 1] == "ERM,Fishr"


def test_by_default_all_of_domainbeds_algorithms_run(
    script: ModuleType, run_script: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = []
    monkeypatch.setattr(
        script.subprocess,
        "run",
        lambda command, check: commands.append(command) or SimpleNamespace(returncode=2),
    )
    with pytest.raises(SystemExit) as ended:
        run_script("--out", "nowhere")
    assert ended.value.code == 2
    names = commands[0][commands[0].index("--algorithms") + 1].split(",")
    assert len(names) == 34 and "ERM" in names and "CRO" not in names
