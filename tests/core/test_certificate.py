from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft.core.certificate import Certificate, _lipschitz
from regraft.estimators.cro import CROClassifier
from tests.helpers.problems import Problem, normal, with_constant


@pytest.fixture(scope="module")
def model(three_sources: Problem) -> CROClassifier:
    return CROClassifier("hull", radius=4.0).fit(*three_sources.data)


@pytest.fixture(scope="module")
def certificate(model: CROClassifier) -> Certificate:
    return model.certificate_


@pytest.mark.parametrize("radius", [1.0, 16.0])
@pytest.mark.parametrize("ridge", [None, 1e-6])
def test_brackets_the_minimax_regret(
    three_sources: Problem, radius: float, ridge: float | None
) -> None:
    data = three_sources.data
    c = (
        CROClassifier("hull", radius=radius, objective="regret", ridge=ridge)
        .fit(*data)
        .certificate_
    )
    assert c.converged
    assert c.value - c.gap <= c.worst_case + c.ridge_term + 1e-9
    assert c.finite_sample is not None
    # If ERM's head is kept, its distance from the minimax value counts as well.
    assert c.share == 0 or c.finite_sample.optimization < 2e-2
    risk = CROClassifier("hull", radius=radius, ridge=ridge).fit(*data).certificate_
    assert 0 < c.worst_case < risk.worst_case


def test_a_source_that_is_harder_is_told_of(model: CROClassifier, three_sources: Problem) -> None:
    p, c = three_sources, model.certificate_
    loss = -np.log(model.predict_proba(p.X)[np.arange(len(p.y)), p.y])
    risks = [loss[p.domain == name].mean() for name in np.unique(p.domain)]
    assert c.source_risk == pytest.approx(max(risks))
    told = "One of the sources is harder than that domain"
    easier, harder = replace(c, source_risk=0.0), replace(c, source_risk=c.worst_case + 1)
    assert told not in " ".join(easier.summary()) and told in " ".join(harder.summary())
    reasons = "it lies further away, or its labels are noisier than the shift tells."
    assert reasons in " ".join(harder.summary())
    assert told not in " ".join(replace(harder, objective="regret").summary())


def test_the_price_on_the_sources_is_that_of_the_rows(
    model: CROClassifier, three_sources: Problem
) -> None:
    p, c = three_sources, model.certificate_
    names = np.unique(p.domain)
    pooled = p.X @ model.pooled_head_[:, :-1].T + model.pooled_head_[:, -1]
    loss = np.log(np.exp(pooled).sum(axis=1)) - pooled[np.arange(len(p.y)), p.y]
    right = {"head": model.predict(p.X) == p.y, "pooled": pooled.argmax(axis=1) == p.y}
    means = {who: np.mean([hit[p.domain == s].mean() for s in names]) for who, hit in right.items()}
    assert c.source_rows == (300, 300, 300)
    assert c.source_accuracy == pytest.approx(means["head"])
    assert c.pooled_source_accuracy == pytest.approx(means["pooled"])
    assert c.pooled_source_risk == pytest.approx(max(loss[p.domain == s].mean() for s in names))
    # The domain that is worst for ERM is not worse for the head than its own worst one.
    assert c.pooled_worst_case_accuracy is not None
    assert c.pooled_worst_case_accuracy < c.worst_case_accuracy
    assert c.pooled_worst_case_accuracy < c.pooled_source_accuracy


def test_with_a_ridge_the_price_is_against_the_head_of_that_ridge(problem: Problem) -> None:
    c = CROClassifier("hull", radius=0.0, ridge=1.0).fit(*problem.data).certificate_
    assert c.share == 0 and c.source_accuracy == c.pooled_source_accuracy
    assert c.source_risk == c.pooled_source_risk
    assert c.worst_case_accuracy == pytest.approx(c.pooled_worst_case_accuracy)


@pytest.mark.parametrize(
    ("here", "there", "told"),
    [
        (0.706, 0.855, "gives up 14.9 points of accuracy against ERM (70.6% instead of 85.5%)"),
        (0.7064, 0.8546, "gives up 14.9 points of accuracy against ERM (70.6% instead of 85.5%)"),
        (0.8551, 0.8549, "gives up nothing against ERM (85.5%)"),
        (1.0, 0.999, "gains 0.1 points of accuracy against ERM (100.0% instead of 99.9%)"),
    ],
)
def test_the_price_is_told_in_a_sentence(
    certificate: Certificate, here: float, there: float, told: str
) -> None:
    priced = replace(certificate, source_accuracy=here, pooled_source_accuracy=there)
    assert priced.summary()[0].endswith(f" On the sources it {told}, rows fitted on.")
    unknown = replace(certificate, source_accuracy=None)
    assert "On the sources" not in unknown.summary()[0] and len(unknown.summary()) == 3


