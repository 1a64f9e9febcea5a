"""Certificates of every family come back from JSON, with ERM's evidence beside the head's."""

import json

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
    assert c.pooled_accuracy == min(*bounds, *measured)
    assert c.pooled_source_accuracy == pytest.approx(np.mean(measured))


def test_a_head_that_is_erms_has_erms_evidence(problem: Problem) -> None:
    half = np.where(np.arange(len(problem.y)) % 2, "a", "b")
    model = CROClassifier().fit(problem.X, problem.y, half)
    c = model.certificate_
    assert isinstance(c, GroupCertificate) and c.reason and c.rounds == ()
    assert (c.targets, c.sources) == (c.pooled_targets, c.pooled_sources)
    erm = ERMClassifier().fit(problem.X, problem.y, half)
    np.testing.assert_allclose(model.predict_proba(problem.X), erm.predict_proba(problem.X))
