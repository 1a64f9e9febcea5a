from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Problem
from sklearn.linear_model import LogisticRegression

from regraft.auditing import AuditCurve, FrontierPoint, audit, frontier
from regraft.estimator import CROClassifier

RADII = (0.0, 1.0, 4.0, 8.0)


@pytest.fixture(scope="module")
def models(three_sources: Problem) -> dict[str, CROClassifier]:
    p = three_sources
    return {
        name: CROClassifier(radius=radius).fit(p.X, p.y, p.domain)
        for name, radius in (("ERM", 0.0), ("CRO", 8.0))
    }


@pytest.fixture(scope="module")
def curves(three_sources: Problem, models: dict[str, CROClassifier]) -> dict[str, AuditCurve]:
    p = three_sources
    return {name: audit(m, p.X, p.y, p.domain, RADII) for name, m in models.items()}


def test_worst_case_grows_with_the_radius(curves: dict[str, AuditCurve]) -> None:
    for curve in curves.values():
        assert [point.radius for point in curve.points] == list(RADII)
        risks = [point.risk for point in curve.points]
        accuracies = [point.accuracy for point in curve.points]
        assert risks == sorted(risks)
        assert accuracies == sorted(accuracies, reverse=True)


def test_radius_zero_is_the_sources(
    three_sources: Problem,
    models: dict[str, CROClassifier],
    curves: dict[str, AuditCurve],
) -> None:
    p = three_sources
    plain = models["ERM"].score(p.X, p.y)  # domains have the same size here
    assert curves["ERM"].source_accuracy == pytest.approx(plain)
    assert curves["ERM"].points[0].accuracy == pytest.approx(plain)


def test_the_trained_head_has_the_smallest_worst_case(curves: dict[str, AuditCurve]) -> None:
    assert curves["CRO"].points[-1].risk < curves["ERM"].points[-1].risk
    assert curves["CRO"].points[0].risk > curves["ERM"].points[0].risk


def test_agrees_with_the_certificate(
    models: dict[str, CROClassifier], curves: dict[str, AuditCurve]
) -> None:
    certified = models["CRO"].certificate_.worst_case
    assert curves["CRO"].points[-1].risk == pytest.approx(certified, abs=1e-3)


def test_targets_are_affine_and_data_plain(curves: dict[str, AuditCurve]) -> None:
    for point in curves["CRO"].points:
        assert sum(point.risk_target.values()) == pytest.approx(1)
        assert sum(point.accuracy_target.values()) == pytest.approx(1)
        assert 0 < point.sample_size <= 900 + 1e-6
    assert json.loads(json.dumps(curves["CRO"].to_dict()))["source_accuracy"] > 0


def test_any_predictor_and_its_probabilities(three_sources: Problem) -> None:
    p = three_sources
    words = np.array(["c", "a", "b"])  # sorted order differs from the order of appearance
    model = LogisticRegression(max_iter=500).fit(p.X, words[p.y])
    by_model = audit(model, p.X, words[p.y], p.domain, RADII)
    by_array = audit(model.predict_proba(p.X), p.X, words[p.y], p.domain, RADII)
    assert by_model == by_array
    assert by_model.source_accuracy == pytest.approx(model.score(p.X, words[p.y]))


def test_frontier_trades_source_accuracy_for_the_worst_case(three_sources: Problem) -> None:
    p = three_sources
    seen: list[FrontierPoint] = []
    result = frontier(p.X, p.y, p.domain, RADII, on_point=seen.append)
    assert tuple(seen) == result.points
    assert result.audit_radius == 8.0
    assert result.points[0].source_accuracy > result.points[-1].source_accuracy
    assert result.points[0].worst_case_risk > result.points[-1].worst_case_risk
    assert json.loads(json.dumps(result.to_dict()))["audit_radius"] == 8.0


def test_pictures(three_sources: Problem, curves: dict[str, AuditCurve], tmp_path: Path) -> None:
    p = three_sources
    curves["CRO"].plot(str(tmp_path / "audit.png"), "CRO")
    frontier(p.X, p.y, p.domain, (0.0, 4.0)).plot(str(tmp_path / "frontier.svg"))
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "frontier.svg").read_bytes()
    assert sorted(f.name for f in tmp_path.iterdir()) == ["audit.png", "frontier.svg"]


@pytest.mark.parametrize(
    ("predictor", "words"),
    [
        (np.ones((3, 3)) / 3, "have shape"),
        (np.full((900, 3), np.nan), "NaN"),
        (np.full((900, 3), -1.0), "negative"),
        (np.ones((900, 3)), "sum to one"),
    ],
)
def test_bad_probabilities(three_sources: Problem, predictor: np.ndarray, words: str) -> None:
    p = three_sources
    with pytest.raises(ValueError, match=words):
        audit(predictor, p.X, p.y, p.domain)


def test_bad_radii_and_unknown_classes(three_sources: Problem) -> None:
    p = three_sources
    with pytest.raises(ValueError, match="radii is empty"):
        frontier(p.X, p.y, p.domain, ())
    with pytest.raises(ValueError, match="radius is -2"):
        audit(np.ones((900, 3)) / 3, p.X, p.y, p.domain, (-2.0,))
    binary = p.y < 2
    model = LogisticRegression(max_iter=500).fit(p.X[binary], p.y[binary])
    with pytest.raises(ValueError, match="does not know class 2"):
        audit(model, p.X, p.y, p.domain)
