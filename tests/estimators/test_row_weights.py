"""Weights of rows and classes, with scikit-learn's meaning."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import cross_validate

from regraft import CROClassifier, ERMClassifier, IRMClassifier, VRExClassifier, load, save
from regraft.core.domain_scores import DomainRegression, arrange_rows, indicators
from regraft.core.domains import WEIGHTED_NOTE, equal_domain_weights
from regraft.core.group_mixture import bin_scores
from regraft.core.newton import minimax_newton
from regraft.core.whitening import fit_whitening
from regraft.estimators.group_search import EIILClassifier, JTTClassifier, XRMClassifier
from tests.helpers.errors import refused
from tests.helpers.problems import Problem

MODELS = [
    CROClassifier(),
    CROClassifier("hull"),
    ERMClassifier(),
    VRExClassifier(),
    IRMClassifier(),
    JTTClassifier(),
    EIILClassifier(),
    XRMClassifier(),
]


def fit(model: Any, p: Problem, weight: Any = None, **settings: Any) -> np.ndarray:
    model = sklearn.clone(model).set_params(**settings)
    probabilities: np.ndarray = model.fit(*p.data, sample_weight=weight).predict_proba(p.X)
    return probabilities


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_ones_change_no_bit_and_scale_changes_nothing(problem: Problem, model: Any) -> None:
    plain = fit(model, problem)
    assert np.array_equal(fit(model, problem, np.ones(len(problem.y))), plain)
    assert np.array_equal(fit(model, problem, 0.3), plain)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(problem.y))
    weighted = fit(model, problem, weight)
    assert not np.allclose(weighted, plain, atol=1e-6)
    assert np.array_equal(fit(model, problem, 4 * weight), weighted)


def test_rows_of_weight_zero_are_left_out(problem: Problem) -> None:
    weight = (np.arange(len(problem.y)) % 5 > 0).astype(float)
    kept = problem.take(weight > 0)
    for model in (CROClassifier(), ERMClassifier()):
        expected = model.fit(*kept.data).predict_proba(problem.X)
        assert np.array_equal(fit(model, problem, weight), expected)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=24, max_size=24), st.integers(0, 1000))
def test_whole_weights_are_repeated_rows_in_sums(counts: list[int], seed: int) -> None:
    """Whatever is a sum over rows: weights, moments, heads of one ridge, counts of scores."""
    rng = np.random.default_rng(seed)
    X = torch.from_numpy(rng.normal(size=(24, 3)))
    y, s = torch.arange(24) % 2, torch.arange(24) // 12
    times = torch.tensor(counts)
    weight = equal_domain_weights(s, 2, times.double())
    again = torch.repeat_interleave(torch.arange(24), times)
    equal = equal_domain_weights(s[again], 2)
    one, other = fit_whitening(X, weight), fit_whitening(X[again], equal)
    torch.testing.assert_close(one.mean, other.mean)
    torch.testing.assert_close(one.eigenvalues, other.eigenvalues)
    start = torch.zeros(2, 4, dtype=torch.float64)
    Z = torch.cat([X, torch.ones_like(X[:, :1])], dim=1)
    heads = [
        minimax_newton(z, label, w.unsqueeze(0), ridge=0.01, start=start, tolerance=1e-12).head
        for z, label, w in ((Z, y, weight), (Z[again], y[again], equal))
    ]
    torch.testing.assert_close(*heads, atol=1e-6, rtol=0)
    rows, means = arrange_rows(X, y, s, 2, 2, times.double())
    more, more_means = arrange_rows(X[again], y[again], s[again], 2, 2)
    torch.testing.assert_close(means, more_means)
    grams = [DomainRegression(each).gram.sum(dim=1) for each in (rows, more)]
    torch.testing.assert_close(*grams)
    cross = [each.products(indicators(each, each.s)).sum(dim=1) for each in (rows, more)]
    torch.testing.assert_close(*cross)
    binned = bin_scores(X[:, 0], y, s, 2, 2, times.double())
    repeated = bin_scores(X[again, 0], y[again], s[again], 2, 2)
    torch.testing.assert_close(binned.count, repeated.count)
    torch.testing.assert_close(binned.center, repeated.center)


def test_class_weights_multiply_those_of_the_rows(problem: Problem) -> None:
    weight = np.random.default_rng(1).uniform(0.5, 2, len(problem.y))
    by_hand = weight * np.where(problem.y == 1, 3.0, 1.0)
    for model in (CROClassifier(), ERMClassifier()):
        expected = fit(model, problem, by_hand)
        assert np.array_equal(fit(model, problem, weight, class_weight={1: 3.0}), expected)
    sums = np.bincount(problem.y, weights=weight)
    balanced = weight * (weight.sum() / (2 * sums))[problem.y]
    found = fit(ERMClassifier(), problem, weight, class_weight="balanced")
    np.testing.assert_allclose(found, fit(ERMClassifier(), problem, balanced), atol=1e-9)


@pytest.mark.parametrize("family", ["latent", "hull"])
def test_the_certificate_counts_effective_rows(problem: Problem, family: Any) -> None:
    weight = np.random.default_rng(2).exponential(size=len(problem.y))
    certificate = CROClassifier(family).fit(*problem.data, sample_weight=weight).certificate_
    plain = CROClassifier(family).fit(*problem.data).certificate_
    assert certificate.notes == (WEIGHTED_NOTE,) and WEIGHTED_NOTE in certificate.summary()
    assert plain.notes == ()
    for each, same in zip(certificate.sources, plain.sources, strict=True):
        w = weight[problem.domain == each.name]
        assert each.rows == pytest.approx(w.sum() ** 2 / (w**2).sum())
        assert each.rows < same.rows
        assert each.risk_bound > each.risk


def test_weighted_risks_are_covered_on_fresh_rows(problem: Problem) -> None:
    """Weights of classes: the certificate bounds the risk in which class 1 counts four times."""
    rng = np.random.default_rng(3)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        s, y = rng.integers(0, 2, n), (rng.random(n) < 0.4).astype(int)
        X = rng.normal(size=(n, 3))
        X[:, 0] += y
        X[:, 1] += (2 * s - 1) * y
        return X, y, s

    for _ in range(4):
        model = CROClassifier(class_weight={1: 4.0}).fit(*draw(500))
        X, y, s = draw(20_000)
        loss = -model.predict_log_proba(X)[np.arange(len(y)), y]
        weight = np.where(y == 1, 4.0, 1.0)
        risks = [np.average(loss[s == k], weights=weight[s == k]) for k in range(2)]
        assert max(risks) <= model.certificate_.risk_bound


def test_weights_are_routed(problem: Problem) -> None:
    weight = np.ones(len(problem.y))
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        scores = cross_validate(
            ERMClassifier(),
            problem.X,
            problem.y,
            params={"sample_domain": problem.domain, "sample_weight": weight},
        )
    assert np.isfinite(scores["test_score"]).all()


def test_settings_with_weights_are_saved(problem: Problem, tmp_path: Path) -> None:
    model = CROClassifier(class_weight={0: 1.0, 1: 2.5}).fit(*problem.data)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.get_params() == model.get_params()
    assert np.array_equal(again.predict_proba(problem.X), model.predict_proba(problem.X))
    assert again.certificate_ == model.certificate_


@pytest.mark.parametrize(
    ("weight", "class_weight", "sentence"),
    [
        ([-1.0], None, "negative, NaN or infinite"),
        ([0.0], None, "zero in every row"),
        ([1.0, 1.0], None, "one weight for each of"),
        ([1.0], "fair", 'pass None, "balanced"'),
        ([1.0], {0: 0.0}, "class_weight of class 0 is 0.0"),
        ([1.0], {7: 1.0}, "names the class 7, of which there are no rows"),
    ],
)
def test_wrong_weights(problem: Problem, weight: Any, class_weight: Any, sentence: str) -> None:
    given = weight if len(weight) > 1 else np.repeat(weight, len(problem.y))
    with refused(sentence):
        ERMClassifier(class_weight=class_weight).fit(*problem.data, sample_weight=given)
