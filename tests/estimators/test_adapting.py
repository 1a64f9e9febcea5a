"""Adapt a fitted model to a new domain, from no labels to many."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from numpy.typing import NDArray

from regraft import AdaptedClassifier, CROClassifier, ERMClassifier, adapt, load, place, save
from regraft.core.evidence import Evidence
from regraft.data.examples import DemoBank, load_demo
from regraft.estimators.target_certificate import TargetCertificate
from tests.helpers.problems import Problem


@pytest.fixture(scope="module")
def demo() -> DemoBank:
    return load_demo()


@pytest.fixture(scope="module")
def model(demo: DemoBank) -> CROClassifier:
    return CROClassifier().fit(demo.X, demo.y, demo.sample_domain)


@pytest.fixture(scope="module")
def hull(demo: DemoBank) -> CROClassifier:
    return CROClassifier("hull").fit(demo.X, demo.y, demo.sample_domain)


def _score(adapted: AdaptedClassifier, demo: DemoBank) -> float:
    """Accuracy on rows that no test below adapts to."""
    return float((adapted.predict(demo.X_target[1500:]) == demo.y_target[1500:]).mean())


def _labels(demo: DemoBank, n: int, rows: int) -> NDArray[Any]:
    """The labels of the first n rows, of so many."""
    return np.where(np.arange(rows) < n, demo.y_target[:rows], np.nan)


def test_unlabelled_rows_alone_adapt_the_head(demo: DemoBank, model: CROClassifier) -> None:
    adapted = adapt(model, demo.X_target[:1000])
    before = (model.predict(demo.X_target[1500:]) == demo.y_target[1500:]).mean()
    assert _score(adapted, demo) > before + 0.1
    found = adapted.certificate_
    assert found.kind == "placed" and found.labels == 0 and found.labelled is None
    assert found.mixture is not None and found.mixture_before is not None
    assert (
        found.mixture_before.accuracy_bound < found.mixture.accuracy_bound < _score(adapted, demo)
    )
    claim, added, limits = found.paragraphs()
    assert "if the domain is a mixture" in claim
    assert "1,000 rows, 0 of them with labels" in added
    assert "any other domain" in limits


@pytest.mark.parametrize("family", ["model", "hull"])
@pytest.mark.parametrize("n", [10, 100])
def test_labels_adapt_the_head(
    demo: DemoBank, family: str, n: int, request: pytest.FixtureRequest
) -> None:
    fitted: CROClassifier = request.getfixturevalue(family)
    adapted = fitted.adapt(demo.X_target[:n], demo.y_target[:n])
    assert _score(adapted, demo) > (0.78 if n == 10 else 0.86)
    found = adapted.certificate_
    assert found.kind in ("placed", "corrected")
    assert (found.labelled is None) == (n == 10)
    assert sum(found.weights.values()) == pytest.approx(1)


def test_the_hull_has_a_witness(demo: DemoBank, hull: CROClassifier) -> None:
    adapted = adapt(hull, demo.X_target[:30], demo.y_target[:30])
    assert adapted.witness_.fit_residual < 1e-6
    same = hull.witness(adapted.certificate_.weights)
    np.testing.assert_allclose(adapted.witness_.target, same.target)


def test_unlabelled_rows_help_where_labels_are_few(demo: DemoBank, model: CROClassifier) -> None:
    adapted = adapt(model, demo.X_target[:1000], _labels(demo, 10, 1000))
    assert adapted.certificate_.labels == 10
    assert _score(adapted, demo) > 0.87


def test_missing_labels_are_written_in_many_ways(demo: DemoBank, model: CROClassifier) -> None:
    X, y = demo.X_target[:60], demo.y_target[:60]
    known = np.arange(60) < 30
    ways: list[Any] = [
        np.where(known, y, np.nan),
        np.where(known, y, -1),
        [int(label) if k else None for label, k in zip(y, known, strict=True)],
        [str(label) if k else "" for label, k in zip(y, known, strict=True)],
        pandas.array([label if k else None for label, k in zip(y, known, strict=True)], "Int64"),
    ]
    first, *others = [adapt(model, X, way) for way in ways]
    for other in others:
        assert other.certificate_ == first.certificate_
        np.testing.assert_array_equal(other.group_heads_, first.group_heads_)


def test_the_order_of_labelled_and_unlabelled_rows_does_not_matter(
    demo: DemoBank, model: CROClassifier
) -> None:
    X, y = demo.X_target[:40], _labels(demo, 15, 40)
    order = np.random.default_rng(0).permutation(40)
    heads = [adapt(model, X[rows], y[rows]).group_heads_ for rows in (np.arange(40), order)]
    np.testing.assert_allclose(heads[0], heads[1], atol=1e-3)


def test_a_domain_that_is_no_mixture_keeps_the_head(demo: DemoBank, model: CROClassifier) -> None:
    noise = np.random.default_rng(0).standard_normal((300, demo.X.shape[1])) * demo.X.std(axis=0)
    X = demo.X_target[:300] + noise
    adapted = adapt(model, X)
    assert adapted.certificate_.kind == "kept"
    np.testing.assert_allclose(adapted.predict_proba(X), model.predict_proba(X), atol=1e-9)
    claim = adapted.certificate_.claim()
    assert claim.startswith("The rows do not look like a mixture") and "Certified" not in claim


def test_a_saved_one_predicts_the_same_bits(
    demo: DemoBank, model: CROClassifier, tmp_path: Path
) -> None:
    adapted = adapt(model, demo.X_target[:100], demo.y_target[:100])
    save(adapted, tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert isinstance(loaded, AdaptedClassifier)
    X = demo.X_target[:200]
    np.testing.assert_array_equal(loaded.predict_proba(X), adapted.predict_proba(X))
    assert loaded.certificate_ == adapted.certificate_
    with pytest.raises(ValueError, match="adapt of the model it came from"):
        loaded.fit(X, X[:, 0])
    with pytest.raises(ValueError, match="an adapted model has no family"):
        adapt(loaded, X)  # type: ignore[arg-type]


def test_negative_domains_are_targets(demo: DemoBank) -> None:
    sources = slice(None, None, 10)
    n_target = 50
    X = np.concatenate([demo.X[sources], demo.X_target[:n_target]])
    y = np.concatenate([demo.y[sources], np.full(n_target, -1)])
    domain = np.concatenate(
        [np.where(demo.sample_domain[sources] == "+90%", 1, 2), np.full(n_target, -3)]
    )
    both = CROClassifier().fit(X, y, domain)
    alone = CROClassifier().fit(X[:-n_target], y[:-n_target], domain[:-n_target])
    np.testing.assert_array_equal(both.coef_, alone.coef_)
    assert both.domains_.tolist() == [1, 2]
    by_sign, by_hand = both.adapt(X, y, domain), alone.adapt(demo.X_target[:n_target])
    assert by_sign.certificate_ == by_hand.certificate_
    with pytest.raises(ValueError, match="no negative number"):
        both.adapt(X, y, np.abs(domain))


@pytest.mark.parametrize(
    ("n", "y", "message"),
    [
        (3, None, "the target has 3 rows and no labels: pass 10 rows or more"),
        (30, [1] * 30, "all labels of the target are 1"),
        (30, [0, 7] * 15, "the label 7, which the model does not know: its classes are 0, 1"),
        (30, [0, 1], "y has 2 entries for 30 rows"),
    ],
)
def test_labels_that_are_no_use(
    demo: DemoBank, model: CROClassifier, n: int, y: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        adapt(model, demo.X_target[:n], y)


def test_models_that_cannot_adapt(demo: DemoBank, hull: CROClassifier) -> None:
    X = demo.X_target[:40]
    with pytest.raises(ValueError, match="hull learns nothing from unlabelled rows: pass labels"):
        adapt(hull, X)
    with pytest.raises(ValueError, match="ERMClassifier has no family"):
        adapt(ERMClassifier().fit(demo.X[::50], demo.y[::50]), X)  # type: ignore[arg-type]


def test_place_and_adapt_show_one_region(demo: DemoBank, model: CROClassifier) -> None:
    placed = place(model, demo.X_target[:500])
    found = adapt(model, demo.X_target[:500]).certificate_
    assert list(found.lower.values()) == pytest.approx(list(placed.lower))
    assert list(found.upper.values()) == pytest.approx(list(placed.upper))


@pytest.mark.parametrize("n", [0, 30])
def test_rows_that_are_no_mixture_have_no_worst_mixture(
    demo: DemoBank, model: CROClassifier, n: int
) -> None:
    strange = demo.X_target[:300] + 3 * demo.X_target.std(axis=0)
    found = adapt(model, strange, _labels(demo, n, 300)).certificate_
    assert found.p_value is not None and found.p_value < 0.01 and found.mixture is None
    assert "Nothing is certified" in found.claim() and "worst mixture" not in found.added()
    assert all("mixture" not in row[0] for row in found.table().rows)
    again = TargetCertificate.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again == found
    evidence = Evidence("the worst mixture left", 9.0, 1.0, 0.5, 0.6, 0.8, 0.7)
    old = found.to_dict() | {"mixture": asdict(evidence), "mixture_before": asdict(evidence)}
    assert TargetCertificate.from_dict(old) == found


def test_few_labels_show_an_interval_and_certify_nothing(
    demo: DemoBank, model: CROClassifier
) -> None:
    found = adapt(model, demo.X_target[:300], _labels(demo, 30, 300)).certificate_
    assert found.labelled is None and found.few is not None and found.few.rows == pytest.approx(30)
    assert (
        f"On these 30 labels, each judged by a head that has not seen it, it has "
        f"{found.few.measured} (95 % interval)" in found.added()
    )
    many = adapt(model, demo.X_target[:300], _labels(demo, 60, 300)).certificate_
    assert many.few is None and many.labelled is not None and "too few" not in many.added()


def test_labels_of_rows_that_the_model_was_fitted_on_certify_nothing(problem: Problem) -> None:
    model = CROClassifier().fit(*problem.data)
    seen = np.arange(len(problem.y)) % 3 != 0
    moved = np.where(seen[:, None], problem.X, problem.X + 0.1)
    known = "rows of the target are rows that the model was fitted on"
    with (
        pytest.warns(UserWarning, match=known),
        pytest.raises(ValueError, match="most of the labelled rows are rows that the model was"),
    ):
        adapt(model, moved, problem.y)
    labels = np.where(seen, None, problem.y.astype(object))
    with pytest.warns(UserWarning, match=known):
        adapted = adapt(model, moved, labels)
    assert adapted.certificate_.labels == (~seen).sum()
