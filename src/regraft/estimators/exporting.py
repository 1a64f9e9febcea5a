"""Fitted models in formats that run without Regraft."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.estimators import scoring
from regraft.estimators.exporting_document import describe_model
from regraft.estimators.pipelines import Model, split_model
from regraft.estimators.scoring import Scorer
from regraft.estimators.table_features import TableFeatures
from regraft.support.extras import require
from regraft.support.files import write_bytes, write_text
from regraft.support.json_files import dumps
from regraft.support.publishing import publishing

_TOLERANCE = 1e-6  # of a probability
_ROWS = 64
_SCORER, _CELLS = "scorer.py", "column_kinds.py"  # copies of our own files
_SKLEARN_FILES = {_SCORER, _CELLS, "model.json", "README.md"}


def export(model: Model, path: str | Path, to: str = "onnx") -> None:
    """Write a fitted model in a format that runs without Regraft.

    The exported model holds the head and its preprocessing, the class names, the certificate and
    the model card. Before it is written, its probabilities are compared with the model's own on
    made-up rows.

    Parameters
    ----------
    model : SoftmaxHead or Pipeline
        Fitted head of Regraft, or a scikit-learn ``Pipeline`` that ends in one.
    path : str or Path
        File to write, or for ``"sklearn"`` the folder; what is there is replaced.
    to : {"onnx", "sklearn", "torchscript", "json"}
        ``"onnx"``: one input for each raw column, or one for all features; needs the extra
        ``onnx``. ``"sklearn"``: a folder with scorer.py, which makes a ``Pipeline`` that ends in
        ``LogisticRegression``. ``"torchscript"``: from numbers to probabilities. ``"json"``: a
        description for any language.

    Raises
    ------
    ValueError
        If the model cannot be exported in this format, or ``path`` cannot be written.
    MissingExtra
        If a package is not installed.
    """
    path = Path(path)
    if to not in _WRITERS:
        raise ValueError(f"there is no format {to!r}: choose one of {', '.join(_WRITERS)}.")
    if to == "onnx":
        require("onnx", "onnx")  # before anything is computed
    _check_path(path, is_folder=to == "sklearn")
    document = describe_model(model)
    _check_agreement(model, document)
    _WRITERS[to](document, path)


def _check_path(path: Path, *, is_folder: bool) -> None:
    if is_folder and path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file: name a folder for the scikit-learn model.")
    if is_folder and path.is_dir():
        others = {entry.name for entry in path.iterdir()} - {*_SKLEARN_FILES, "__pycache__"}
        if others:
            raise ValueError(
                f"{path} holds other files ({min(others)}), which exporting would delete: choose "
                "another folder."
            )
    if not is_folder and path.is_dir():
        raise ValueError(f"{path} is a folder: name a file, such as {path / 'model'}.")


def _check_agreement(model: Model, document: dict[str, Any]) -> None:
    """Compare probabilities on made-up rows, with gaps and unknown categories."""
    rows = make_rows(document, _ROWS)
    X = _as_input(model, rows)
    if X is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of categories that are unknown on purpose
        own = model.predict_proba(X)
    far = np.abs(own - Scorer(document).predict_proba(rows)).max()
    if not far <= _TOLERANCE:
        raise ValueError(
            f"the exported model differs from this one by {far:.1g} on made-up rows, so it was not "
            "written: please report this, with the steps of your pipeline."
        )


def _as_input(model: Model, rows: dict[str, NDArray[Any]]) -> Any:
    """Return rows as the model takes them; None if it takes pandas' frames, which is missing."""
    before, head = split_model(model)
    if before is not None and isinstance(before.steps[0][1], TableFeatures):
        return rows
    first = head if before is None else before
    names = getattr(first, "feature_names_in_", None)
    has_names = before is not None and names is not None
    if names is None:
        names = [f"x{j}" for j in range(first.n_features_in_)]
    unread = np.zeros(_ROWS)
    columns = {str(name): rows.get(str(name), unread) for name in names}
    if not has_names:
        return np.column_stack(list(columns.values()))
    return import_module("pandas").DataFrame(columns) if find_spec("pandas") else None


def make_rows(document: dict[str, Any], n: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Draw the columns of ``n`` rows: gaps and unknown categories where the model allows them."""
    rng = np.random.default_rng(seed)
    rows: dict[str, NDArray[Any]] = {}
    for j, column in enumerate(document["columns"]):
        terms = [term for term in document["terms"] if term["column"] == j]
        numbers = [term for term in terms if term["kind"] == "number"]
        if numbers:
            cells = rng.normal(numbers[0]["center"], numbers[0]["scale"], n)
            may_miss = all(term["if_missing"] is not None for term in numbers)
            rows[column["name"]] = np.where(may_miss & (rng.random(n) < 0.2), np.nan, cells)
        else:
            known = [value for term in terms for value in term["values"]]
            cells = np.array([*known, "no such category", None], dtype=object)
            rows[column["name"]] = cells[rng.integers(len(cells), size=n)]
    return rows


def _write_json(document: dict[str, Any], path: Path) -> None:
    write_text(path, dumps(document) + "\n")


def _write_onnx(document: dict[str, Any], path: Path) -> None:
    from regraft.estimators.exporting_onnx import make_onnx

    write_bytes(path, make_onnx(document))


def _write_torchscript(document: dict[str, Any], path: Path) -> None:
    from regraft.estimators.exporting_torch import make_torchscript

    write_bytes(path, make_torchscript(document))


def _write_sklearn(document: dict[str, Any], path: Path) -> None:
    Scorer(document).as_pipeline()  # raises if the model is not linear
    path = path.resolve()
    with publishing(path.parent) as stage:
        fresh = stage / path.name
        fresh.mkdir()
        own = Path(scoring.__file__)
        code = own.read_text(encoding="utf-8").replace("from regraft.estimators.", "from ")
        (fresh / _SCORER).write_text(code, encoding="utf-8")
        shutil.copyfile(own.with_name(_CELLS), fresh / _CELLS)
        (fresh / "model.json").write_text(dumps(document) + "\n", encoding="utf-8")
        (fresh / "README.md").write_text(document["about"]["card"], encoding="utf-8")


_WRITERS: dict[str, Callable[[dict[str, Any], Path], None]] = {
    "onnx": _write_onnx,
    "sklearn": _write_sklearn,
    "torchscript": _write_torchscript,
    "json": _write_json,
}
