import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import regraft.estimators.audit
from regraft import AuditCurve, CROClassifier, audit, frontier
from regraft.core.hull import Attack, plausible_targets
from tests.helpers.errors import refused
from tests.helpers.problems import Problem, make_problem

pytestmark = pytest.mark.filterwarnings("ignore:a radius of")
RADII = (0.0, 1.0, 4.0, 8.0)


@pytest.fixture(scope="module")
def models(three_sources: Problem) -> dict[str, CROClassifier]:
    radii = {"ERM": 0.0, "CRO": 8.0}
    return {
        name: CROClassifier("hull", radius=radius).fit(*three_sources.data)
        for name, radius in radii.items()
    }


@pytest.fixture(scope="module")
def curves(three_sources: Problem, models: dict[str, CROClassifier]) -> dict[str, AuditCurve]:
    return {name: audit(m, *three_sources.data, RADII) for name, m in models.items()}


def test_worst_case_grows_with_the_radius(curves: dict[str, AuditCurve]) -> None:
    for curve in curves.values():
        assert [point.radius for point in curve.points] == list(RADII)
        risks = [point.risk for point in curve.points]
        accuracies = [point.accuracy for point in curve.points]
        assert risks == sorted(risks)
        assert accuracies == sorted(accuracies, reverse=True)


def test_radius_zero_is_the_worst_of_the_sources_and_of_their_mean(
    three_sources: Problem, models: dict[str, CROClassifier], curves: dict[str, AuditCurve]
) -> None:
    p, head = three_sources, models["ERM"]
    correct = head.predict(p.X) == p.y
    by_source = [correct[p.domain == name].mean() for name in np.unique(p.domain)]
    assert curves["ERM"].source_accuracy == pytest.approx(np.mean(by_source))
    sources = p.sources
    _, rows = plausible_targets(sources)
    mean = rows.weights(torch.zeros(len(rows.tilt), dtype=torch.float64)).numpy()
    expected = min(*by_source, mean @ correct[sources.order.numpy()])
    assert curves["ERM"].points[0].accuracy == pytest.approx(expected)


def test_the_trained_head_has_the_smallest_worst_case(curves: dict[str, AuditCurve]) -> None:
    assert curves["CRO"].points[-1].risk < curves["ERM"].points[-1].risk
    assert curves["CRO"].points[0].risk > curves["ERM"].points[0].risk


@pytest.mark.parametrize("name", ["ERM", "CRO"])
def test_the_certificate_promises_less_than_the_rows_fitted_on_show(
    models: dict[str, CROClassifier], curves: dict[str, AuditCurve], name: str
) -> None:
    certificate = models[name].certificate_
    (shown,) = (p for p in curves[name].points if p.radius == certificate.radius)
    assert certificate.risk_bound > shown.risk and certificate.accuracy_bound < shown.accuracy


def test_no_source_is_measured_beyond_the_certificate(models: dict[str, CROClassifier]) -> None:
    for model in models.values():
        c = model.certificate_
        assert max(each.risk_bound for each in c.sources) <= c.risk_bound
        assert min(each.accuracy_bound for each in c.sources) >= c.accuracy_bound


def test_targets_are_affine_and_data_plain(curves: dict[str, AuditCurve]) -> None:
    assert json.loads(json.dumps(curves["CRO"].to_dict()))["source_accuracy"] > 0
    for point in curves["CRO"].points:
        assert sum(point.risk_target.values()) == pytest.approx(1)
        assert sum(point.accuracy_target.values()) == pytest.approx(1)
        assert 0 < point.sample_size <= 900 + 1e-6


def test_any_predictor_and_its_probabilities(three_sources: Problem) -> None:
    p = three_sources
    words = np.array(["c", "a", "b"])  # sorted order differs from the order of appearance
    model = LogisticRegression(max_iter=500).fit(p.X, words[p.y])
    by_model = audit(model, p.X, words[p.y], p.domain, RADII)
    by_array = audit(model.predict_proba(p.X), p.X, words[p.y], p.domain, RADII)
    assert by_model == by_array
    assert by_model.source_accuracy == pytest.approx(model.score(p.X, words[p.y]))


class Fixed:
    """A predictor of given probabilities."""

    def __init__(self, classes: list[int], probabilities: np.ndarray) -> None:
        self.classes_ = np.array(classes)
        self.probabilities = probabilities

    def predict_proba(self, X: object) -> np.ndarray:
        return self.probabilities


def test_probability_on_classes_that_the_data_lacks_counts_as_error(problem: Problem) -> None:
    p = problem
    known = np.where(p.y[:, None] == [0, 1], 0.3, 0.1)  # right among the classes of the data
    stray = np.column_stack([1 - known.sum(axis=1), known])
    curve = audit(Fixed([-1, 0, 1], stray), *p.data, (0.0, 2.0))
    assert curve.source_accuracy == pytest.approx(0)
    assert [point.accuracy for point in curve.points] == pytest.approx([0, 0])
    assert [point.risk for point in curve.points] == pytest.approx([-np.log(0.3)] * 2)


