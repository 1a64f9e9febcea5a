"""``regraft reproduce pacs`` on tiny pictures: its records, its tables, and what it refuses."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch

from regraft.bench.algorithms.games import game_space
from regraft.bench.paper.benchmark import IMAGE_BENCHMARKS
from regraft.bench.paper.experiment import Reproduction
from regraft.bench.paper.reproduce import list_images, reproduce_images
from regraft.bench.protocol.seeds import job_seed
from regraft.bench.protocol.selection import RULES
from regraft.bench.protocol.spaces import draw_configuration
from regraft.cli.command import RESUMES
from tests.helpers.commands import Run
from tests.helpers.small_pictures import CLASSES, DOMAINS, write_pacs
from tests.helpers.small_pictures import TIMM_TOY as NAME

PACS = IMAGE_BENCHMARKS["pacs"]
SIZE: dict[str, Any] = {"steps": 2, "size": 32, "cells": [1, 3], "trials": 1, "configs": 2}
RECIPE = f"{NAME}-32px-2"
PICTURES = [f"checkpoints.{kind}" for kind in ("png", "svg", "pdf")]
FILES = ["table.md", "table.csv", "table.tex", *PICTURES, "timings.json", "reproduction.json"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pacs(tmp_path_factory.mktemp("data"), each=5)


@pytest.fixture(scope="module")
def finished(data: Path, weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    out = tmp_path_factory.mktemp("finished")
    return reproduce_images(PACS, data, encoder=NAME, weights=weights, out=out, **SIZE)


def root(reproduction: Reproduction) -> Path:
    return reproduction.files[0].parents[1]


def read_runs(out: Path, *algorithms: str) -> dict[tuple[str, int, int], dict[str, Any]]:
    """The records by algorithm, test environment and configuration."""
    found = {}
    for path in (out / f"{RECIPE}-hull-reweighted" / "cpu").glob("*/results.jsonl"):
        record = json.loads(path.read_text())
        args = record["args"]
        if not algorithms or args["algorithm"] in algorithms:
            found[args["algorithm"], args["test_envs"][0], args["hparams_seed"]] = record
    return found


def test_the_files_the_records_and_the_tables(finished: Reproduction) -> None:
    out = root(finished) / f"{RECIPE}-hull-reweighted"
    assert finished.files == [out / name for name in FILES]
    assert {path.name for path in out.iterdir()} == {*FILES, "cpu"}
    jobs = {f"PACS-{env}-0-{RECIPE}-cpu.safetensors" for env in (1, 3)}
    for kind in ("phase1", "features"):
        assert {path.name for path in (root(finished) / kind).iterdir()} == jobs
    runs = [(r["args"]["test_envs"], r["args"]["hparams_seed"]) for r in finished.records]
    assert runs == [([1], 0), ([1], 1), ([3], 0), ([3], 1)]
    for record in finished.records:
        args, config = record["args"], record["args"]["hparams_seed"]
        assert (args["dataset"], args["algorithm"]) == ("PACS", "CRO")
        assert args["seed"] == job_seed("PACS", "CRO", args["test_envs"], config, 0)
        assert record["hparams"] == draw_configuration(
            game_space("hull", None, 7, "PACS"), config, 0
        )
        assert record["hparams"]["cro_rank"] == 6 and record["hparams"]["cro_radius"] == 8.0
        assert record["rounds"] >= 1 and record["converged"]
    lines = finished.files[0].read_text("utf-8").splitlines()
    assert "| Algorithm | Source | A | C | P | S | Avg | Worst |" in lines
    published = (
        "| ERM | DomainBed | 84.7 ± 0.4 | 80.8 ± 0.6 | 97.2 ± 0.3 | 79.3 ± 1.0 | 85.5 | 79.3 |"
    )
    assert published in lines
    labels = [
        f"ERM (regraft, preset {RECIPE})",
        f"ERM, refitted (regraft, preset {RECIPE})",
        f"CRO, hull (regraft, preset {RECIPE})",
    ]
    assert [*finished.baselines, finished.label] == labels
    assert finished.selection == RULES["training-domain"].select(finished.records)
    for label, selection in {**finished.baselines, finished.label: finished.selection}.items():
        c, s = (f"{100 * cell.mean:.1f}" for cell in selection.cells.values())
        assert f"| {label} | this run | – | {c} | – | {s} | – | – |" in lines
    document = finished.to_dict()
    assert list(document["baselines"]) == labels[:2]
    assert list(document["cells"]) == ["C", "S"] and document["runs"] == 4
    assert json.loads(json.dumps(document))["baselines"][labels[0]]["average"] is None


def test_erm_is_recorded_everywhere_and_is_phase_1s_head(finished: Reproduction) -> None:
    records = read_runs(root(finished), "ERM", "ERM, refitted")
    assert sorted(records) == [
        (name, env, 0) for name in ("ERM", "ERM, refitted") for env in (1, 3)
    ]
    for record in records.values():
        for env in range(4):
            assert all(0 <= record[f"env{env}_{part}_acc"] <= 1 for part in ("in", "out"))
    # The game starts at the refitted head.
    for env in (1, 3):
        refitted = records["ERM, refitted", env, 0]
        game = next(r for r in finished.records if r["args"]["test_envs"] == [env])
        start = game["checkpoints"][0]
        assert start["target_risk"] == pytest.approx(1 - refitted[f"env{env}_in_acc"])
        sources = [refitted[f"env{other}_out_acc"] for other in range(4) if other != env]
        assert start["source_risk"] == pytest.approx(1 - sum(sources) / 3)
    name = f"PACS-3-0-{RECIPE}-cpu.safetensors"
    checkpoint, features = (
        safetensors.torch.load_file(root(finished) / kind / name) for kind in ("phase1", "features")
    )
    record = read_runs(root(finished))["ERM", 3, 0]
    X, y = features["X3"].double(), features["y3"]
    logits = X @ checkpoint["1.weight"].double().T + checkpoint["1.bias"].double()
    right = (logits.argmax(dim=1) == y).double()
    n_out = int(0.2 * len(y))
    share = (len(y) - n_out) * record["env3_in_acc"] + n_out * record["env3_out_acc"]
    assert share == pytest.approx(float(right.sum()))


def test_a_second_time_nothing_is_done_and_more_can_be_added(
    data: Path, weights: Path, finished: Reproduction, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(root(finished), tmp_path / "copy"))
    before = read_runs(copy)
    told: list[str] = []
    usual: dict[str, Any] = {"encoder": NAME, "weights": weights, "out": copy}
    again = reproduce_images(PACS, data, **usual, **SIZE, on_progress=told.append)
    assert not any(text.startswith(("Phase", "images:", "features")) for text in told)
    assert again.records == finished.records and again.baselines == finished.baselines
    more = reproduce_images(PACS, data, **usual, **SIZE | {"configs": 3, "cells": [3]})
    assert before.items() <= read_runs(copy).items() and len(more.records) == 3
    assert set(more.selection.cells) == {3}


def test_other_images_or_weights_are_not_mixed_in(
    data: Path, weights: Path, finished: Reproduction, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(root(finished), tmp_path / "copy"))
    changed = Path(shutil.copytree(data, tmp_path / "data"))
    first = changed / DOMAINS[0] / CLASSES[0]
    (first / "0.png").write_bytes((first / "1.png").read_bytes())
    with pytest.raises(ValueError, match="holds runs on other images"):
        reproduce_images(PACS, changed, encoder=NAME, weights=weights, out=copy, **SIZE)
    tensors = safetensors.torch.load_file(weights)
    name = next(name for name in tensors if name.endswith("weight"))
    safetensors.torch.save_file(tensors | {name: tensors[name] + 1}, tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match="another preset"):
        reproduce_images(
            PACS, data, encoder=NAME, weights=tmp_path / "w.safetensors", out=copy, **SIZE
        )


def test_folders_are_found_and_empty_classes_named(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "PACS")
    direct, inside = list_images(PACS, data), list_images(PACS, tmp_path)
    assert [listing.labels for listing in direct] == [listing.labels for listing in inside]
    assert [len(listing.paths) for listing in direct] == [35] * 4
    assert Path(inside[1].paths[0]).parts[-4:-1] == ("PACS", "cartoon", "dog")
    copy = Path(shutil.copytree(data, tmp_path / "data"))
    for name in ("giraffe", "guitar"):
        for path in (copy / "photo" / name).iterdir():
            path.unlink()
    with pytest.raises(ValueError, match=r"photo has no images of giraffe, guitar: put some"):
        list_images(PACS, copy)


def test_officehome_has_its_own_shape(tmp_path: Path) -> None:
    benchmark = IMAGE_BENCHMARKS["officehome"]
    assert benchmark.n_classes == 65 and benchmark.environments == ("A", "C", "P", "R")
    for domain in ("Art", "Clipart", "Product", "Real World"):
        for label in range(65):
            folder = tmp_path / "office_home" / domain / f"class{label:02}"
            folder.mkdir(parents=True)
            (folder / "one.jpg").touch()
    listings = list_images(benchmark, tmp_path)
    assert [listing.labels for listing in listings] == [tuple(range(65))] * 4
    assert "Real World" in listings[3].paths[0]


def test_the_command_line(
    data: Path, weights: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr("regraft.cli.reproduce._QUICK_STEPS", 2)
    line = ("reproduce", "pacs", "--data", data, "--encoder", NAME, "--weights", weights)
    line += ("--size", 32, "--quick", "--configs", 1, "--out", tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr("regraft.bench.paper.fine_tuning.fine_tune", interrupt)
        stopped = run(*line)
    assert stopped.code == 130 and RESUMES in stopped.err
    ran = run(*line)
    assert ran.code == 0, ran.err
    for text in ("SagNet (DomainBed)", "CRO (CRO paper)", "ERM, refitted", "Worst", "S: "):
        assert text in ran.out
    document = json.loads(run(*line, "--json").out)
    assert document["runs"] == 1 and list(document["cells"]) == ["S"]
    assert document["seconds"]["Phase 1"] == 0
