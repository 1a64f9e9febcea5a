"""Classifiers of other libraries: read from texts, given the domains, and compared."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from regraft import CROClassifier, ERMClassifier, compare
from regraft.estimators.comparison import Comparison
from regraft.estimators.given_estimators import (
    check_estimators,
    fit_arguments,
    predict_given,
    read_estimators,
)
from tests.helpers.errors import refused
from tests.helpers.problems import Problem, make_problem

FOREST = "sklearn.ensemble.RandomForestClassifier"


def test_texts_become_classifiers() -> None:
    found = read_estimators(
        [
            "sklearn.ensemble.HistGradientBoostingClassifier",
            f'my forest = {FOREST}(n_estimators=7, max_features="sqrt", class_weight={{0: 2.5}})',
            "sklearn.linear_model.LogisticRegression(C=-0.5, random_state=3)",
        ]
    )
    assert list(found) == ["HistGradientBoosting", "my forest", "LogisticRegression"]
    forest = found["my forest"]
    assert isinstance(forest, RandomForestClassifier)
    assert (forest.n_estimators, forest.class_weight, forest.random_state) == (7, {0: 2.5}, 0)
    assert found["LogisticRegression"].C == -0.5  # refused by its own fit, not here
    assert found["LogisticRegression"].random_state == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("forest", "no import path"),
        ("", "no import path"),
        ("a b", "no import path"),
        ("x=", "no import path"),
        ("__import__('os').system('echo')", "no import path"),
        (f"{FOREST}(7)", "has no name"),
        (f"{FOREST}(**{{}})", "has no name"),
        (f"{FOREST}(n_estimators=open('x'))", "parameter n_estimators .* is not a number"),
        (f"{FOREST}(trees=7)", "does not take these parameters: .*trees"),
        ("no_such_module.Forest", "no_such_module cannot be imported"),
        ("sklearn.ensemble.Forest", "has no class Forest"),
        ("sklearn.ensemble", "has no class ensemble"),
        ("sklearn.base.clone", "has no class clone"),
        ("sklearn.preprocessing.StandardScaler", "has no predict: pass a classifier"),
        ("sklearn.linear_model.LinearRegression", "has no predict_proba or decision_function"),
        ("pathlib.Path", "has no fit"),
    ],
)
def test_texts_that_are_none(text: str, sentence: str) -> None:
    with refused(sentence):
        read_estimators([text])


def test_a_module_that_fails_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_models.py").write_text("raise RuntimeError('out of\\norder.')")
    monkeypatch.syspath_prepend(tmp_path)
    with refused(r"broken_models cannot be imported \(out of order\): install it"):
        read_estimators(["broken_models.Tree"])


def test_names_differ() -> None:
    with refused("two models are called RandomForest: name one"):
        read_estimators([FOREST, FOREST])
    for wrong, sentence in (
        ({"ERM": LogisticRegression()}, "a head called ERM already"),
        ({"x": LogisticRegression}, "x is a class: pass LogisticRegression"),
        ({"x": LinearRegression()}, "x has no predict_proba or decision_function"),
        ({"x": make_pipeline(StandardScaler())}, "x has no predict"),
        ({"x": 3}, "x has no fit"),
    ):
        with refused(sentence):
            compare(np.zeros((2, 2)), [0, 1], [0, 1], estimators=wrong)


def test_domains_are_given_to_those_that_ask() -> None:
    domain = np.array([0, 0, 1])
    search = GridSearchCV(CROClassifier(), {"ridge": [0.1]}, cv=LeaveOneGroupOut())
    asked = {
        "nobody": (LogisticRegression(), set()),
        "a head": (CROClassifier(), {"sample_domain"}),
        "a pipeline": (make_pipeline(ERMClassifier()), {"ermclassifier__sample_domain"}),
        "a search": (search, {"groups", "sample_domain"}),
        "folds": (GridSearchCV(LinearSVC(), {"C": [1]}, cv=3), set()),
    }
    for name, (model, names) in asked.items():
        assert set(fit_arguments(model, domain)) == names, name


@pytest.fixture(scope="module")
def data() -> Problem:
    return make_problem(seed=3, n=60, d=3, classes=3, sources=3)


def given_models() -> dict[str, Any]:
    grid = {"max_depth": [1, 3]}
    return {
        "boosting": HistGradientBoostingClassifier(max_iter=5),
        "search": GridSearchCV(DecisionTreeClassifier(random_state=0), grid, cv=LeaveOneGroupOut()),
        "margin": LinearSVC(random_state=0),
        "ERM in a pipeline": make_pipeline(StandardScaler(), ERMClassifier()),
    }


@pytest.fixture(scope="module")
def comparison(data: Problem) -> Comparison:
    return compare(*data.data, radii=(), estimators=given_models())


def test_each_is_fitted_without_the_domain(data: Problem, comparison: Comparison) -> None:
    cells = {(cell.target, cell.head): cell for cell in comparison.cells}
    numbers = np.array([int(name[-1]) for name in data.domain])
    for target in comparison.targets:
        unseen = data.domain == target
        for name, model in given_models().items():
            train = data.take(~unseen)
            model.fit(train.X, train.y, **fit_arguments(model, numbers[~unseen]))
            right = model.predict(data.X) == data.y
            cell = cells[target, name]
            assert cell.accuracy == pytest.approx(right[unseen].mean())
            assert cell.rows == unseen.sum()
    assert [row.head for row in comparison.rows][7:11] == list(given_models())


def test_what_has_no_probabilities_has_fewer_metrics(comparison: Comparison) -> None:
    margin, boosting = comparison.row("margin"), comparison.row("boosting")
    assert margin.metrics["log_loss"] is None and margin.metrics["calibration_error"] is None
    assert margin.metrics["auc"] is not None and margin.minus_erm["auc"] is not None
    assert None not in boosting.metrics.values() and None not in boosting.minus_erm.values()


def test_the_estimators_stay_as_they_are_and_cells_are_kept(
    data: Problem, tmp_path: Path, comparison: Comparison
) -> None:
    model, told = HistGradientBoostingClassifier(max_iter=5), list[str]()
    options: dict[str, Any] = {"radii": (), "records": tmp_path / "cells.jsonl"}
    found = compare(*data.data, estimators={"a": model}, on_progress=told.append, **options)
    assert not hasattr(model, "classes_") and len(told) == 30
    # The same classifier under another name is known, one with another setting is not.
    again = compare(*data.data, estimators={"b": model}, on_progress=told.append, **options)
    assert told[30:] == ["resuming: 30 of 30 heads are known from before"]
    assert again.row("b").metrics == found.row("a").metrics
    assert again.row("b").metrics == comparison.row("boosting").metrics
    model.max_iter = 6
    compare(*data.data, estimators={"b": model}, on_progress=told.append, **options)
    assert len(told) == 35


def test_what_fails_in_its_fit_is_named(data: Problem) -> None:
    with refused("without domain source 0, tree cannot be fitted: .*max_depth"):
        compare(*data.data, radii=(), estimators={"tree": DecisionTreeClassifier(max_depth=-3)})


def test_a_class_that_the_model_has_not_seen_is_never_likely() -> None:
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["a", "a", "c", "c"])
    for model in (LogisticRegression(), LinearSVC()):
        said = predict_given("x", model.fit(X, y), X, np.array(["a", "b", "c"]))
        assert said.label.tolist() == [0, 0, 2, 2]
        assert said.scores is not None and said.scores.argmax(axis=1).tolist() == [0, 0, 2, 2]
        assert (said.scores[:, 1] < said.scores.max(axis=1)).all()
        assert (said.probabilities is None) == isinstance(model, LinearSVC)


def test_models_with_everything_pass() -> None:
    check_estimators(given_models())
