import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft.core.head_certificate import HeadCertificate, _longest_contrast
from regraft.core.hull import attack, attack_keeping_inputs, fit_hull, tilt_rows
from regraft.estimators.cro import CROClassifier
from tests.helpers.problems import Problem, normal, with_constant


@pytest.fixture(scope="module")
def model(three_sources: Problem) -> CROClassifier:
    return CROClassifier("hull", radius=4.0).fit(*three_sources.data)


@pytest.fixture(scope="module")
def certificate(model: CROClassifier) -> HeadCertificate:
    assert isinstance(model.certificate_, HeadCertificate)
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
    assert isinstance(c, HeadCertificate) and c.converged
    assert c.value - c.gap <= c.attack_value + c.ridge_term + 1e-9
    assert c.finite_sample is not None and c.regret is not None
    # If ERM's head is kept, its distance from the minimax value counts as well.
    assert c.reason or c.finite_sample.optimization < 2e-2
    assert 0 <= c.regret < c.risk_bound


def test_a_certified_regret_is_never_negative() -> None:
    """Even where the pooled head is better on unseen rows than the sources' own heads."""
    X, y, half = normal(0, 90, 12).numpy(), np.arange(90) % 2, np.arange(90) // 2 % 2
    c = CROClassifier("hull", objective="regret").fit(X, y, half).certificate_
    assert isinstance(c, HeadCertificate) and c.regret is not None and c.regret >= 0


def test_no_source_exceeds_the_certificate(certificate: HeadCertificate) -> None:
    c = certificate
    for evidence in (c.targets, c.sources):
        assert all(each.risk <= each.risk_bound <= c.risk_bound for each in evidence)
        assert all(each.accuracy >= each.accuracy_bound >= c.accuracy_bound for each in evidence)
    assert c.pooled_risk_bound >= max(each.risk_bound for each in c.pooled_sources)
    assert c.kept_risk == max(each.risk_bound for each in c.kept) > 0
    assert c.kept_accuracy == min(each.accuracy_bound for each in c.kept) < 1
    assert c.risk_bound < c.pooled_risk_bound


def test_everything_is_measured_on_rows_held_out(three_sources: Problem) -> None:
    """Labels that can only be remembered give no accuracy."""
    p, rng = three_sources, np.random.default_rng(0)
    X = np.hstack([p.X, rng.standard_normal((len(p.y), 400))])
    y = rng.integers(2, size=len(p.y))
    model = CROClassifier("hull").fit(X, y, p.domain)
    c = model.certificate_
    assert model.score(X, y) > c.source_accuracy + 0.05
    assert c.source_accuracy == pytest.approx(0.5, abs=0.06)
    assert c.accuracy_bound < 0.5


def test_terms_follow_from_each_other(certificate: HeadCertificate) -> None:
    c = certificate
    assert c.dimension == 2
    assert sum(c.worst_target.values()) == pytest.approx(1)
    assert c.fit_residual < 1e-8
    assert c.biorthogonality_residual < 1e-8
    assert c.softmax_slack == pytest.approx(c.lipschitz * c.closure_residual) and c.lipschitz > 0
    assert 0 <= c.gap <= 1e-3
    assert c.value - c.gap <= c.attack_value + c.ridge_term + 1e-9
    assert c.reason == ""
    assert c.advantage is not None and c.advantage_error is not None
    assert c.advantage > 2 * c.advantage_error > 0
    terms = c.finite_sample
    assert terms is not None
    assert terms.rows == max(c.targets, key=lambda each: each.risk_bound).rows < 900
    assert terms.metric_entropy == pytest.approx(2 * math.log1p(2 * 4.0 / 0.01))
    statistical = math.sqrt((terms.metric_entropy + math.log(20)) / terms.rows)
    assert terms.statistical == pytest.approx(statistical)
    assert terms.optimization >= c.gap
    for r in c.rounds:
        assert 1 <= r.sample_size <= 900


@given(st.integers(0, 200))
def test_the_longest_contrast_bounds_the_slope_of_losses(seed: int) -> None:
    head, (w, step) = 3 * normal(seed, 4, 6), normal(seed + 1, 2, 50, 5)
    there = w + 0.1 * step
    log_p, log_q = (torch.log_softmax(with_constant(v) @ head.T, dim=1) for v in (w, there))
    distance = (there - w).norm(dim=1)
    assert bool(((log_p - log_q).abs() <= _longest_contrast(head) * distance[:, None]).all())


