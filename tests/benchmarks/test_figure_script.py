"""The script that draws the paper's figures from the records that there are."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from regraft.bench.protocol.run_folder import RunFolder
from regraft.support.pictures import FORMATS
from regraft.support.records import Records
from tests.helpers.paths import ROOT

SCRIPT = "figures"
SCHEMATICS = ["causal_graph", "transplant"]


def record(dataset: str, env: int, config: int = 0, rank: int = 1) -> dict[str, Any]:
    checkpoints = [
        {"step": step, "source_risk": 0.3, "target_risk": 0.9 - 0.3 * step} for step in range(3)
    ]
    args = {"dataset": dataset, "algorithm": "CRO", "test_envs": [env], "hparams_seed": config}
    numbers = {"checkpoints": checkpoints, "rounds": 2, f"env{env}_in_acc": 0.7}
    return {"step": 0, "args": args, "hparams": {"cro_rank": rank}, **numbers}


def write(sweep: Path, device: str, *records: dict[str, Any]) -> Path:
    """Write finished runs as a reproduction leaves them."""
    for one in records:
        run = RunFolder(sweep / device / f"run{len(list(sweep.glob('*/*')))}", "")
        run.path.mkdir(parents=True)
        run.append(one)
        run.finish(None, {})
    (sweep / "reproduction.json").write_text('{"label": "CRO, hull (regraft, preset tiny)"}')
    return sweep


@pytest.fixture
def colored(tmp_path: Path) -> Path:
    """The folder of a reproduction on two types of devices, with readings."""
    folder = tmp_path / "cmnist" / "tiny-hull-reweighted"
    runs = [record("ColoredMNIST", env, config) for env in range(3) for config in range(2)]
    write(folder, "cpu", *runs)
    write(folder, "cuda", record("ColoredMNIST", 0))
    ranks = [record("ColoredMNIST", env, rank=rank) for env in range(3) for rank in (1, 128)]
    write(folder, "cpu-ranks", *ranks)
    write(folder, "cuda-ranks", *[record("ColoredMNIST", 0, rank=rank) for rank in range(20)])
    for env in range(3):
        reading = {"args": {"reading": "a", "test_env": env, "cro_rank": 2}, "target": 0.6}
        Records(folder.parent / "readings.jsonl").append(reading)
    return folder.parent


def test_without_runs_the_schematics_are_drawn_and_the_rest_is_told(
    script: ModuleType, run_script: Callable[..., str], tmp_path: Path
) -> None:
    lines = run_script("--out", tmp_path).splitlines()
    files = [f"{name}.{kind}" for name in SCHEMATICS for kind in FORMATS]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)
    assert lines[:6] == [str(tmp_path / file) for file in files]
    assert lines[6:] == [
        f"left out: {name}, for which run {command}" for name, command in script.NEEDS_DATA.items()
    ]
    assert "regraft reproduce cmnist" in lines[6] and "reproduce pacs" in lines[-1]


def test_the_commands_it_names_exist(script: ModuleType) -> None:
    for command in script.NEEDS_DATA.values():
        if command.startswith("regraft reproduce "):
            assert command.split()[2] in script.BENCHMARKS
        else:
            assert (ROOT / command.split()[1]).is_file()


def test_all_that_a_folder_holds_is_drawn(
    script: ModuleType, colored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = script.figures_of(colored)
    assert list(drawn) == [*(f"cmnist_{n}" for n in ("checkpoints", "ranks", "rounds")),
                           "cmnist_literal_ranks"]  # fmt: skip
    assert "1 runs of other sweeps are left out" in capsys.readouterr().out
    every = drawn["cmnist_checkpoints"]["hconcat"][0]
    assert len(every["data"]["values"]) == 6 * 3  # the CPU's alone
    ranks = drawn["cmnist_ranks"]
    assert {value["rank"] for value in ranks["data"]["values"]} == {1, 128}
    assert ranks["title"]["subtitle"] == "CRO, hull (regraft, preset tiny)"
    risks = [value["risk"] for value in drawn["cmnist_literal_ranks"]["data"]["values"]]
    assert risks == [0.4] * 3


def test_images_have_checkpoints_alone(script: ModuleType, tmp_path: Path) -> None:
    folder = write(tmp_path / "p", "cpu", *(record("PACS", env) for env in range(4)))
    assert list(script.figures_of(folder)) == ["pacs_checkpoints"]


def test_what_cannot_be_drawn_is_one_sentence(
    run_script: Callable[..., str], colored: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "again", "cpu", record("ColoredMNIST", 0))
    out = tmp_path / "out"
    for runs, message in (
        ([tmp_path / "absent"], "absent is not a folder: pass one"),
        ([tmp_path / "empty"], "empty holds no finished runs: pass one"),
        ([colored, tmp_path / "again"], "again gives cmnist_checkpoints a second time: pass one"),
    ):
        with pytest.raises(SystemExit, match=message) as caught:
            run_script("--out", out, "--runs", *runs)
        assert str(caught.value).endswith(".")
        assert not out.exists()
