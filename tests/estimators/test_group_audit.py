"""A predictor audited by hidden groups, against brute force over mixtures."""

import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from regraft import GroupAudit, abduct, audit_groups, make_confounded_domains
from tests.helpers.errors import refused
from tests.helpers.problems import Problem, make_problem


@pytest.fixture(scope="module")
def confounded() -> Problem:
    data = make_confounded_domains(600, strengths=(0.9, 0.7), n_features=6, random_state=1)
    return Problem(data.X, data.y, data.sample_domain.astype(str))


@pytest.fixture(scope="module")
def model(confounded: Problem) -> LogisticRegression:
    return LogisticRegression().fit(confounded.X, confounded.y)


def judged(p: Problem, model: LogisticRegression) -> tuple[NDArray[Any], NDArray[Any]]:
    """Losses and successes of the rows."""
    chances = model.predict_proba(p.X)
    return -np.log(chances[np.arange(len(p.y)), p.y]), chances.argmax(1) == p.y


def base_of(p: Problem) -> NDArray[np.float64]:
    """Weights of the rows, the same mass for each source."""
    names, index, counts = np.unique(p.domain, return_inverse=True, return_counts=True)
    return 1 / (len(names) * counts[index])


def mixtures(p: Problem, class_groups: bool) -> list[NDArray[np.float64]]:
    """Weights of the rows in every mixture on a grid."""
    belief, base = abduct(*p.data).groups, base_of(p)
    shares = np.linspace(0, 1, 11)
    if not class_groups:
        groups = (belief * base[:, None]).T
        groups = groups / groups.sum(axis=1, keepdims=True)
        return [(1 - a) * groups[0] + a * groups[1] for a in shares]
    found = []
    for mix in itertools.product(shares, repeat=2):
        weight = np.zeros(len(p.y))
        for c, a in enumerate(mix):
            parts = (belief * base[:, None] * (p.y == c)[:, None]).T
            parts = parts / parts.sum(axis=1, keepdims=True) * base[p.y == c].sum()
            weight += (1 - a) * parts[0] + a * parts[1]
        found.append(weight)
    return found


@pytest.mark.parametrize("class_groups", [False, True])
def test_no_mixture_on_a_grid_is_worse(
    confounded: Problem, model: LogisticRegression, class_groups: bool
) -> None:
    loss, correct = judged(confounded, model)
    found = audit_groups(model, *confounded.data, class_groups=class_groups)
    assert found.n_groups == 2
    weights = mixtures(confounded, class_groups)
    risks = [weight @ loss for weight in weights]
    accuracies = [weight @ correct for weight in weights]
    # The ends of the grid are the extreme mixtures, so the worst is also reached.
    assert found.risk == pytest.approx(max(risks), abs=1e-9)
    assert found.accuracy == pytest.approx(min(accuracies), abs=1e-9)
    assert found.risk_bound > found.risk and found.accuracy_bound < found.accuracy


def test_a_bounded_shift_lies_between_the_sources_and_every_mixture(
    confounded: Problem, model: LogisticRegression
) -> None:
    loss, _ = judged(confounded, model)
    found = [audit_groups(model, *confounded.data, prior_shift=s) for s in (0.0, 1.0, None)]
    assert found[0].risk == pytest.approx(base_of(confounded) @ loss)
    assert found[0].risk < found[1].risk < found[2].risk
    assert found[0].accuracy > found[1].accuracy > found[2].accuracy
    assert found[0].groups == found[1].groups == found[2].groups == found[2].targets
    names = [each.name for each in found[1].mixtures]
    assert names == ["group 0", "group 1", "group 0 favoured", "group 1 favoured"]
    assert "at most 1 nats from the sources'" in found[1].summary()


