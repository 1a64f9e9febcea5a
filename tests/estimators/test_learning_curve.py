"""Learning curves: what is learnt from, what is judged, and what they say."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft import CROClassifier, make_confounded_domains
from regraft.data.examples import ConfoundedDomains
from regraft.estimators.learning_curve import LearningCurve, _draw, _sizes, learning_curve
from regraft.support.table import Number


@pytest.fixture(scope="module")
def data() -> ConfoundedDomains:
    return make_confounded_domains(250, strengths=(0.9, 0.55), n_features=8, random_state=1)


@pytest.fixture(scope="module")
def model(data: ConfoundedDomains) -> CROClassifier:
    return CROClassifier().fit(data.X, data.y, data.sample_domain)


@pytest.fixture(scope="module")
def curve(model: CROClassifier, data: ConfoundedDomains) -> LearningCurve:
    return learning_curve(model, data.X_target, data.y_target, draws=3)


def test_adapting_is_worth_most_where_labels_are_few(curve: LearningCurve) -> None:
    assert curve.labels == (0, 10, 30, 100) and (curve.draws, curve.rows) == (3, 125)
    adapted, refitted, kept = (curve.lines()[name] for name in ("adapt", "refit", "no adaptation"))
    assert list(refitted) == [10, 30, 100]  # nothing is fitted to no labels
    assert len(set(kept.values())) == 1
    assert adapted[10] > refitted[10] and adapted[10] > kept[10]
    assert adapted[100] > refitted[100] - 0.03


def test_the_same_seed_draws_the_same(model: CROClassifier, data: ConfoundedDomains) -> None:
    seen: list[tuple[int, int]] = []
    first, again, other = (
        learning_curve(
            model,
            data.X_target[:40],
            data.y_target[:40],
            draws=2,
            seed=seed,
            on_cell=lambda *done: seen.append(done),
        )
        for seed in (0, 0, 1)
    )
    assert first == again != other
    assert seen == 3 * [(i, 4) for i in range(1, 5)]


def test_a_curve_survives_json_and_fills_a_table(curve: LearningCurve) -> None:
    assert LearningCurve.from_dict(json.loads(json.dumps(curve.to_dict()))) == curve
    table = curve.table()
    assert table.columns == ("labels", "adapt", "refit", "no adaptation")
    assert table.rows[0][2] is None and isinstance(table.rows[1][2], Number)
    accuracy, error = curve.accuracy["adapt"][1], curve.error["adapt"][1]
    assert accuracy is not None and error is not None
    assert str(table.rows[1][1]) == f"{100 * accuracy:.1f} ± {100 * error:.1f}"
    assert "3 draws of the labels, judged on 125 other rows" in table.note


def test_labels_may_be_missing_and_one_draw_has_no_error(
    model: CROClassifier, data: ConfoundedDomains
) -> None:
    labels = np.where(np.arange(250) % 5 == 0, data.y_target, np.nan)
    curve = learning_curve(model, data.X_target, labels, draws=1)
    assert curve.labels == (0, 10) and curve.rows == 25
    assert all(error is None for row in curve.error.values() for error in row)
    assert curve.table().note.startswith("One draw")


def test_a_family_that_needs_labels_starts_with_some(data: ConfoundedDomains) -> None:
    hull = CROClassifier("hull").fit(data.X, data.y, data.sample_domain)
    curve = learning_curve(hull, data.X_target[:80], data.y_target[:80], draws=1)
    assert list(curve.lines()["adapt"]) == [10, 30]


def test_what_is_wrong_is_told(model: CROClassifier, data: ConfoundedDomains) -> None:
    few = data.X_target[:39], data.y_target[:39]
    with pytest.raises(ValueError, match="the target has 39 labels: a learning curve needs 40"):
        learning_curve(model, *few)
    with pytest.raises(ValueError, match="draws is 0: pass 1 or more"):
        learning_curve(model, data.X_target, data.y_target, draws=0)


@given(st.integers(2, 50), st.integers(1, 49), st.integers(0, 1000))
def test_every_draw_begins_with_two_classes(n: int, rare: int, seed: int) -> None:
    labels = np.arange(n) < min(rare, n - 1)
    order = _draw(np.random.default_rng(seed), labels)
    assert sorted(order) == list(range(n))
    assert labels[order[0]] != labels[order[1]]


@pytest.mark.parametrize(
    ("most", "sizes"),
    [(20, [0, 10]), (99, [0, 10, 30]), (1000, [0, 10, 30, 100, 300, 1000])],
)
def test_numbers_of_labels(most: int, sizes: list[int]) -> None:
    assert list(_sizes(most)) == sizes
