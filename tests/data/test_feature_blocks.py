"""Features of tables and banks, block by block."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline

from regraft.data import feature_blocks
from regraft.data.banks import write_bank
from regraft.data.columns import Role, TableError
from regraft.data.feature_blocks import read_blocks
from regraft.estimators.baselines import ERMClassifier
from regraft.estimators.pipelines import join_model
from regraft.estimators.table_features import TableFeatures
from tests.helpers.mixed_table import features_of, mixed_columns
from tests.helpers.tables import write_columns

X = np.random.default_rng(0).standard_normal((23, 3)).astype(np.float32)
ROLES = [Role("label", "label", needed=False), Role("domain", "domain", needed=False)]
NAMES = ("c", "a", "b")


def _write(folder: Path, kind: str) -> Path:
    if kind == "bank":
        write_bank(folder / "bank", X, ["l"] * len(X), ["s"] * len(X))
        return folder / "bank"
    if kind == "npz":
        return write_columns(folder / "t.npz", {"X": X, "y": np.zeros(len(X), int)})
    columns = dict(zip("abc", X.T.astype(float), strict=True)) | {"label": ["l"] * len(X)}
    return write_columns(folder / f"t.{kind}", columns)


def _head(names: Sequence[str] = (), n_features: int = 3) -> ERMClassifier:
    """A head that was fitted on so many features, with names or without."""
    head = ERMClassifier()
    head.n_features_in_ = n_features
    if names:
        head.feature_names_in_ = np.array(names, object)
    return head


def _read(path: Path, names: Sequence[str] = (), n_features: int = 3) -> NDArray[np.floating]:
    return np.concatenate(list(read_blocks(path, _head(names, n_features), ROLES)))


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "jsonl.gz", "parquet", "npz", "bank"])
def test_blocks_are_the_rows_of_the_file(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_blocks, "_ROWS", 10)
    path = _write(tmp_path, kind)
    blocks = list(read_blocks(path, _head(), ROLES))
    assert [len(block) for block in blocks] == [10, 10, 3]
    np.testing.assert_allclose(np.concatenate(blocks), X)
    has_names = kind not in ("npz", "bank")
    np.testing.assert_allclose(_read(path, NAMES), X[:, [2, 0, 1]] if has_names else X)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "npz", "bank"])
def test_other_columns_are_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(TableError, match=r"the data has 3 feature\(s\) but the model was fitted"):
        _read(_write(tmp_path, kind), n_features=4)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_names_and_cells_are_checked(tmp_path: Path, kind: str) -> None:
    path = _write(tmp_path, kind)
    with pytest.raises(TableError, match="the data lacks 'd', which the model was fitted on"):
        _read(path, ("a", "b", "d"))
    with pytest.warns(UserWarning, match="the model does not know are not read: 'c'"):
        np.testing.assert_allclose(_read(path, ("a", "b"), 2), X[:, :2])
    path = write_columns(tmp_path / f"w.{kind}", {"a": ["1", "2", "x"]})
    with pytest.raises(TableError, match=r"row 3 holds 'x' in column 'a'"):
        _read(path, ("a",), 1)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_blocks_of_a_raw_table_are_what_the_head_takes(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_blocks, "_ROWS", 70)
    columns = mixed_columns()
    table = features_of(columns)
    before = make_pipeline(TableFeatures(drop=["patient", "units"]).fit(table))
    model = join_model(before, ERMClassifier())
    path = write_columns(tmp_path / f"t.{kind}", columns)
    roles = [Role("ill", "label"), Role("place", "domain")]
    blocks = list(read_blocks(path, model, roles))
    assert [len(block) for block in blocks] == [70, 70, 70, 70, 20]
    np.testing.assert_array_equal(np.concatenate(blocks), before.transform(table))
    columns["age"][200] = "old"
    path = write_columns(tmp_path / f"t.{kind}", columns)
    with pytest.raises(TableError, match=r"from row 141 on: column 'age' .*row 61 \('old'\)"):
        list(read_blocks(path, model, roles))


def test_files_without_rows_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n")
    with pytest.raises(TableError, match="has no rows: add data below the header"):
        _read(tmp_path / "t.csv", n_features=2)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        _read(tmp_path / "none.csv")