def test_sources_are_measured_as_they_are(confounded: Problem, model: LogisticRegression) -> None:
    p = confounded
    loss, correct = judged(p, model)
    order = np.random.default_rng(0).permutation(len(p.y))
    found = audit_groups(model, *p.take(order).data)
    for each in found.sources:
        rows = p.domain == each.name
        assert each.rows == pytest.approx(rows.sum())
        assert each.risk == pytest.approx(loss[rows].mean())
        assert each.accuracy == pytest.approx(correct[rows].mean())
        assert found.risk_bound >= each.risk
        assert found.accuracy_bound <= each.accuracy
    mean = np.mean([each.accuracy for each in found.sources])
    assert found.source_accuracy == pytest.approx(mean)


def test_probabilities_stand_for_the_predictor_and_json_for_the_audit(
    confounded: Problem, model: LogisticRegression
) -> None:
    found = audit_groups(model, *confounded.data, class_groups=True)
    assert audit_groups(model.predict_proba(confounded.X), *confounded.data, class_groups=True) == (
        found
    )
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["family"] == "latent"
    assert GroupAudit.from_dict(document) == found
    hardest = min(found.groups, key=lambda each: each.accuracy)
    assert f"{hardest.name} alone is the hardest group" in found.summary()
    assert "each class mixed in its own proportion" in found.summary()


def test_the_bound_is_the_mixtures_and_the_worst_source_is_told(
    confounded: Problem, model: LogisticRegression
) -> None:
    found = audit_groups(model, *confounded.data)
    document = json.loads(json.dumps(found.to_dict()))
    document["sources"][0]["accuracy"] = 0.01
    document["accuracy_bound"] = 0.01  # as older versions wrote it
    del document["worst_source"]
    low = GroupAudit.from_dict(document)
    assert low.accuracy_bound == found.accuracy_bound == min(e.accuracy_bound for e in low.targets)
    assert (low.worst_source.name, low.worst_source.accuracy) == (low.sources[0].name, 0.01)
    assert f"In the source {low.sources[0].name}, 1.0% was measured" in low.summary()
    assert "no such domain" not in found.summary()


def test_measured_accuracies_and_bounds_are_those_of_groups_that_are_named(
    confounded: Problem, model: LogisticRegression
) -> None:
    found = audit_groups(model, *confounded.data)
    hardest, other = sorted(found.groups, key=lambda each: each.accuracy)
    assert f"which is {hardest.name} alone (at least {hardest.accuracy_bound:.1%} with" in (
        found.summary()
    )
    unsure = tuple(replace(e, accuracy_bound=0.01) if e == other else e for e in found.groups)
    said = replace(found, groups=unsure, targets=unsure).summary()
    assert f"which is {hardest.name} alone (at least {hardest.accuracy_bound:.1%})." in said
    assert f"The lowest bound is that of {other.name}: at least 1.0% with 95% confidence" in said
    assert "need not sum to the number of rows" in said
    assert "need not sum to the number of rows" in found.table().note
    none = tuple(replace(e, accuracy_bound=0.0) for e in found.groups)
    said = replace(found, groups=none, targets=none).summary()
    assert "nothing useful can be certified" in said and "at least 0.0%" not in said


def test_without_a_hidden_factor_the_pool_and_the_sources_are_measured() -> None:
    p = make_problem(n=300, sources=1)
    p = Problem(p.X, p.y, np.tile(["a", "b"], 150))  # random halves of one population
    model = LogisticRegression().fit(p.X, p.y)
    found = audit_groups(model, *p.data)
    assert [each.name for each in found.mixtures] == ["pooled sources"]
    assert [each.name for each in found.sources] == ["a", "b"]
    assert found.accuracy == pytest.approx(model.score(p.X, p.y))
    assert found.summary().startswith("No hidden factor was found")
    with pytest.warns(UserWarning, match="one domain, so no hidden groups can be told apart"):
        alone = audit_groups(model, p.X, p.y, np.zeros(300))
    assert alone.accuracy == pytest.approx(found.accuracy)


def test_what_cannot_be_audited(problem: Problem) -> None:
    with refused("prior_shift is -1"):
        audit_groups(np.full((600, 2), 0.5), *problem.data, prior_shift=-1.0)
    with refused("have shape"):
        audit_groups(np.full((3, 2), 0.5), *problem.data)
