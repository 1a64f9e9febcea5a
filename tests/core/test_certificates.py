"""Certificates of every family come back from JSON, with ERM's evidence beside the head's."""

import json
from dataclasses import replace

import numpy as np
import pytest

from regraft import CROClassifier, ERMClassifier, GroupCertificate, HeadCertificate
from regraft.core.certificates import certificate_from_dict
from tests.helpers.problems import Problem


@pytest.mark.parametrize(
    ("family", "kind"), [("latent", GroupCertificate), ("hull", HeadCertificate)]
)
def test_the_family_names_the_kind(problem: Problem, family: str, kind: type) -> None:
    certificate = CROClassifier(family).fit(*problem.data).certificate_  # type: ignore[arg-type]
    again = certificate_from_dict(json.loads(certificate.to_json()))
    assert type(again) is kind and again == certificate
    with pytest.raises(KeyError):
        certificate_from_dict({})


@pytest.mark.parametrize("settings", [{}, {"class_groups": True}, {"prior_shift": 0.5}])
def test_evidence_of_erm_stands_beside_that_of_the_head(
    problem: Problem, settings: dict[str, float]
) -> None:
    c = CROClassifier(**settings).fit(*problem.data).certificate_
    assert isinstance(c, GroupCertificate) and c.n_groups == 2
    for ours, theirs in ((c.targets, c.pooled_targets), (c.sources, c.pooled_sources)):
        assert [each.name for each in ours] == [each.name for each in theirs]
    assert (c.pooled_targets == c.targets) == bool(c.reason)
    bounds = [each.accuracy_bound for each in c.pooled_targets]
    measured = [each.accuracy for each in c.pooled_sources]
    assert c.pooled_accuracy_bound == min(bounds)
    assert c.pooled_source_accuracy == pytest.approx(np.mean(measured))


def test_a_head_that_is_erms_has_erms_evidence(problem: Problem) -> None:
    half = np.where(np.arange(len(problem.y)) % 2, "a", "b")
    model = CROClassifier().fit(problem.X, problem.y, half)
    c = model.certificate_
    assert isinstance(c, GroupCertificate) and c.reason and c.rounds == ()
    assert (c.targets, c.sources) == (c.pooled_targets, c.pooled_sources)
    erm = ERMClassifier().fit(problem.X, problem.y, half)
    np.testing.assert_allclose(model.predict_proba(problem.X), erm.predict_proba(problem.X))


def test_the_bound_has_one_name_and_the_worst_source_its_own(problem: Problem) -> None:
    c = CROClassifier().fit(*problem.data).certificate_
    assert isinstance(c, GroupCertificate)
    *others, last = c.sources
    low = replace(c, sources=(*others, replace(last, accuracy=0.01)))
    document = json.loads(low.to_json())
    bound = min(each.accuracy_bound for each in c.targets)
    assert document["accuracy_bound"] == low.accuracy_bound == c.accuracy_bound == bound
    assert document["worst_source"]["name"] == last.name
    assert document["worst_source"]["accuracy"] == 0.01
    assert not {"accuracy", "risk", "pooled_accuracy", "pooled_risk"} & document.keys()
    assert f"In the source {last.name}, 1.0% was measured, less than that" in low.claim()
    assert "no such domain" in low.claim() and "no such domain" not in c.claim()
    chance = replace(last, accuracy=bound - 0.001, rows=50.0)
    claim = replace(c, sources=(*others, chance)).claim()
    assert "less than that, which may be chance (95 % interval" in claim
    assert "no such domain" not in claim


def test_certificates_of_older_versions_have_the_bounds_of_their_evidence(problem: Problem) -> None:
    c = CROClassifier().fit(*problem.data).certificate_
    document = json.loads(c.to_json())
    for name in ("worst_source", "risk_bound", "accuracy_bound"):
        del document[name]
    for name in ("pooled_risk_bound", "pooled_accuracy_bound"):
        del document[name]
    old = {"risk": 9.0, "accuracy": 0.01, "pooled_risk": 9.0, "pooled_accuracy": 0.01}
    assert certificate_from_dict(document | old) == c