@pytest.mark.parametrize(
    ("predictor", "sentence"),
    [
        (np.ones((3, 2)) / 2, "have shape"),
        (np.full((600, 2), np.nan), "NaN"),
        (np.full((600, 2), -1.0), "negative"),
        (np.ones((600, 2)), "sum to one"),
        (Fixed([0, 1], np.full((600, 2), np.nan)), "negative, NaN"),
        (Fixed([0, 1], np.tile([-0.5, 1.5], (600, 1))), "negative, NaN"),
        (Fixed([0, 1], np.ones((600, 1))), r"shape \(600, 1\)"),
        (Fixed([0, 2], np.full((600, 2), 0.5)), "does not know class 1"),
        (CROClassifier(), r"^the predictor is not fitted: call fit first\.$"),
        (LogisticRegression(), r"^the predictor is not fitted: call fit first\.$"),
        (make_pipeline(LogisticRegression()), r"^the predictor is not fitted: call fit first\.$"),
        (LinearSVC(), "a LinearSVC has no probabilities: pass"),
    ],
)
def test_predictors_that_cannot_be_audited(problem: Problem, predictor: Any, sentence: str) -> None:
    with refused(sentence):
        audit(predictor, *problem.data)


def test_each_ball_is_given_the_worst_targets_of_the_last(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Attack] = []
    given: list[list[float]] = []

    def record(*arguments: Any, known: Any = ()) -> Attack:
        given.append([float(z) for z in known])
        found.append(attack(*arguments, known=known))
        return found[-1]

    attack = regraft.estimators.audit.attack
    monkeypatch.setattr(regraft.estimators.audit, "attack", record)
    p = problem
    audit(LogisticRegression().fit(p.X, p.y), *p.data, (0.5, 1.0, 2.0))
    assert given == [[], []] + [[float(answer.z)] for answer in found[:-2]]


def test_one_domain_is_warned_of(problem: Problem) -> None:
    p, one = problem, np.zeros(len(problem.y))
    model = LogisticRegression().fit(p.X, p.y)
    with pytest.warns(UserWarning, match="one domain, so the only plausible target"):
        audit(model, p.X, p.y, one, (1.0,))
    with pytest.warns(UserWarning, match="one domain, so the only plausible target"):
        frontier(p.X, p.y, one, (1.0,), family="hull")


@pytest.mark.filterwarnings("ignore:X has more features")
def test_frontier_holds_every_class_out_or_refuses() -> None:
    p = make_problem(n=40)
    cells = {
        (s, c): np.flatnonzero((p.y == c) & (p.domain == f"source {s}"))
        for s in (0, 1)
        for c in (0, 1)
    }
    few = np.concatenate([rows[: 2 + (c != s)] for (s, c), rows in cells.items()])
    with pytest.raises(ValueError, match=r"domain source 0 has 2 row\(s\) of class 0.*add rows"):
        frontier(*p.take(few).data)
    enough = np.concatenate([rows[:3] for rows in cells.values()])
    point = frontier(*p.take(enough).data, (0.0,), family="hull").points[0]
    assert 12 * point.source_accuracy == pytest.approx(round(12 * point.source_accuracy))


def test_frontier_trades_source_accuracy_for_the_worst_case(three_sources: Problem) -> None:
    seen: list[str] = []
    result = frontier(*three_sources.data, RADII, family="hull", on_progress=seen.append)
    assert seen == [f"fitted at radius {point.radius:g}" for point in result.points]
    assert result.audit_radius == 8.0
    assert result.points[0].source_accuracy > result.points[-1].source_accuracy
    assert result.points[0].worst_case_risk > result.points[-1].worst_case_risk
    assert json.loads(json.dumps(result.to_dict()))["audit_radius"] == 8.0


def test_pictures(three_sources: Problem, curves: dict[str, AuditCurve], tmp_path: Path) -> None:
    curves["CRO"].plot(str(tmp_path / "audit.png"), "CRO")
    frontier(*three_sources.data, (0.0, 4.0), family="hull").plot(str(tmp_path / "frontier.svg"))
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "frontier.svg").read_bytes()
    assert sorted(f.name for f in tmp_path.iterdir()) == ["audit.png", "frontier.svg"]


def test_bad_radii(three_sources: Problem) -> None:
    with refused("radii is empty"):
        frontier(*three_sources.data, (), family="hull")
    with refused("radius is -2"):
        audit(np.ones((900, 3)) / 3, *three_sources.data, (-2.0,))
