"""``regraft predict``: intervals, ids and what it says about accuracy."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import Pipeline

from regraft import ERMClassifier, load, save
from tests.helpers.commands import Run

# Tests compare with arrays, which have no names.
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")


def test_one_domain_is_scored_once(tmp_path: Path, folder: Path, run: Run) -> None:
    lines = (folder / "data.csv").read_text().splitlines()
    one = [lines[0], *(line for line in lines if line.endswith("source 1"))]
    (tmp_path / "one.csv").write_text("\n".join(one))
    said = run("predict", folder / "fit", tmp_path / "one.csv").out
    assert said.count("accuracy") == 1 and "accuracy on source 1: " in said


def test_predict_with_intervals_and_ids(
    tmp_path: Path, folder: Path, problem: Any, run: Run
) -> None:
    lines = (folder / "data.csv").read_text().splitlines()
    with_ids = [f"id,{lines[0]}", *(f"patient {i},{line}" for i, line in enumerate(lines[1:]))]
    (tmp_path / "ids.csv").write_text("\n".join(with_ids))
    arguments = ("predict", folder / "fit", tmp_path / "ids.csv", "--interval")
    ran = run(*arguments, "--out", tmp_path / "out")
    model = load(folder / "fit" / "model")
    assert isinstance(model, Pipeline)
    expected = model[-1].predict_interval(model[0].transform(problem.X))
    assert f"Decided: {100 * expected.decided.mean():.1f}% of the rows" in ran.out
    assert "In predictions.csv, label is the predicted class; probability_<class> its" in ran.out
    with (tmp_path / "out" / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert ("group_<number> the probability" in ran.out) == ("group_0" in rows[0])
    assert list(rows[0])[:4] == ["row", "id", "domain", "label"]
    assert [row["id"] for row in rows] == [f"patient {i}" for i in range(len(rows))]
    assert [int(row["decided"]) for row in rows] == expected.decided.tolist()
    for what, bound in (("least", expected.lower), ("largest", expected.upper)):
        written = [[float(row[f"{what}_0"]), float(row[f"{what}_1"])] for row in rows]
        np.testing.assert_array_equal(written, bound)
    document = json.loads(run(*arguments, "--json").out)
    assert document["decided"] == expected.decided.tolist()
    assert document["least"] == expected.lower.tolist()
    some = tmp_path / "some.csv"  # not the very rows that it was fitted on
    some.write_text("\n".join(lines[:1] + lines[1::2]))
    assert run("predict", folder / "fit", some, "--interval", "--out", tmp_path).code == 0
    audits = [
        json.loads(run("audit", predictor, some, "--json").out)
        for predictor in (tmp_path / "predictions.csv", folder / "fit")
    ]
    # Groups are looked for in features that are scaled by these rows, or by those of the model.
    assert audits[0]["source_accuracy"] == pytest.approx(audits[1]["source_accuracy"])


def test_only_games_have_intervals(tmp_path: Path, folder: Path, problem: Any, run: Run) -> None:
    save(ERMClassifier().fit(*problem.data), tmp_path / "erm")
    ran = run("predict", tmp_path / "erm", folder / "data.npz", "--interval")
    assert ran.code != 0 and "ERMClassifier has no family of plausible domains" in ran.err
