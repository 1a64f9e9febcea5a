"""Exported models agree with ours, run without Regraft, and carry the certificate."""

import io
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)

from regraft import CROClassifier, ERMClassifier, TableFeatures, adapt, export, load, save
from regraft.estimators.exporting import make_rows
from regraft.estimators.exporting_document import describe_model
from regraft.estimators.scoring import Scorer
from tests.helpers.errors import refused
from tests.helpers.mixed_table import features_of, mixed_columns
from tests.helpers.paths import SHARED
from tests.helpers.problems import Problem

pytestmark = pytest.mark.filterwarnings(
    "ignore:columns left out",
    "ignore:these columns hold values",
    "ignore:Found unknown categories",
    "ignore:`torch.jit",
)
TOLERANCE = 1e-6
COLUMNS = mixed_columns()
TABLE = features_of(COLUMNS)
FORMATS = "onnx", "sklearn", "torchscript", "json"

Columns = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def table_model() -> Pipeline:
    steps = [("table", TableFeatures()), ("head", CROClassifier())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Pipeline(steps).fit(TABLE, COLUMNS["ill"], head__sample_domain=COLUMNS["place"])


@pytest.fixture(scope="module")
def adapted(problem: Problem) -> Any:
    """A head that is linear neither in the features nor in those of the groups."""
    X, y, domain = problem.data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = adapt(CROClassifier().fit(X, y, domain), X[::3] + 1e-3, y[::3])
    rng = np.random.default_rng(0)
    C, d = len(made.classes_), X.shape[1]
    made.group_heads_ = rng.normal(size=(3, C, d + 1))
    made.correction_ = rng.normal(size=(C, C + d + 1))
    return made


def run_onnx(model: Any, rows: Columns, folder: Path) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Labels and probabilities by onnxruntime, which gets missing texts as empty ones."""
    runtime = pytest.importorskip("onnxruntime")
    export(model, folder / "model.onnx", to="onnx")
    session = runtime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    if [each.name for each in session.get_inputs()] == ["X"]:
        feed = {"X": np.column_stack(list(rows.values())).astype(float)}
    else:
        feed = {each.name: _as_tensor(rows[each.name], each.type) for each in session.get_inputs()}
    label, probabilities = session.run(["label", "probabilities"], feed)
    return label, probabilities


def _as_tensor(column: NDArray[Any], kind: str) -> NDArray[Any]:
    if "string" in kind:
        return np.array([["" if cell is None else cell] for cell in column], dtype=object)
    return column.astype(float)[:, None]


def run_json(model: Any, rows: Columns, folder: Path) -> tuple[NDArray[Any], NDArray[np.float64]]:
    export(model, folder / "model.json", to="json")
    scorer = Scorer.read(folder / "model.json")
    return scorer.predict(rows), scorer.predict_proba(rows)


def run_torchscript(
    model: Any, rows: Columns, folder: Path
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    export(model, folder / "model.pt", to="torchscript")
    files = {"about.json": ""}
    module = torch.jit.load(folder / "model.pt", _extra_files=files)
    about = json.loads(files["about.json"])
    if about["input"] == "columns":
        X = np.column_stack([rows[name] for name in about["columns"]]).astype(float)
    else:
        X = Scorer(describe_model(model)).encode(rows)
    probabilities = module(torch.from_numpy(X)).numpy()
    return np.array(about["classes"])[probabilities.argmax(axis=1)], probabilities


def run_sklearn(
    model: Any, rows: Columns, folder: Path
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """In a process that cannot import regraft."""
    export(model, folder / "plain", to="sklearn")
    code = (
        "import json, sys, numpy as np\nsys.modules['regraft'] = None\nimport scorer\n"
        "model, rows = scorer.load(), json.load(sys.stdin)\n"
        "assert type(model).__module__.startswith('sklearn.')\n"
        "print(json.dumps([model.predict(rows).tolist(), model.predict_proba(rows).tolist()]))"
    )
    cells = {
        name: [None if cell != cell else cell for cell in column.tolist()]
        for name, column in rows.items()
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(cells),
        cwd=folder / "plain",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    labels, probabilities = json.loads(done.stdout)
    return np.array(labels), np.array(probabilities)


Runner = Callable[[Any, Columns, Path], tuple[NDArray[Any], NDArray[np.float64]]]
RUNNERS: dict[str, Runner] = {
    "onnx": run_onnx,
    "sklearn": run_sklearn,
    "torchscript": run_torchscript,
    "json": run_json,
}


def check(to: str, model: Any, X: Any, rows: Columns, folder: Path) -> None:
    labels, probabilities = RUNNERS[to](model, rows, folder)
    own = model.predict_proba(X)
    np.testing.assert_allclose(probabilities, own, atol=TOLERANCE, rtol=0)
    sure = np.ptp(np.sort(own, axis=1)[:, -2:], axis=1) > TOLERANCE
    assert sure.any() and (labels[sure] == model.predict(X)[sure]).all()


def as_rows(X: NDArray[np.float64]) -> Columns:
    return {f"x{j}": column for j, column in enumerate(X.T)}


@pytest.mark.parametrize("to", FORMATS)
def test_plain_heads_agree(to: str, three_sources: Problem, tmp_path: Path) -> None:
    X, y, domain = three_sources.data
    model = ERMClassifier().fit(X, np.array(["no", "yes", "per\u00e4"])[y], domain)
    far = 30 * np.random.default_rng(0).standard_normal((200, X.shape[1]))
    check(to, model, far, as_rows(far), tmp_path)


@pytest.mark.parametrize("to", FORMATS)
def test_tables_agree_with_gaps_and_unknown_categories(
    to: str, table_model: Pipeline, tmp_path: Path
) -> None:
    rows = make_rows(describe_model(table_model), 300, seed=1)
    assert any(cell is None for cell in rows["stage"]) and np.isnan(rows["dose"]).any()
    check(to, table_model, rows, rows, tmp_path)


@pytest.mark.parametrize("to", ["onnx", "torchscript", "json"])
def test_adapted_models_agree(to: str, adapted: Any, tmp_path: Path, problem: Problem) -> None:
    check(to, adapted, problem.X, as_rows(problem.X), tmp_path)


def test_adapted_models_that_are_linear_suit_scikit_learn(adapted: Any, tmp_path: Path) -> None:
    with refused("this model is not linear"):
        export(adapted, tmp_path / "plain", to="sklearn")
    assert not (tmp_path / "plain").exists()
    C = len(adapted.classes_)
    linear = type(adapted)()
    vars(linear).update(vars(adapted))
    linear.group_heads_ = adapted.group_heads_[:1]
    X = np.random.default_rng(1).standard_normal((50, adapted.n_features_in_))
    for scale in (1.0, 0.5):  # log-probabilities as they are, or made less sure
        linear.correction_ = adapted.correction_.copy()
        linear.correction_[:, :C] = scale * np.eye(C)
        plain = Scorer(describe_model(linear)).as_pipeline()
        own = linear.predict_proba(X)
        np.testing.assert_allclose(plain.predict_proba(X), own, atol=TOLERANCE, rtol=0)


def test_real_rows_agree(tmp_path: Path) -> None:
    path = SHARED / "tables" / "heart.csv.gz"
    if not path.is_file():
        pytest.skip("the heart-disease table is not there")
    frame = pandas.read_csv(path).drop(columns="id")
    y, domain = (frame.pop("HeartDisease") > 0).astype(int), frame.pop("dataset")
    seen = (domain != "Switzerland").to_numpy()
    model = Pipeline([("table", TableFeatures()), ("head", ERMClassifier())])
    model.fit(frame[seen], y[seen], head__sample_domain=domain[seen])
    # As the command line reads it: all cells are texts.
    raw = pandas.read_csv(path, dtype=str, keep_default_na=False)
    table = model[0]
    numbers = {name: frame[name].to_numpy(float) for name in table.numeric_}
    texts = {name: raw[name].to_numpy(object) for name in table.categorical_}
    rows = numbers | {name: np.where(cells == "", None, cells) for name, cells in texts.items()}
    for to in FORMATS:
        check(to, model, raw, rows, tmp_path)
    check("json", model, frame, rows, tmp_path)


def _columns(*steps: Any) -> ColumnTransformer:
    return ColumnTransformer([(str(i), *step) for i, step in enumerate(steps)], sparse_threshold=0)


IMPUTED = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
TEXTS = OneHotEncoder(handle_unknown="ignore", drop="first")
CODES = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
FILLED = SimpleImputer(strategy="most_frequent", missing_values=None)
PIPELINES = {
    "scalers": _columns((IMPUTED, [0, 1]), (make_pipeline(FILLED, TEXTS), [2, 3])),
    "codes": _columns((SimpleImputer(), slice(0, 2)), (make_pipeline(FILLED, CODES), [3])),
    "components": make_pipeline(
        _columns((IMPUTED, [0, 1]), (make_pipeline(FILLED, TEXTS), [2]), ("drop", [3])),
        StandardScaler(),
        PCA(3, whiten=True),
        MinMaxScaler(),
    ),
    "unions": _columns(
        (
            FeatureUnion(
                [
                    ("robust", make_pipeline(SimpleImputer(strategy="median"), RobustScaler())),
                    ("largest", make_pipeline(SimpleImputer(), MaxAbsScaler())),
                    ("gaps", MissingIndicator()),
                    ("some", make_pipeline(SimpleImputer(), VarianceThreshold(50.0))),
                ]
            ),
            [True, True, False, False],
        ),
        (make_pipeline(FunctionTransformer(), OneHotEncoder(handle_unknown="ignore")), [2]),
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_other_transformers_agree(name: str, problem: Problem, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, n = np.empty((len(problem.X), 4), object), len(problem.X)
    X[:, :2] = np.where(rng.random((n, 2)) < 0.1, np.nan, 1e4 + 10 * problem.X[:, :2])
    X[:, 2] = rng.choice(["a", "b", "c"], n)
    X[:, 3] = np.where(rng.random(n) < 0.2, None, rng.choice(["u", "v"], n).astype(object))
    before = PIPELINES[name]
    head = ERMClassifier().fit(before.fit_transform(X), problem.y, problem.domain)
    model = Pipeline([("before", before), ("head", head)])
    X[::7, 2] = "new"
    rows = as_rows(X)
    for to in ("json", "onnx", "torchscript"):
        kept = {column["name"] for column in describe_model(model)["columns"]}
        check(to, model, X, {key: cells for key, cells in rows.items() if key in kept}, tmp_path)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(-1e6, 1e6), st.booleans(), st.just(" 7.50 ")),
            st.one_of(st.none(), st.sampled_from(["low", " high", "nan", "?", "1", "other", ""])),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_cells_are_read_as_the_model_reads_them(
    table_model: Pipeline, cells: list[tuple[Any, Any]]
) -> None:
    rows: dict[str, Any] = {name: column[: len(cells)] for name, column in TABLE.items()}
    rows["age"], rows["stage"] = ([row[j] for row in cells] for j in range(2))
    scorer = Scorer(describe_model(table_model))
    own, theirs = table_model.predict_proba(rows), scorer.predict_proba(rows)
    np.testing.assert_allclose(theirs, own, atol=TOLERANCE, rtol=0)
    frame = pandas.DataFrame(rows)
    np.testing.assert_array_equal(scorer.predict_proba(frame), theirs)
    in_order = np.array([rows[name] for name in scorer.columns], dtype=object).T
    np.testing.assert_array_equal(scorer.predict_proba(in_order), theirs)


def test_the_certificate_travels_with_every_format(table_model: Pipeline, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    summary = list(table_model[-1].certificate_.paragraphs())
    for to in FORMATS:
        export(table_model, tmp_path / to, to=to)
    props = onnx.load(tmp_path / "onnx").metadata_props
    found = {each.key: each.value for each in props}
    assert json.loads(found["summary"]) == summary and json.loads(found["classes"]) == ["no", "yes"]
    files = {"about.json": ""}
    torch.jit.load(tmp_path / "torchscript", _extra_files=files)
    documents = [json.loads(files["about.json"])]
    for path in (tmp_path / "json", tmp_path / "sklearn" / "model.json"):
        documents.append(json.loads(path.read_text())["about"])
    for about in documents:
        assert about["summary"] == summary and about["sources"] == ["clinic 0", "clinic 1"]
        assert about["card"].startswith("---") and "## Certificate" in about["card"]
    assert documents[0]["input"] == "terms"
    assert len(documents[0]["terms"]) == table_model[-1].n_features_in_


def test_a_saved_model_is_exported_as_it_was(table_model: Pipeline, tmp_path: Path) -> None:
    save(table_model, tmp_path / "model")
    for name, model in (("a", table_model), ("b", load(tmp_path / "model"))):
        export(model, tmp_path / name, to="json")
    documents = [json.loads((tmp_path / name).read_text()) for name in "ab"]
    assert documents[0] == documents[1]


def test_what_cannot_be_exported_is_told(problem: Problem, tmp_path: Path) -> None:
    X, y, domain = problem.data
    head = ERMClassifier().fit(X, y, domain)
    with refused("there is no format 'pmml': choose one of onnx"):
        export(head, tmp_path / "model", to="pmml")
    with refused("is a folder: name a file", path=tmp_path):
        export(head, tmp_path, to="json")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with refused("holds other files", path=tmp_path / "full"):
        export(head, tmp_path / "full", to="sklearn")
    with refused("LogisticRegression is no head|PCA is no head"):
        export(PCA(), tmp_path / "model", to="json")
    for step, words in (
        (PowerTransformer(), "PowerTransformer cannot be exported: use one of TableFeatures"),
        (MinMaxScaler(clip=True), "with clip cannot be exported"),
        (FunctionTransformer(np.abs), "with a function cannot be exported"),
        (make_pipeline(StandardScaler(), SimpleImputer()), "put it first"),
        (SimpleImputer(missing_values=-1), "takes -1 for missing"),
        (OneHotEncoder(max_categories=2), "infrequent categories"),
        (OneHotEncoder(handle_unknown="ignore"), "use TableFeatures"),
    ):
        features = step.fit_transform(X.round(0))
        features = features.toarray() if hasattr(features, "toarray") else features
        model = Pipeline([("step", step), ("head", ERMClassifier().fit(features, y, domain))])
        with refused(words):
            export(model, tmp_path / "model", to="json")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["full"]


@pytest.mark.parametrize("is_strict", [True, False])
def test_an_exported_model_takes_every_gap_that_its_own_takes(
    problem: Problem, tmp_path: Path, is_strict: bool
) -> None:
    X, y, domain = problem.data
    X = np.where(np.arange(X.size).reshape(X.shape) % (7 * X.shape[1]) == 0, np.nan, X)
    assert np.isnan(X).any(axis=0).sum() == 1
    gaps = MissingIndicator(error_on_new=is_strict)
    step = FeatureUnion([("numbers", SimpleImputer()), ("gaps", gaps)])
    head = ERMClassifier().fit(step.fit_transform(X), y, domain)
    model = Pipeline([("step", step), ("head", head)])
    if is_strict:
        with refused("pass error_on_new=False"):
            export(model, tmp_path / "model", to="json")
    else:
        check("json", model, X, as_rows(X), tmp_path)


def test_an_export_that_disagrees_is_not_written(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = ERMClassifier().fit(*problem.data)
    monkeypatch.setattr(Scorer, "predict_proba", lambda self, X: np.full((64, 2), 0.5))
    with refused("differs from this one by"):
        export(head, tmp_path / "model.json", to="json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"format": "other"}',
        '{"format": "regraft-scorer", "version": 1}',
        "[" * 9999,
    ],
)
def test_a_file_that_is_no_exported_model_is_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(text)
    with refused("is not a model of the format regraft-scorer", path=tmp_path / "other.json"):
        Scorer.read(tmp_path / "other.json")


def test_rows_that_do_not_fit_are_told(table_model: Pipeline, problem: Problem) -> None:
    scorer = Scorer(describe_model(table_model))
    rows = {name: column[:3] for name, column in TABLE.items()}
    with refused("the data lacks 'age'"):
        scorer.predict({name: column for name, column in rows.items() if name != "age"})
    with refused("column 'age' holds numbers for the model, but not in row 2"):
        scorer.predict(rows | {"age": ["1", "old", "3"]})
    with refused("must have 4 values"):
        scorer.predict([[1, 2]])
    plain = Scorer(describe_model(ERMClassifier().fit(*problem.data)))
    with refused("row 2 has no value in 'x1'"):
        plain.predict([[0.0] * 6, [0.0, None, *[0.0] * 4]])


def test_torchscript_takes_any_number_of_rows(problem: Problem, tmp_path: Path) -> None:
    head = ERMClassifier().fit(*problem.data)
    export(head, tmp_path / "model.pt", to="torchscript")
    module = torch.jit.load(io.BytesIO((tmp_path / "model.pt").read_bytes()))
    for n in (1, 7):
        single = module(torch.from_numpy(problem.X[:n]).float())
        assert single.shape == (n, 2) and single.dtype == torch.float64
