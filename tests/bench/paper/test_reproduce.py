"""The whole experiment on tiny digits: what it writes, and that a kill costs nothing."""

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from regraft._version import __version__
from regraft.bench.algorithms import games
from regraft.bench.algorithms.games import GameFamily, game_space
from regraft.bench.paper import experiment
from regraft.bench.paper.experiment import PARTS, Reproduction
from regraft.bench.paper.pretraining import Preset
from regraft.bench.paper.reproduce import reproduce
from regraft.bench.protocol.collection import collect
from regraft.bench.protocol.seeds import job_seed
from regraft.bench.protocol.selection import RULES
from regraft.bench.protocol.spaces import draw_configuration
from regraft.cli.reproduce import show
from regraft.support.seals import unseal
from tests.helpers.commands import kill_when, make_session
from tests.helpers.errors import refused
from tests.helpers.problems import Digits
from tests.helpers.toy_sweep import CLOCKS

TINY = Preset("tiny", steps=8, batch=8)
RANKS = (1, 2, 4, 128)
SIZE: dict[str, Any] = {"preset": TINY, "cells": [2], "trials": 2, "configs": 2}
HULL = "tiny-hull-reweighted"
BEGINNINGS = {"png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF"}
PICTURES = [f"{name}.{kind}" for name in ("checkpoints", "ranks", "rounds") for kind in BEGINNINGS]
FILES = ["table.md", "table.csv", "table.tex", *PICTURES, "timings.json", "reproduction.json"]


@pytest.fixture(scope="module", autouse=True)
def few_ranks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "RANKS", RANKS)
        yield


@pytest.fixture(scope="module")
def told() -> list[str]:
    return []


@pytest.fixture(scope="module")
def finished(
    blobs: Digits, told: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Reproduction:
    """One run that nobody interrupted."""
    out = tmp_path_factory.mktemp("finished")
    return reproduce(*blobs, **SIZE, out=out, on_progress=told.append)


@pytest.fixture
def copy(finished: Reproduction, tmp_path: Path) -> Path:
    """A folder like the finished one, to be spoilt."""
    return Path(shutil.copytree(root(finished), tmp_path / "copy"))


def root(reproduction: Reproduction) -> Path:
    """The folder that was called ``out``."""
    return reproduction.files[0].parents[1]


def contents(folder: Path) -> dict[str, bytes]:
    # Whether the lock's file stays when it is released depends on the system.
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def caches(folder: Path) -> dict[str, int]:
    """When each cache file was written."""
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in folder.rglob("*.safetensors")
    }


def numbers(path: Path) -> torch.Tensor:
    """All numbers in a cache file."""
    tensors = safetensors.torch.load(path.read_bytes())
    return torch.cat([tensors[name].flatten().double() for name in sorted(tensors)])


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """What the records say, less their clocks, by run."""
    found: dict[str, dict[str, Any]] = {}
    for path in folder.glob("*/*/*/results.jsonl"):
        (line,) = path.read_text().splitlines()
        assert (path.parent / "done").exists()
        record = json.loads(line)
        found[str(path.relative_to(folder))] = {k: record[k] for k in record if k not in CLOCKS}
    return found


def forget(folder: Path, *runs: tuple[int, int]) -> None:
    """Remove the runs with these trials and configurations, so that work is left to do."""
    for path in folder.glob(f"{HULL}/cpu/*/results.jsonl"):
        args = json.loads(path.read_text())["args"]
        if (args["trial_seed"], args["hparams_seed"]) in runs:
            shutil.rmtree(path.parent)


