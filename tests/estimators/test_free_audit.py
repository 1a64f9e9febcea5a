"""One attack of the free adversary on a fixed head."""

import json
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from regraft import ERMClassifier, FreeAudit, audit_free
from tests.helpers.errors import refused
from tests.helpers.problems import make_problem


def _head_and_new_rows() -> tuple[Any, ...]:
    problem = make_problem(n=240)
    new = problem.take(slice(1, None, 2))
    return ERMClassifier().fit(*problem.take(slice(0, None, 2)).data), *new.data


@pytest.fixture(scope="module")
def found() -> FreeAudit:
    return audit_free(*_head_and_new_rows())


def test_sources_are_measured_as_they_are(found: FreeAudit) -> None:
    head, X, y, domain = _head_and_new_rows()
    right = head.predict(X) == y
    expected = [right[domain == name].mean() for name in np.unique(domain)]
    assert [each.accuracy for each in found.sources] == pytest.approx(expected)
    assert found.source_accuracy == pytest.approx(np.mean(expected))


def test_the_attack_is_worse_than_the_sources_mean(found: FreeAudit) -> None:
    mean = np.mean([each.risk for each in found.sources])
    assert found.target.risk_bound >= found.target.risk > mean
    assert found.target.accuracy_bound <= found.target.accuracy


def test_it_survives_json_and_speaks(found: FreeAudit) -> None:
    assert FreeAudit.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert "there may be a worse one" in found.summary()


def test_what_is_no_linear_head_is_refused() -> None:
    problem = make_problem(n=60)
    with refused("the free adversary needs a linear head to attack"):
        audit_free(LogisticRegression().fit(problem.X, problem.y), *problem.data)  # type: ignore[arg-type]
    with refused("pass rows of all of its classes and no others"):
        audit_free(ERMClassifier().fit(*problem.data), problem.X, problem.y + 1, problem.domain)
