"""``regraft compare``: what it prints and writes, how it goes on, and how it fails."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from regraft.data.banks import write_bank
from regraft.support.files import claim
from tests.helpers.commands import Run, list_names
from tests.helpers.mixed_table import mixed_columns
from tests.helpers.problems import make_problem, write_npz
from tests.helpers.tables import write_columns

TABLES = [f"comparison.{kind}" for kind in ("csv", "json", "md", "png", "tex")]
FILES = ["cells.jsonl", *TABLES, "provenance.json"]


@pytest.fixture
def run(run: Run) -> Run:
    return functools.partial(run, "compare")


def test_tables_picture_progress_and_a_lock(tmp_path: Path, run: Run) -> None:
    problem = make_problem(seed=3, n=30, d=3, classes=2, sources=3)
    data, out = tmp_path / "data.npz", tmp_path / "out"
    domain = np.array([int(name[-1]) for name in problem.domain])
    names = np.array(["Bern", "Aarau", "Chur"])
    np.savez(data, X=problem.X, hit=problem.y, town=domain, domains=names)
    arguments = data, "--label", "hit", "--domain", "town", "--radii", "1,4", "--out", out
    ran = run(*arguments)
    assert ran.code == 0 and ran.err == ""
    for text in (
        "Aarau",
        "Bern",
        "Chur",
        "XRM",
        "CRO hull",
        "CRO (defaults)",
        "CRO (radius 4)",
        "worst",
    ):
        assert text in ran.out
    assert "heads: 1 of 33, about" in ran.out and "heads: 33 of 33" in ran.out
    assert "ERM has" in ran.out and "Written:" in ran.out
    assert list_names(out) == FILES
    document = json.loads((out / "comparison.json").read_text())
    assert document["targets"] == ["Aarau", "Bern", "Chur"] and len(document["cells"]) == 33
    assert (out / "comparison.png").read_bytes().startswith(b"\x89PNG")
    again = run(*arguments, "--json")
    assert again.code == 0 and "heads:" not in again.err
    printed = json.loads(again.out)
    assert printed.pop("files")[0] == str(out / "comparison.json")
    assert printed == document
    with claim(tmp_path / "held") as is_ours:
        assert is_ours
        ran = run(*arguments[:-1], tmp_path / "held")
    assert ran.code == 2 and "another comparison is at work" in ran.err
    assert list_names(tmp_path / "held") == []


def test_classifiers_by_import_path_and_metrics_by_domain(tmp_path: Path, run: Run) -> None:
    problem = make_problem(seed=3, n=30, d=3, classes=2, sources=3)
    data = write_npz(tmp_path / "data.npz", problem)
    tree = "tree=sklearn.tree.DecisionTreeClassifier(max_depth=2)"
    arguments = data, "--radii", "1", "--out", tmp_path / "out", "--model", tree
    ran = run(*arguments, "--model", "sklearn.svm.LinearSVC", "--metrics", "accuracy,log_loss")
    assert ran.code == 0 and ran.err == ""
    assert "Log-loss in each unseen domain" in ran.out and "AUC (%) in" not in ran.out
    assert "Accuracy (%) in each unseen domain" in ran.out
    assert "On average over the unseen domains, " in ran.out
    document = json.loads((tmp_path / "out" / "comparison.json").read_text())
    rows = {row["head"]: row for row in document["rows"]}
    assert rows["LinearSVC"]["metrics"]["log_loss"] is None
    found = rows["tree"]["minus_erm"]["log_loss"]
    assert found["low"] <= found["value"] <= found["high"]
    assert len(document["cells"]) == 3 * len(rows) == 36
    for wrong, sentence in (
        (("--model", "tree"), "model 'tree' is no import path"),
        (("--model", "ERM=sklearn.svm.LinearSVC"), "a head called ERM already"),
        (("--metrics", "f1"), "metrics has 'f1': choose among accuracy, auc"),
    ):
        ran = run(*arguments[:5], *wrong)
        assert ran.code == 2 and sentence in ran.err and ran.err.count("\n") == 1


def test_a_raw_table_is_compared_as_it_is(tmp_path: Path, run: Run) -> None:
    columns = mixed_columns(n=60)
    columns["place"][::3] = "clinic 2"
    data = write_columns(tmp_path / "data.csv", columns)
    tree = "tree=sklearn.tree.DecisionTreeClassifier(max_depth=2)"
    arguments = "--label", "ill", "--domain", "place", "--radii", "1", "--model", tree
    ran = run(data, *arguments, "--drop", "dose", "--out", tmp_path / "out", "--json")
    assert ran.code == 0 and ran.err.count("columns left out") == 1
    document = json.loads(ran.out)
    assert document["targets"] == ["clinic 0", "clinic 1", "clinic 2"]
    assert {row["head"] for row in document["rows"]} >= {"ERM", "tree", "CRO (defaults)"}
    assert all(row["average"] > 0.5 for row in document["rows"] if row["head"] in ("ERM", "tree"))
    ran = run(data, *arguments, "--drop", "dosis", "--out", tmp_path / "out")
    assert ran.code == 2 and "dosis" in ran.err


def test_banks_and_known_datasets_are_compared_like_files(tmp_path: Path, run: Run) -> None:
    problem = make_problem(seed=4, n=20, d=2, classes=2, sources=3)
    write_bank(tmp_path / "bank", problem.X, problem.y.tolist(), problem.domain.tolist())
    ran = run(tmp_path / "bank", "--radii", "2", "--out", tmp_path / "out", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["targets"] == ["source 0", "source 1", "source 2"]
    folder = tmp_path / "office"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in ("amazon", "Caltech10", "dslr", "webcam"):
        labels = np.repeat([1, 2], 12)
        counts = rng.poisson(np.array([[5, 2, 1], [2, 5, 1]])[labels - 1])
        arrays = {"fts": counts, "labels": labels[:, None]}
        savemat(folder / f"{name}_SURF_L10.mat", arrays)
    arguments = "office-caltech10", "--radii", "1", "--out", tmp_path / "known"
    ran = run(*arguments, "--data", folder, "--json")
    assert ran.code == 0
    document = json.loads(ran.out)
    assert document["targets"] == ["amazon", "caltech10", "dslr", "webcam"]
    assert document["rows"][0]["average"] > 0.6
