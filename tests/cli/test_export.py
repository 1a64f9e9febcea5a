"""``regraft export``: files and folders that it writes, and what it refuses."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest

from regraft import load
from regraft.estimators.scoring import Scorer
from tests.helpers.commands import Run, list_names


@pytest.mark.parametrize("to", ["onnx", "sklearn", "torchscript", "json"])
def test_every_format_is_written(to: str, folder: Path, tmp_path: Path, run: Run) -> None:
    if to == "onnx":
        pytest.importorskip("onnx")
    ran = run("export", folder / "fit", "--to", to, "--out", tmp_path / "new" / "model", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["model"] == str(tmp_path / "new" / "model")
    assert list_names(tmp_path / "new") == ["model"]
    if to == "sklearn":
        names = ["README.md", "column_kinds.py", "model.json", "scorer.py"]
        assert list_names(tmp_path / "new" / "model") == names
    again = run("export", folder / "fit", "--to", to, "--out", tmp_path / "new" / "model")
    assert again.code == 0 and "Written" in again.out


def test_the_exported_model_reads_the_columns_of_the_table(
    folder: Path, tmp_path: Path, run: Run
) -> None:
    assert run("export", folder / "fit", "--to", "json", "--out", tmp_path / "m.json").code == 0
    scorer = Scorer.read(tmp_path / "m.json")
    assert scorer.columns == [f"f{i}" for i in range(6)]
    rows = {name: np.linspace(-1, 1, 5) for name in scorer.columns}
    own = load(folder / "fit" / "model").predict_proba(pandas.DataFrame(rows))
    np.testing.assert_allclose(scorer.predict_proba(rows), own, atol=1e-6, rtol=0)


def test_a_file_that_is_replaced_is_told(folder: Path, tmp_path: Path, run: Run) -> None:
    arguments = ("export", folder / "fit", "--to", "json", "--out", tmp_path / "model.json")
    assert "has been replaced" not in run(*arguments).out
    assert "model.json was there before and has been replaced." in run(*arguments).out


def test_what_is_wrong_is_one_sentence(
    folder: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run("export", folder / "fit", "--to", "pmml", "--out", tmp_path / "model")
    assert ran.code == 2 and "there is no format 'pmml'" in ran.err and ran.err.count("\n") == 1
    ran = run("export", tmp_path, "--to", "json", "--out", tmp_path / "model")
    assert ran.code == 2 and "is not a saved model" in ran.err
    monkeypatch.setitem(sys.modules, "onnx", None)
    ran = run("export", folder / "fit", "--to", "onnx", "--out", tmp_path / "model")
    assert (ran.code, ran.err) == (
        2,
        'regraft: onnx is not installed: run pip install "regraft[onnx]".\n',
    )
    assert not (tmp_path / "model").exists()