def test_certificates_from_before_the_price_are_read(certificate: Certificate) -> None:
    pooled = ("pooled_source_accuracy", "pooled_source_risk", "pooled_worst_case_accuracy")
    new = ("source_rows", "source_accuracy", *pooled)
    old = {key: value for key, value in certificate.to_dict().items() if key not in new}
    read = Certificate.from_dict(json.loads(json.dumps(old)))
    assert read == replace(certificate, **dict.fromkeys(new))


@pytest.mark.parametrize(
    ("share", "told"),
    [(0.0, "The head is ERM's."), (0.375, "goes 38% of the way from ERM's"), (1.0, "")],
)
def test_certificates_from_before_the_guard_are_read(
    certificate: Certificate, share: float, told: str
) -> None:
    old = {**certificate.to_dict(), "share": share, "standard_error": 0.1}
    for key in ("advantage", "advantage_error"):
        del old[key]
    read = Certificate.from_dict(json.loads(json.dumps(old)))
    assert read == replace(certificate, share=share, advantage=None, advantage_error=None)
    assert told in read.summary()[1] and ("The head " in read.summary()[1]) == bool(told)


def test_the_choice_of_the_head_is_told(certificate: Certificate) -> None:
    kept = replace(certificate, advantage=0.25, advantage_error=0.015)
    measured = "better than ERM's by 0.250 nats with a standard error of 0.015"
    assert (
        f"The head is the game's: the game's worst case on rows held out is {measured}."
        in (kept.summary()[1])
    )
    erm = replace(kept, share=0.0, advantage_error=0.2)
    assert "The head is ERM's" in erm.summary()[1]
    assert "standard error of 0.200, not more than two." in erm.summary()[1]


def test_brackets_the_minimax_value(certificate: Certificate) -> None:
    c = certificate
    assert 0 <= c.gap <= 1e-3
    assert c.value - c.gap <= c.worst_case + c.ridge_term + 1e-9
    assert c.worst_case <= c.value - c.ridge_term + 1e-2
    assert c.share == 1
    assert c.advantage is not None and c.advantage_error is not None
    assert c.advantage > 2 * c.advantage_error > 0
    assert c.worst_case < c.pooled_worst_case
    assert 0 < c.worst_case_accuracy < 1


def test_terms_follow_from_each_other(certificate: Certificate) -> None:
    c = certificate
    assert c.dimension == 2
    assert sum(c.worst_target.values()) == pytest.approx(1)
    assert c.fit_residual < 1e-8
    assert c.biorthogonality_residual < 1e-8
    assert c.closure_residual > 0
    assert c.robustness_slack == pytest.approx(c.lipschitz / c.floor * c.closure_residual)
    assert c.softmax_slack <= c.robustness_slack
    terms = c.finite_sample
    assert terms is not None
    assert terms.rows == 300
    assert terms.metric_entropy == pytest.approx(2 * math.log1p(2 * 4.0 / 0.01))
    statistical = math.sqrt((terms.metric_entropy + math.log(20)) / 300)
    assert terms.statistical == pytest.approx(statistical)
    assert terms.optimization >= c.gap
    for r in c.rounds:
        assert 1 <= r.sample_size <= 900


@given(st.integers(0, 200))
def test_slopes_bound_probabilities_and_losses(seed: int) -> None:
    """Both constants of the robustness slack are true Lipschitz constants."""
    head, (w, step) = 3 * normal(seed, 4, 6), normal(seed + 1, 2, 50, 5)
    probability_slope, loss_slope = _lipschitz(head)
    there = w + 0.1 * step
    log_p, log_q = (torch.log_softmax(with_constant(v) @ head.T, dim=1) for v in (w, there))
    distance = (there - w).norm(dim=1)
    assert bool(((log_p.exp() - log_q.exp()).norm(dim=1) <= probability_slope * distance).all())
    assert bool(((log_p - log_q).abs() <= loss_slope * distance[:, None]).all())


def test_numbers_are_plain_and_survive_json(certificate: Certificate) -> None:
    def walk(value: object) -> None:
        assert not isinstance(value, np.generic | torch.Tensor)
        if isinstance(value, dict | list | tuple):
            for inner in value.values() if isinstance(value, dict) else value:
                walk(inner)

    walk(certificate.to_dict())
    assert Certificate.from_dict(json.loads(certificate.to_json())) == certificate
