"""regraft drift: tables and banks in, a line for each batch and alarms out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft import save
from regraft.cli.drift import ALARMS
from regraft.estimators.cro import CROClassifier
from tests.helpers.commands import Once, Run, list_names
from tests.helpers.streams import draw_rows, fit_stream_model
from tests.helpers.tables import write_columns


@pytest.fixture(scope="session")
def stream(once: Once) -> Path:
    """A model, 60 rows of a mixture, and 30 rows that no source has."""

    def make(folder: Path) -> None:
        folder.mkdir()
        save(fit_stream_model(n=300), folder / "model")
        X, y = draw_rows(0.5, 60, 5)
        np.savez(folder / "fine.npz", X=X)
        columns = {f"x{i}": column for i, column in enumerate(X.T[:, :30] + 3)}
        write_columns(folder / "moved.csv", columns | {"label": y[:30], "domain": ["new"] * 30})

    return once("stream", make)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_for_each_batch_and_a_page(stream: Path, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["drift", stream / "model", stream / "fine.npz", stream / "moved.csv"]
    done = run(*words, "--batch", 25, "--out", out, "--html")
    assert done.code == 0, done.err
    assert "is not a mixture of what the sources hold" in done.out
    assert "of 4 batches raised an alarm" in done.out and "Certified accuracy" in done.out
    names = ["drift.json", "drift.jsonl", "provenance.json", "report.html"]
    assert list_names(out) == names
    lines = _lines(out / "drift.jsonl")
    assert [line["rows"] for line in lines] == [25, 25, 25, 15]
    assert [line["first_row"] for line in lines] == [1, 26, 51, 76]
    assert "closure" in lines[-1]["alarms"] and lines[0]["alarms"] == []
    assert lines[-1]["target"].endswith("moved.csv") and lines[-1]["target_row"] == 16
    document = json.loads((out / "drift.json").read_text())
    assert document["summary"]["batches"] == 4
    assert [each["number"] for each in document["batches"]] == [1, 2, 3, 4]
    assert [each["number"] for each in document["alarms"]] == [
        line["number"] for line in lines if line["alarms"]
    ]
    page = (out / "report.html").read_text()
    assert "Shares of the groups over time" in page and document["sentence"] in page
    assert "In brackets: 95 % confidence intervals." in page
    command = json.loads((out / "provenance.json").read_text())["drift"]["command"]
    assert f"{stream / 'fine.npz'} {stream / 'moved.csv'} --batch 25" in command

    again = run(*words, "--out", out)
    assert again.code == 2 and "drift.jsonl is there already: delete it, or choose" in again.err
    assert len(_lines(out / "drift.jsonl")) == 4


def test_an_alarm_ends_with_a_code_if_asked(stream: Path, run: Run) -> None:
    done = run("drift", stream / "model", stream / "moved.csv", "--json", "--fail-on-alarm")
    assert done.code == ALARMS == 3
    document = json.loads(done.out)
    assert document["summary"]["closure_alarms"] == 1 and document["files"] == []
    assert run("drift", stream / "model", stream / "moved.csv", "--quiet").code == 0
    fine = run("drift", stream / "model", stream / "fine.npz", "--fail-on-alarm")
    assert fine.code == 0 and "0 of 1 batches" in fine.out


def test_a_row_that_is_not_usable_ends_the_stream_and_keeps_the_lines_before(
    stream: Path, run: Run, tmp_path: Path
) -> None:
    bad = np.load(stream / "fine.npz")["X"]
    bad[45, 2] = np.nan
    np.savez(tmp_path / "bad.npz", X=bad)
    words = ["drift", stream / "model", tmp_path / "bad.npz", "--batch", 20]
    done = run(*words, "--out", tmp_path / "out")
    assert done.code == 2
    assert "batch 3, which begins with row 41: X has 1 NaN or infinity values" in done.err
    assert [line["number"] for line in _lines(tmp_path / "out" / "drift.jsonl")] == [1, 2]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["fine.npz", "none.csv"], "there is no file"),
        (["fine.npz", "other.npz"], "the data has 4 feature(s) but the model was fitted on 5"),
        (["few.npz"], "batch 1 has 9 rows: pass 10 or more"),
        (["nan.npz"], "batch 1, which begins with row 1: X has 1 NaN"),
        (["fine.npz", "--batch", "9"], "a batch of 9 rows is too small"),
        (["fine.npz", "--level", "1"], "level is 1: pass a number between 0 and 1"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    stream: Path, run: Run, tmp_path: Path, words: list[str], problem: str
) -> None:
    X = np.load(stream / "fine.npz")["X"]
    np.savez(tmp_path / "fine.npz", X=X)
    np.savez(tmp_path / "other.npz", X=X[:, :4])
    np.savez(tmp_path / "few.npz", X=X[:9])
    np.savez(tmp_path / "nan.npz", X=np.where(np.arange(X.size).reshape(X.shape) == 7, np.nan, X))
    paths = [tmp_path / word if "." in word else word for word in words]
    done = run("drift", stream / "model", *paths, "--out", tmp_path / "out")
    assert done.code == 2 and problem in done.err and done.err.count("\n") == 1
    assert list_names(tmp_path / "out") == []


def test_a_model_without_groups_is_refused(run: Run, stream: Path, tmp_path: Path) -> None:
    X, y = draw_rows(0.8, 60, 1)
    save(CROClassifier("hull").fit(X, y, np.repeat([0, 1], 30)), tmp_path / "hull")
    done = run("drift", tmp_path / "hull", stream / "fine.npz")
    assert done.code == 2 and "the family hull learns nothing from unlabelled rows" in done.err
    save(fit_stream_model(n=100), tmp_path / "bare")
    (tmp_path / "bare" / "reference.safetensors").unlink()
    done = run("drift", tmp_path / "bare", stream / "fine.npz")
    assert done.code == 2 and "no reference rows of its sources" in done.err


def test_an_unknown_category_is_told_once(run: Run, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((90, 2))
    columns = {"a": rows[:, 0], "b": rows[:, 1]}
    known, new = ([each] * 45 + ["u"] * 45 for each in ("v", "w"))
    own = {"label": ["yes", "no", "no"] * 30, "domain": ["x", "y"] * 45}
    write_columns(tmp_path / "rows.csv", columns | {"c": known} | own)
    write_columns(tmp_path / "new.csv", columns | {"c": new})
    fitted = ["fit", tmp_path / "rows.csv", "--label", "label", "--domain", "domain"]
    assert run(*fitted, "--out", tmp_path / "out").code == 0
    done = run("drift", tmp_path / "out" / "model", tmp_path / "new.csv", "--batch", 45)
    assert done.code == 0 and done.err.count("'c' (45 rows)") == 1
