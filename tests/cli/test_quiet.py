"""--quiet: nothing is printed, and everything is written all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.commands import Ran, Run, call
from tests.helpers.problems import make_problem

# What says when, or how long it took, and pictures.
TIMED = ("provenance.json", "comparison.json", "comparison.csv", ".jsonl", ".png")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    problem = make_problem(seed=3, n=40, d=3, sources=3)
    path = tmp_path_factory.mktemp("quiet") / "data.npz"
    np.savez(path, X=problem.X, label=problem.y, domain=problem.domain)
    return path


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Other rows, which no model was fitted on."""
    problem = make_problem(seed=4, n=40, d=3, sources=3)
    path = tmp_path_factory.mktemp("other") / "data.npz"
    np.savez(path, X=problem.X, label=problem.y, domain=problem.domain)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """The folder of a model fitted on the data."""
    folder = tmp_path_factory.mktemp("model")
    call(["fit", data, "--radius", 1, "--out", folder, "--quiet"])
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith((".lock", *TIMED))
    }


LINES = [
    "fit {data} --radius 1",
    "predict {model} {data}",
    "audit {model} {other} --radii 0,1",
    "frontier {data} --radii 0,1",
    "compare {data} --radii 1",
]


@pytest.mark.parametrize("line", LINES)
def test_files_without_words(
    tmp_path: Path, data: Path, other: Path, model: Path, run: Run, line: str
) -> None:
    words = line.format(data=data, other=other, model=model).split()
    spoken = run(*words, "--out", tmp_path / "spoken")
    quiet = run(*words, "--out", tmp_path / "quiet", "--quiet")
    assert spoken.code == 0 and spoken.out
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    assert contents(tmp_path / "quiet") == contents(tmp_path / "spoken")
    names = [sorted(path.name for path in (tmp_path / n).iterdir()) for n in ("quiet", "spoken")]
    assert names[0] == names[1]
    both = run(*words, "--out", tmp_path / "both", "--quiet", "--json")
    assert both.code == 0 and both.err == ""
    assert json.loads(both.out)["files"] and both.out.count("\n") == 1


def test_predict_without_a_folder_tells_by_its_code(
    tmp_path: Path, data: Path, model: Path, run: Run
) -> None:
    assert run("predict", model, data, "--quiet") == Ran(0, "", "")
    ran = run("predict", model, tmp_path / "none.npz", "--quiet")
    assert (ran.code, ran.out) == (2, "") and "does not exist" in ran.err


def test_warnings_and_errors_are_said_all_the_same(data: Path, model: Path, run: Run) -> None:
    ran = run("audit", model, data, "--radii", 1, "--quiet")
    assert (ran.code, ran.out, ran.err.count("\n")) == (0, "", 1)
    assert ran.err.startswith("warning: the model was fitted on these very rows")
    ran = run("frontier", data, "--objective", "luck", "--quiet")
    assert (ran.code, ran.out) == (2, "") and ran.err.startswith("regraft: objective is 'luck'")


def test_seeds_of_the_frontier(data: Path, run: Run) -> None:
    def points(*options: Any) -> Any:
        ran = run("frontier", data, "--radii", "0,2", "--json", "--quiet", *options)
        return json.loads(ran.out)["points"]

    plain, first = points(), points("--seed", 1)
    assert points("--seed", 1) == first != plain
    assert first != points("--seed", 2)