def test_the_files_and_the_records(finished: Reproduction) -> None:
    out = root(finished) / HULL
    assert finished.files == [out / name for name in FILES]
    jobs = [f"ColoredMNIST-2-{trial}-tiny-cpu.safetensors" for trial in (0, 1)]
    kept = [f"{folder}/{job}" for folder in ("features", "phase1") for job in jobs]
    kept += [f"{HULL}/{name}" for name in FILES]
    runs = [path.relative_to(root(finished)) for path in out.glob("cpu*/*")]
    kept += [f"{run}/{name}" for run in runs for name in ("done", "results.jsonl")]
    assert sorted(contents(root(finished))) == sorted([*kept, "settings.json"])
    assert len(runs) == 4 + len(RANKS)
    for record, (trial, config) in zip(
        finished.records, [(0, 0), (0, 1), (1, 0), (1, 1)], strict=True
    ):
        args, hparams = dict(record["args"]), record["hparams"]
        line = json.loads((out / "cpu" / args["output_dir"] / "results.jsonl").read_text())
        assert unseal(line) == (record, True)
        assert json.loads(args.pop("hparams")) == hparams
        assert hparams == draw_configuration(
            game_space("hull", None, 2, "ColoredMNIST"), config, trial
        )
        assert (args["dataset"], args["algorithm"]) == ("ColoredMNIST", "CRO")
        assert (args["test_envs"], args["trial_seed"], args["hparams_seed"]) == ([2], trial, config)
        assert args["seed"] == job_seed("ColoredMNIST", "CRO", [2], config, trial)
        assert all(
            0 <= record[f"env{env}_{part}_acc"] <= 1 for env in range(3) for part in ("in", "out")
        )
        assert record["step_time"] >= 0 and record["rounds"] >= 1
    ranks = [json.loads(path.read_text()) for path in out.glob("cpu-ranks/*/results.jsonl")]
    assert sorted(record["hparams"]["cro_rank"] for record in ranks) == list(RANKS)
    assert {record["args"]["trial_seed"] for record in ranks} == {0}
    for name in PICTURES:
        assert (out / name).read_bytes().startswith(BEGINNINGS[name.split(".")[1]])


def test_the_table_the_timings_and_the_progress(finished: Reproduction, told: list[str]) -> None:
    out = finished.files[0].parent
    assert finished.selection == RULES["training-domain"].select(finished.records)
    cell = finished.selection.cells[2]
    row = f"{100 * cell.mean:.1f} ± {100 * cell.error:.1f}"
    label = "CRO, hull (regraft, preset tiny)"
    assert f"| {label} | this run | – | – | {row} | – |" in (out / "table.md").read_text("utf-8")
    timings = json.loads((out / "timings.json").read_text())
    assert timings["seconds"] == finished.seconds
    assert list(finished.seconds) == [*PARTS, "total"]
    assert all(finished.seconds[part] > 0 for part in ("Phase 1", "Phase 2", "total"))
    assert sum(finished.seconds[part] for part in PARTS) <= finished.seconds["total"] + 0.1
    assert timings["device"] == "cpu" and timings["regraft"] == __version__
    assert timings["torch"] == torch.__version__
    steps = [text for text in told if text.startswith("Phase 1")]
    assert steps[0].startswith("Phase 1, steps: 8 of 16, about") and steps[0].endswith(" left")
    assert steps[-1] == "Phase 1, steps: 16 of 16"
    runs = [text for text in told if text.startswith("Phase 2")]
    assert [text.split(",")[1] for text in runs] == [f" runs: {i} of 8" for i in range(1, 9)]
    collection = collect(root(finished) / HULL / "cpu")
    selection = collection.selections["training-domain"]["ColoredMNIST"]["CRO"]
    assert selection == finished.selection
    assert (collection.runs, collection.unfinished, collection.uneven) == (4, 0, [])


def test_nothing_is_done_twice_and_leftovers_are_removed(blobs: Digits, copy: Path) -> None:
    before, written = contents(copy), caches(copy)
    told: list[str] = []
    again = reproduce(*blobs, **SIZE, out=copy, on_progress=told.append)
    assert told == ["writing tables and figures"]
    assert caches(copy) == written
    after = contents(copy)
    for name in ("timings.json", "reproduction.json"):  # both tell how long it took
        del before[f"{HULL}/{name}"], after[f"{HULL}/{name}"]
    assert after == before
    assert len(again.records) == 4
    before = set(contents(copy))
    for kind in ("phase1", "features"):
        (copy / kind / ".ColoredMNIST-2-0-tiny-cpu.safetensors.0123abcd~").write_bytes(b"half")
    reproduce(*blobs, **SIZE, out=copy)
    assert set(contents(copy)) == before


@pytest.mark.slow
def test_more_can_be_added(blobs: Digits, copy: Path) -> None:
    written, old = caches(copy), results(copy)
    more = reproduce(*blobs, **SIZE | {"cells": [2, 0], "trials": 1, "configs": 3}, out=copy)
    assert {name: when for name, when in caches(copy).items() if name in written} == written
    new = results(copy)
    assert old.items() <= new.items() and len(new) == len(old) + 1 + 3 + len(RANKS)
    assert sorted(more.selection.cells) == [0, 2]
    table = (copy / HULL / "table.md").read_bytes()
    other = {"preset": replace(TINY, name="other", steps=1), "trials": 1, "configs": 1}
    reproduce(*blobs, **SIZE | other, out=copy)
    assert new.items() <= results(copy).items()
    assert (copy / HULL / "table.md").read_bytes() == table


