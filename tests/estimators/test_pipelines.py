"""Pipelines that end in one of our heads serve where a head does."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from regraft import (
    CROClassifier,
    ERMClassifier,
    TableFeatures,
    adapt,
    audit,
    audit_free,
    audit_groups,
    in_batches,
    load,
    model_card,
    place,
    save,
    watch,
)
from regraft.estimators.adapted import AdaptedClassifier
from regraft.estimators.model_files import DESCRIPTION
from regraft.estimators.model_seal import seal_model, sealed_files
from regraft.estimators.pipelines import join_model, split_model
from tests.helpers.errors import refused
from tests.helpers.mixed_table import features_of, mixed_columns

pytestmark = pytest.mark.filterwarnings("ignore:columns left out")
COLUMNS = mixed_columns()
TABLE, Y, DOMAIN = features_of(COLUMNS), COLUMNS["ill"], COLUMNS["place"]
NEW = features_of(mixed_columns(seed=3))


@pytest.fixture(scope="module")
def model() -> Pipeline:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        head = CROClassifier()
        return Pipeline([("table", TableFeatures()), ("cro", head)]).fit(
            TABLE, Y, cro__sample_domain=DOMAIN
        )


def test_a_model_is_split_and_joined(model: Pipeline) -> None:
    before, head = split_model(model)
    assert before is not None and head is model[-1]
    joined = join_model(before, head, "cro")
    np.testing.assert_array_equal(joined.predict_proba(NEW), model.predict_proba(NEW))
    assert split_model(head) == (None, head) and join_model(None, head) is head
    assert split_model(make_pipeline(head))[0] is None
    for other in (LogisticRegression(), make_pipeline(LogisticRegression())):
        with refused("LogisticRegression is no head of Regraft"):
            split_model(other)


def test_a_saved_pipeline_predicts_the_same_bits(tmp_path: Path, model: Pipeline) -> None:
    save(model, tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert repr(loaded) == repr(model) and loaded.steps[1][0] == "cro"
    np.testing.assert_array_equal(loaded.predict_proba(NEW), model.predict_proba(NEW))
    save(loaded, tmp_path / "m2")
    for name in (DESCRIPTION, "model.safetensors"):
        assert (tmp_path / "m" / name).read_bytes() == (tmp_path / "m2" / name).read_bytes()
    assert json.loads((tmp_path / "m" / DESCRIPTION).read_text())["format"] == 4


@pytest.mark.parametrize(
    "before",
    [
        StandardScaler(),
        MinMaxScaler((-1, 1)),
        RobustScaler(),
        PowerTransformer(),
        QuantileTransformer(n_quantiles=7, output_distribution="normal"),
        PCA(2, whiten=True),
        make_pipeline(PolynomialFeatures(2), StandardScaler()),
        FeatureUnion([("a", StandardScaler()), ("b", PCA(1)), ("c", "passthrough")]),
        FunctionTransformer(),
        KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform"),
        SimpleImputer(add_indicator=True),
    ],
    ids=lambda each: type(each).__name__,
)
def test_every_transformer_comes_back(tmp_path: Path, problem: Any, before: Any) -> None:
    fitted = make_pipeline(before, ERMClassifier())
    fitted.fit(problem.X, problem.y, ermclassifier__sample_domain=problem.domain)
    save(fitted, tmp_path / "m")
    loaded = load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(problem.X), fitted.predict_proba(problem.X))
    assert repr(loaded) == repr(fitted)


def test_frames_and_infrequent_categories_come_back(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": TABLE["age"].astype(float), "stage": TABLE["stage"]})
    encoder = OneHotEncoder(min_frequency=60, handle_unknown="infrequent_if_exist")
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    columns = make_column_transformer(
        (encoder, ["stage"]),
        (make_pipeline(ordinal, SimpleImputer()), ["stage"]),
        remainder="passthrough",
        sparse_threshold=0,
    )
    fitted = make_pipeline(columns, StandardScaler(), ERMClassifier())
    fitted.fit(frame, Y, ermclassifier__sample_domain=DOMAIN)
    save(fitted, tmp_path / "m")
    new = frame.assign(stage=frame["stage"].replace("low", "other"))
    for rows in (frame, new):
        answers = (each.predict_proba(rows) for each in (load(tmp_path / "m"), fitted))
        np.testing.assert_array_equal(*answers)


def test_what_cannot_be_saved_is_refused(tmp_path: Path, problem: Any) -> None:
    fitted = make_pipeline(FunctionTransformer(np.log1p), ERMClassifier())
    fitted.fit(np.abs(problem.X), problem.y, ermclassifier__sample_domain=problem.domain)
    with refused("ufunc cannot be saved in a model: use transformers among"):
        save(fitted, tmp_path / "m")
    with refused("LogisticRegression is no head"):
        save(make_pipeline(LogisticRegression()), tmp_path / "m")
    with refused("not fitted"):
        save(make_pipeline(TableFeatures(), ERMClassifier()), tmp_path / "m")
    assert not (tmp_path / "m").exists()


def _damage(state: Any, change: Any) -> bool:
    """Apply ``change`` to the first object that it takes; whether one did."""
    if isinstance(state, dict) and change(state):
        return True
    items = state.values() if isinstance(state, dict) else state if isinstance(state, list) else ()
    return any(_damage(item, change) for item in items)


def _set(key: str, old: Any, new: Any) -> Any:
    def change(state: dict[str, Any]) -> bool:
        if state.get(key) != old:
            return False
        state[key] = new
        return True

    return change


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("class", "StandardScaler", "Popen"),
        ("is", "array", "eval"),
        ("is", "tuple", "array"),
        ("shape", [5], [4]),
        ("name", "preprocessing/17", "preprocessing/99"),
        ("value", "float64", "object_of_mine"),
        ("n_features_in_", 6, {"is": "float", "value": "x"}),
        ("verbose", False, 1.5),
        ("with_mean", True, {}),
    ],
)
def test_damaged_preprocessing_is_one_sentence(
    tmp_path: Path, model: Pipeline, key: str, old: Any, new: Any
) -> None:
    save(model, tmp_path / "m")
    path = tmp_path / "m" / DESCRIPTION
    description = json.loads(path.read_text())
    changed = _damage(description["preprocessing"], _set(key, old, new))
    if not changed and key == "name":  # the number of arrays before them may change
        names = [_array for _array in _names(description["preprocessing"])]
        assert _damage(description["preprocessing"], _set("name", names[-1], new))
    else:
        assert changed
    path.write_text(json.dumps(description))
    with refused("is damaged", path=tmp_path / "m"):
        load(tmp_path / "m")


def _names(state: Any) -> list[str]:
    found: list[str] = []
    _damage(state, lambda each: found.append(each["name"]) if each.get("is") == "array" else None)
    return found


def write_sealed(path: Path, description: dict[str, Any]) -> None:
    """Write another description of a model as if it had been saved so."""
    del description["sha256"]
    arrays = {name: (path.parent / name).read_bytes() for name in sealed_files(path.parent)}
    path.write_text(seal_model(description, arrays))


def test_attributes_do_not_replace_methods(tmp_path: Path, model: Pipeline) -> None:
    save(model, tmp_path / "m")
    path = tmp_path / "m" / DESCRIPTION
    description = json.loads(path.read_text())
    description["preprocessing"]["attributes"]["transform"] = "no"
    write_sealed(path, description)
    with refused("Pipeline with another transform", path=tmp_path / "m"):
        load(tmp_path / "m")


def test_another_version_of_scikit_learn_is_told(tmp_path: Path, model: Pipeline) -> None:
    save(model, tmp_path / "m")
    path = tmp_path / "m" / DESCRIPTION
    write_sealed(path, json.loads(path.read_text()) | {"scikit-learn": "0.9.1"})
    with pytest.warns(UserWarning, match=r"saved with scikit-learn 0\.9\.1"):
        load(tmp_path / "m")


def test_the_card_tells_what_is_done_to_the_columns(tmp_path: Path, model: Pipeline) -> None:
    card = model_card(model)
    assert "## Preprocessing" in card and "- 3 numbers: age, dose, smoker" in card
    assert "- 1 categorical column: stage" in card and "- left out: patient, units" in card
    assert "stage=low" in card
    save(model, tmp_path / "m")
    code = card.split("```python\n")[1].split("```")[0].replace('load(".")', "load(folder)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a row of gaps
        exec(code, {"folder": tmp_path / "m"})


def test_audits_take_a_pipeline_and_a_table(model: Pipeline) -> None:
    before, head = split_model(model)
    assert before is not None
    columns = mixed_columns(seed=3)
    y, domain, X = columns["ill"], columns["place"], before.transform(NEW)
    assert audit_groups(model, NEW, y, domain) == audit_groups(head, X, y, domain)
    assert audit(model, NEW, y, domain, [0, 1]) == audit(head, X, y, domain, [0, 1])
    assert audit_free(model, NEW, y, domain) == audit_free(head, X, y, domain)


def test_a_target_is_placed_and_adapted_to_by_a_pipeline(tmp_path: Path, model: Pipeline) -> None:
    before, head = split_model(model)
    assert before is not None
    X, y = before.transform(NEW), mixed_columns(seed=3)["ill"]
    assert place(model, NEW) == place(head, X)
    adapted = adapt(model, NEW, y)
    assert isinstance(adapted[-1], AdaptedClassifier) and adapted.steps[1][0] == "cro"
    np.testing.assert_array_equal(adapted.predict_proba(NEW), adapt(head, X, y).predict_proba(X))
    save(adapted, tmp_path / "m")
    np.testing.assert_array_equal(
        load(tmp_path / "m").predict_proba(NEW), adapted.predict_proba(NEW)
    )
    whole = next(watch(model, [NEW]))
    assert whole == next(watch(head, in_batches([X], len(X))))
