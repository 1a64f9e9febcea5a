"""Heads under stress on rows that they were not fitted on."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple

import numpy as np
import pytest
import torch

from regraft.core.domains import check_domains
from regraft.core.splitting import hold_out
from regraft.data.examples import make_confounded_domains
from regraft.estimators.audit import AuditCurve
from regraft.estimators.baselines import ERMClassifier
from regraft.estimators.frontier import Frontier, frontier
from regraft.estimators.stress import stress_test
from regraft.support.json_files import dumps
from tests.helpers.problems import Problem, make_problem

RADII = (0.0, 2.0)


@pytest.fixture(scope="module")
def confounded() -> Problem:
    return make_problem(seed=3, n=900)


def test_erm_is_what_its_own_fit_gives_on_the_rows_held_out(confounded: Problem) -> None:
    p = confounded
    told: list[str] = []
    result = stress_test(p.X, p.y, p.domain, radius=4.0, radii=RADII, on_progress=told.append)
    train, test = hold_out(check_domains(p.X, p.y, p.domain))
    erm = ERMClassifier().fit(train.X.numpy(), train.y.numpy(), train.domain.numpy())
    right = erm.predict(test.X.numpy()) == test.y.numpy()
    expected = {
        name: right[test.domain.numpy() == s].mean() for s, name in enumerate(np.unique(p.domain))
    }
    first = result.heads[0]
    assert [head.name for head in result.heads] == ["ERM", "GroupDRO", "CRO"]
    assert first.accuracy == pytest.approx(expected, abs=1e-9)
    assert first.curve.source_accuracy == pytest.approx(np.mean([*expected.values()]))
    # Radius 0 is the sources' own mixture; more freedom never helps.
    assert first.curve.points[0].accuracy == pytest.approx(first.curve.source_accuracy)
    for head in result.heads:
        accuracies = [point.accuracy for point in head.curve.points]
        assert accuracies == sorted(accuracies, reverse=True)
        assert [point.radius for point in head.curve.points] == [0.0, 2.0, 4.0]
    assert (result.fitted, result.measured) == (len(train.y), len(test.y))
    # Two sources lie on both sides of their mean, equally far.
    (one, other) = result.distances.values()
    assert [*result.distances] == ["source 0", "source 1"]
    assert one > 0 and one == pytest.approx(other)
    assert told[0].startswith("fitting") and "radius 4" in told[-1]


def test_cro_holds_where_erm_does_not() -> None:
    p = make_confounded_domains(random_state=0)
    result = stress_test(p.X, p.y, p.sample_domain, radius=4.0, radii=RADII)
    worst = {head.name: head.curve.points[-1].accuracy for head in result.heads}
    assert worst["CRO"] > worst["ERM"] + 0.05


def test_the_price_is_the_frontiers(confounded: Problem) -> None:
    p = confounded
    result = stress_test(p.X, p.y, p.domain, radius=2.0, radii=RADII, seed=5)
    expected = frontier(p.X, p.y, p.domain, RADII, family="hull", seed=5)
    for point, other in zip(result.frontier.points, expected.points, strict=True):
        assert astuple(point)[:4] == pytest.approx(astuple(other)[:4], rel=1e-6)
    cro, last = result.heads[-1].curve, result.frontier.points[-1]
    assert cro.points[-1].accuracy == pytest.approx(last.worst_case_accuracy, abs=1e-6)


def test_the_seed_chooses_the_rows(problem: Problem) -> None:
    p = problem
    runs = [
        stress_test(p.X, p.y, p.domain, radii=RADII, radius=2.0, seed=seed).heads[0].curve.points[0]
        for seed in (None, 1, 1, 2)
    ]
    assert runs[1].risk == pytest.approx(runs[2].risk, rel=1e-9)
    for other in (runs[0], runs[3]):
        assert runs[1].risk != pytest.approx(other.risk, rel=1e-6)


def test_curves_and_frontiers_survive_json(problem: Problem) -> None:
    p = problem
    result = stress_test(p.X, p.y, p.domain, radii=RADII, radius=2.0)
    document = json.loads(dumps(result.to_dict()))
    assert AuditCurve.from_dict(document["heads"][0]["curve"]) == result.heads[0].curve
    assert Frontier.from_dict(document["frontier"]) == result.frontier
    assert asdict(result)["measured"] == document["measured"]


def test_too_few_rows_are_told(problem: Problem) -> None:
    few = np.flatnonzero(problem.domain == "source 0")[:200].tolist()
    few += np.flatnonzero(problem.domain == "source 1")[:4].tolist()
    with pytest.raises(ValueError, match="too few to hold a third of them out"):
        stress_test(problem.X[few], problem.y[few], problem.domain[few])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_gives_the_same(confounded: Problem) -> None:
    p = confounded
    here, there = (
        stress_test(p.X, p.y, p.domain, radius=4.0, radii=RADII, device=device)
        for device in ("cpu", "cuda")
    )
    for one, other in zip(here.heads, there.heads, strict=True):
        assert one.accuracy == pytest.approx(other.accuracy, abs=2e-3)
        for a, b in zip(one.curve.points, other.curve.points, strict=True):
            assert a.accuracy == pytest.approx(b.accuracy, abs=5e-3)