def test_the_words_name_the_family_and_what_is_not_certified(certificate: HeadCertificate) -> None:
    claim, choice, limits = certificate.paragraphs()
    assert "made of the sources' rows by weights" in claim and "within 4 nats" in claim
    assert f"at most {certificate.risk_bound:.3f} nats" in claim
    assert f"at least {certificate.accuracy_bound:.1%}" in claim
    assert "lower than ERM's" in choice
    assert f"{certificate.kept_risk:.3f} nats" in limits and "inputs kept" in limits
    erm = replace(certificate, reason="it is as good")
    assert erm.paragraphs()[1] == "The head is ERM's: it is as good."


def test_numbers_are_plain_and_survive_json(certificate: HeadCertificate) -> None:
    def walk(value: object) -> None:
        assert not isinstance(value, np.generic | torch.Tensor)
        if isinstance(value, dict | list | tuple):
            for inner in value.values() if isinstance(value, dict) else value:
                walk(inner)

    walk(certificate.to_dict())
    assert HeadCertificate.from_dict(json.loads(certificate.to_json())) == certificate


def _exact_sources(rng: np.random.Generator, n_classes: int, n_sources: int) -> np.ndarray:
    """Heads (K, C, 5) of sources that are exactly logit-linear."""
    center, shift = rng.standard_normal((n_classes, 5)), rng.standard_normal((n_classes, 5))
    return center + 0.5 * rng.standard_normal((n_sources, 1, 1)) * shift


def _draw(rng: np.random.Generator, heads: np.ndarray, n: int) -> tuple[Any, Any, Any]:
    X = rng.standard_normal((len(heads), n, heads.shape[2] - 1))
    logits = np.einsum("skd,snd->snk", heads[..., :-1], X) + heads[:, None, :, -1]
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=2)
    domain = np.repeat(np.arange(len(heads)), n)
    return X.reshape(len(domain), -1), y.flatten(), domain


def test_bounds_cover_new_rows_of_the_true_hull() -> None:
    """Few classes and many, few sources and many: the worst risk of true targets, large samples."""
    misses, moved = {"risk": 0, "accuracy": 0, "kept_risk": 0, "kept_accuracy": 0}, 0.0
    shapes = [(2, 2), (2, 4), (3, 3), (5, 3), (4, 2), (2, 3), (3, 2), (5, 5)]
    for seed, (n_classes, n_sources) in enumerate(shapes):
        rng = np.random.default_rng(seed)
        heads = _exact_sources(rng, n_classes, n_sources)
        model = CROClassifier("hull").fit(*_draw(rng, heads, 250))
        c = model.certificate_
        assert isinstance(c, HeadCertificate) and c.radius is not None
        X, y, domain = _draw(rng, heads, 8000 // n_sources)
        Z, labels = with_constant(torch.from_numpy(X)), torch.from_numpy(y)
        weight = torch.full((len(y),), 1 / len(y), dtype=torch.float64)
        true = torch.from_numpy(heads)
        hull = fit_hull(true, Z, weight)
        rows = tilt_rows(hull, true, Z, labels, weight, torch.from_numpy(domain))
        log_p = torch.from_numpy(model.predict_proba(X)).log().T
        wrong = torch.ones_like(log_p).scatter_(0, log_p.argmax(dim=0, keepdim=True), 0.0)
        for name, loss, sign in (("risk", -log_p, 1), ("accuracy", wrong, -1)):
            own = loss.gather(0, labels[None]).squeeze(0)
            found = attack(rows, own, c.radius).value
            share = attack_keeping_inputs(rows, loss, c.radius)
            kept = float(weight @ (share * loss).sum(dim=0))
            bound, kept_bound = getattr(c, f"{name}_bound"), getattr(c, f"kept_{name}")
            misses[name] += found > (bound if sign > 0 else 1 - bound)
            misses[f"kept_{name}"] += kept > (kept_bound if sign > 0 else 1 - kept_bound)
        moved = max(moved, c.risk_bound - float(own.mean()))
    assert max(misses.values()) <= 1 and sum(misses.values()) <= 2
    assert moved > 0