def test_the_table_holds_what_was_asked_for_alone(blobs: Digits, copy: Path) -> None:
    forget(copy, (1, 1))  # the second trial is unfinished
    less = reproduce(*blobs, **SIZE | {"trials": 1}, out=copy)
    assert len(less.selection.cells[2].trials) == 1
    runs = [(r["args"]["trial_seed"], r["args"]["hparams_seed"]) for r in less.records]
    assert runs == [(0, 0), (0, 1)]
    least = reproduce(*blobs, **SIZE | {"trials": 1, "configs": 1}, out=copy)
    assert least.records == less.records[:1]
    low, high = least.selection.cells[2].spread
    assert low == high


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_cpu_and_gpu_live_in_one_folder(blobs: Digits, copy: Path) -> None:
    before, written = results(copy), caches(copy)
    gpu = reproduce(*blobs, **SIZE, out=copy, device="cuda")
    assert {record["device"] for record in gpu.records} == {"cuda"}
    assert before.items() <= results(copy).items() and len(results(copy)) == 2 * len(before)
    assert written.items() <= caches(copy).items() and len(caches(copy)) == 2 * len(written)


def test_another_radius_is_not_answered_from_old_records(
    blobs: Digits, finished: Reproduction, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(games, "RADIUS", 0.5)
    monkeypatch.setattr(experiment, "RANKS", (1,))
    before = results(copy)
    narrow = reproduce(*blobs, **SIZE | {"trials": 1}, out=copy)
    assert [record["hparams"]["cro_radius"] for record in narrow.records] == [0.5, 0.5]
    assert narrow.records[0]["worst_case"] < finished.records[0]["worst_case"]
    assert before.items() <= results(copy).items() and len(results(copy)) == len(before) + 3


@pytest.mark.parametrize(
    ("family", "surrogate", "ranks"),
    [("free", "relabelled", (1, 128)), ("latent", "reweighted", ())],
)
def test_another_family_has_a_folder_of_its_own(
    blobs: Digits,
    copy: Path,
    family: GameFamily,
    surrogate: str,
    ranks: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(experiment, "RANKS", (1, 128))
    before, written = contents(copy), caches(copy)
    size = SIZE | {"trials": 1, "configs": 1}
    found = reproduce(*blobs, **size, out=copy, family=family)
    named = f"{family}, {surrogate}" if family == "free" else family
    assert found.label == f"CRO, {named} (regraft, preset tiny)"
    folder = copy / f"tiny-{family}-{surrogate}"
    assert found.files == [folder / name for name in FILES if ranks or name[:5] != "ranks"]
    assert before.items() <= contents(copy).items() and caches(copy) == written
    (record,) = found.records
    space = game_space(family, None, 2, "ColoredMNIST")
    assert record["hparams"] == draw_configuration(space, 0, 0)
    assert record["hparams"].get("surrogate", "reweighted") == surrogate
    assert record["rounds"] + bool(record.get("reason")) >= 1
    swept = [json.loads(path.read_text()) for path in folder.glob("cpu-ranks/*/results.jsonl")]
    assert sorted(each["hparams"]["cro_rank"] for each in swept) == list(ranks)


def test_a_run_that_fails_or_is_damaged_is_told_and_done_the_next_time(
    blobs: Digits, finished: Reproduction, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(copy, (1, 1))
    with monkeypatch.context() as patch:
        patch.setattr(games, "play_hull", lambda *_, **__: 1 / 0)
        with pytest.raises(
            ValueError, match=r"trial 1, configuration 1: ZeroDivisionError: division by zero"
        ):
            reproduce(*blobs, **SIZE, out=copy)
    assert reproduce(*blobs, **SIZE, out=copy).selection == finished.selection
    assert results(copy) == results(root(finished))
    path = next(copy.glob(f"{HULL}/cpu/*/results.jsonl"))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(
        ValueError, match=r"is damaged \(.*\): remove it to run it again\.$"
    ) as caught:
        reproduce(*blobs, **SIZE, out=copy)
    assert str(path.parent) in str(caught.value)
    shutil.rmtree(path.parent)
    assert len(reproduce(*blobs, **SIZE, out=copy).records) == 4


@pytest.mark.parametrize("kind", ["phase1", "features"])
@pytest.mark.parametrize("damage", ["flipped", "lost"])
def test_damaged_caches_are_made_again(blobs: Digits, copy: Path, kind: str, damage: str) -> None:
    path = copy / kind / "ColoredMNIST-2-1-tiny-cpu.safetensors"
    before, expected = numbers(path), results(copy)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    forget(copy, (1, 0), (1, 1))
    if damage == "lost":
        path.unlink()
        reproduce(*blobs, **SIZE, out=copy)
    else:
        path.write_bytes(content)
        with pytest.warns(
            UserWarning, match="2-1-tiny-cpu.safetensors is damaged and is made again"
        ):
            reproduce(*blobs, **SIZE, out=copy)
    assert results(copy) == expected
    assert torch.equal(numbers(path), before)


def test_training_ignores_other_jobs(blobs: Digits, finished: Reproduction, tmp_path: Path) -> None:
    reproduce(*blobs, **SIZE | {"trials": 1, "configs": 1}, out=tmp_path)
    name = "ColoredMNIST-2-0-tiny-cpu.safetensors"
    for kind in ("phase1", "features"):
        whole = root(finished) / kind / name
        assert torch.equal(numbers(tmp_path / kind / name), numbers(whole))


def test_other_settings_are_not_mixed_in(blobs: Digits, copy: Path) -> None:
    before, (images, digits) = contents(copy), blobs
    changed = images.copy()
    changed[0, 0, 0] ^= 1
    longer = SIZE | {"preset": replace(TINY, steps=9)}
    for data, size, message in (
        ((changed, digits), SIZE, "other images"),
        ((images, (digits + 1) % 10), SIZE, "other images"),
        (blobs, longer, "another preset 'tiny'"),
    ):
        with refused(rf"{message}.* --out\.$"):
            reproduce(*data, **size, out=copy)
    assert contents(copy) == before
    for text in ("", "[]", "{}", '{"data": "x", "presets": 1}'):
        (copy / "settings.json").write_text(text)
        with pytest.raises(ValueError, match="damaged"):
            reproduce(*blobs, **SIZE, out=copy)


def test_what_is_shown(finished: Reproduction, capsys: pytest.CaptureFixture[str]) -> None:
    show(make_session(), finished)
    out = capsys.readouterr().out
    for text in ("ERM (DomainBed)", "ARM (DomainBed)", "CRO (CRO paper)", finished.label):
        assert text in out
    low, high = finished.selection.cells[2].spread
    assert f"-90%: {100 * low:.1f} to {100 * high:.1f} over all configurations" in out
    assert "Time: data" in out and "total" in out and "timings.json" in out
    show(make_session(as_json=True), finished)
    document = json.loads(capsys.readouterr().out)
    assert document["cells"]["-90%"] == json.loads(json.dumps(asdict(finished.selection.cells[2])))
    assert document["average"] is None and document["runs"] == 4
    assert document["files"] == [str(file) for file in finished.files]


PROGRAM = """
import sys
from pathlib import Path
import numpy as np
import torch
from regraft.bench.paper import experiment
from regraft.bench.paper.pretraining import Preset
from regraft.bench.paper.reproduce import reproduce
torch.set_num_threads(1)
experiment.RANKS = (1, 2, 4, 128)
data = np.load(sys.argv[1])
reproduce(data["images"], data["digits"], preset=Preset("tiny", steps=8, batch=8), cells=[2],
          trials=2, configs=2, out=Path(sys.argv[2]))
"""


@pytest.mark.slow
def test_kills_lose_nothing(blobs: Digits, finished: Reproduction, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", images=blobs[0], digits=blobs[1])
    out = tmp_path / "out"
    program = (tmp_path / "data.npz", out)
    random = np.random.default_rng(0)

    def done(name: str) -> int:
        return len(list(out.glob(f"{HULL}/{name}/*/done")))

    trained = out / "phase1" / "ColoredMNIST-2-0-tiny-cpu.safetensors"
    kill_when(trained.exists, *program, code=PROGRAM)
    written = caches(out)
    assert "phase1/ColoredMNIST-2-0-tiny-cpu.safetensors" in written
    for name, goal in (("cpu", 1), ("cpu-ranks", 2)):
        delay = float(random.uniform(0, 0.05))
        kill_when(lambda: done(name) >= goal, *program, code=PROGRAM, delay=delay)  # noqa: B023
        assert written.items() <= caches(out).items()
        written = caches(out)
    assert len(written) == 4
    reproduce(*blobs, **SIZE, out=out)
    assert results(out) == results(root(finished))
    assert caches(out) == written and not list(out.glob("*/.*.safetensors.*"))


def test_without_pictures(copy: Path, blobs: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    for name in PICTURES:
        (copy / HULL / name).unlink()
    with pytest.warns(UserWarning) as told:
        reproduce(*blobs, **SIZE, out=copy)
    (warning,) = (str(warning.message) for warning in told)
    assert warning.startswith("the figures are not drawn: vl_convert is not installed")
    assert not [name for name in PICTURES if (copy / HULL / name).exists()]
