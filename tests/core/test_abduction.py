"""Abduction finds planted groups, and nothing where there is nothing."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import ortho_group
from sklearn.metrics import roc_auc_score

from regraft import abduct, make_confounded_domains
from regraft.core import domain_scores
from regraft.core.abduction import LEVEL, Groups, find_groups, rows_of_domains, rows_of_sources
from regraft.core.domain_scores import DomainRegression, arrange_rows, indicators, score_domains
from regraft.core.domains import check_domains
from regraft.core.heads import fit_source_heads
from regraft.data.examples import ConfoundedDomains


def _planted(seed: int = 0, **options: object) -> ConfoundedDomains:
    settings = {"n_samples": 600, "strengths": (0.9, 0.65), "confounder_signal": 4.0} | options
    return make_confounded_domains(random_state=seed, **settings)  # type: ignore[arg-type]


def _find(X, y, domain) -> Groups:
    return find_groups(rows_of_domains(check_domains(X, y, domain)))


@pytest.mark.parametrize("options", [{}, {"n_classes": 4}, {"strengths": (0.95, 0.8, 0.6)}])
def test_a_planted_factor_is_found(options: dict[str, object]) -> None:
    data = _planted(**options)
    found = abduct(data.X, data.y, data.sample_domain)
    assert found.n_groups == 2
    assert found.p_value <= LEVEL
    assert roc_auc_score(data.confounder == data.y, found.groups[:, 1]) > 0.97
    strengths = options.get("strengths", (0.9, 0.65))
    assert found.shares[:, 1].tolist() == pytest.approx(strengths, abs=0.06)
    assert 0 < found.gain < found.possible_gain + 3 * found.gain_error
    assert found.separation > 2
    assert found.warnings == ()
    assert "hidden factor was found" in found.summary()


def test_new_rows_are_told_as_well_as_old_ones() -> None:
    data = _planted()
    found = abduct(data.X, data.y, data.sample_domain)
    agrees = data.confounder_target == data.y_target
    posterior = found.posterior(data.X_target, data.y_target)
    assert np.allclose(posterior.sum(axis=1), 1)
    assert roc_auc_score(agrees, posterior[:, 1]) > 0.97
    with pytest.raises(ValueError, match="same classes"):
        found.posterior(data.X[:2], np.array([0, 7]))


def test_a_row_is_judged_by_the_model_that_has_not_seen_it() -> None:
    data = _planted()
    domains = check_domains(data.X, data.y, data.sample_domain)
    rows = rows_of_domains(domains)
    found = find_groups(rows)
    assert found.models is not None
    fold = arrange_rows(rows.T, rows.y, rows.s, 2, 2)[0].fold
    for f in range(5):
        one = type(found.models)(
            *(part[[f]] for part in vars(found.models).values())  # the model without fold f
        )
        own = fold == f
        expected = one.log_posterior(domains.X[own], domains.y[own]).exp()
        assert torch.allclose(found.posterior[own], expected, atol=1e-8)


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 100))
def test_order_names_rotation_and_scale_do_not_matter(seed: int) -> None:
    data = _planted(seed, n_samples=300)
    expected = abduct(data.X, data.y, data.sample_domain)
    order = np.random.default_rng(seed).permutation(len(data.y))
    shuffled = abduct(data.X[order], data.y[order], data.sample_domain[order])
    assert np.allclose(shuffled.groups, expected.groups[order], atol=1e-6)
    rotation = ortho_group.rvs(data.X.shape[1], random_state=seed)
    moved = abduct(100 * data.X @ rotation + 7, data.y, data.sample_domain)
    assert np.allclose(moved.groups, expected.groups, atol=1e-4)
    swapped = np.where(data.sample_domain == "source 0", "b", "a")
    renamed = abduct(data.X, data.y, swapped)
    assert np.allclose(renamed.groups[:, ::-1], expected.groups, atol=1e-4)
    assert renamed.contrast[0] >= 0 <= expected.contrast[0]


def test_rows_of_source_heads_give_the_same_groups() -> None:
    data = _planted(n_samples=300)
    domains = check_domains(data.X, data.y, data.sample_domain)
    sources = fit_source_heads(domains)
    again = find_groups(rows_of_sources(sources))
    expected = find_groups(rows_of_domains(domains))
    assert torch.allclose(again.posterior, expected.posterior[sources.order], atol=1e-6)


def test_random_halves_have_no_hidden_factor() -> None:
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((200, 10))
        y = (X[:, 0] + rng.standard_normal(200) > 0).astype(int)
        found = abduct(X, y, rng.integers(2, size=200))
        alarms += found.n_groups > 1
    assert alarms <= 4  # five percent of 20, with probability 0.997


def test_the_held_out_gain_is_that_of_a_ridge_regression_fitted_by_hand() -> None:
    data = _planted(n_samples=100)
    domains = check_domains(data.X, data.y, data.sample_domain)
    flat = rows_of_domains(domains)
    rows, _ = arrange_rows(flat.T, flat.y, flat.s, 2, 2)
    regression = DomainRegression(rows)
    z = indicators(rows, rows.s)
    ridge = regression.ridges[3]
    beta = next(regression.solve(rows.products(z), [ridge]))
    c, f = 1, 2
    train = (rows.y == c) & (rows.fold != f)
    T, p = rows.T[train], rows.T.shape[1]
    system = T.T @ T / len(T) + ridge * torch.eye(p, dtype=T.dtype)
    assert torch.allclose(beta[c, f], torch.linalg.solve(system, T.T @ z[train] / len(T)))
    pairs = regression.solve_pairs(rows.products(z), ridge)
    assert torch.allclose(pairs[:, f, f], beta[:, f])
    assert torch.equal(pairs[:, 1, 3], pairs[:, 3, 1])
    scores, contrast = score_domains(regression)
    assert contrast[0] * contrast[1] < 0  # two sources differ in one way only
    assert scores.nested.shape == (5, len(rows.y))


def test_one_source_and_equal_sources() -> None:
    data = _planted(n_samples=100)
    one = abduct(data.X, data.y, np.zeros(len(data.y)))
    assert one.n_groups == 1
    assert "one source" in one.warnings[0]
    assert (one.posterior(data.X_target, data.y_target) == 1).all()
    twice = np.concatenate([data.X, data.X])
    equal = abduct(twice, np.tile(data.y, 2), np.repeat([0, 1], len(data.y)))
    assert equal.n_groups == 1
    assert equal.p_value > LEVEL


def test_a_group_that_only_one_source_has_is_named() -> None:
    data = _planted(strengths=(1.0, 0.6))
    found = abduct(data.X, data.y, data.sample_domain)
    assert found.n_groups >= 2
    assert any("only source 1 has group 0" in words for words in found.warnings)


def _two_factors(gap: float, seed: int, n: int = 20_000) -> tuple[NDArray[np.generic], ...]:
    """Draw two sources that differ in one factor, and by ``gap`` in the share of another."""
    random = np.random.default_rng(seed)
    domain, y = np.repeat([0, 1], n // 2), random.integers(0, 2, n)
    first = random.random(n) < np.where(domain == 0, 0.8, 0.4)
    second = random.random(n) < np.where(domain == 0, 0.5 + gap, 0.5)
    noise = random.normal(size=(2, n)) / 10
    X = np.column_stack([5 * first + noise[0], 3 * second + noise[1], random.normal(size=n) + y])
    return X, y, domain


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_third_group_tells_more_than_a_trifle(seed: int) -> None:
    # With so many rows even the smaller gap may be beyond noise (3.3 standard errors in seed 1).
    assert _find(*_two_factors(0.06, seed)).n_groups == 2
    assert _find(*_two_factors(0.2, seed)).n_groups == 3


def test_hard_shapes() -> None:
    many = make_confounded_domains(
        120, n_classes=20, strengths=(0.9, 0.5), n_features=45, random_state=0
    )
    assert np.isfinite(abduct(many.X, many.y, many.sample_domain).groups).all()
    crowd = make_confounded_domains(60, strengths=[0.9] * 15 + [0.6] * 15, random_state=0)
    found = abduct(crowd.X, crowd.y, crowd.sample_domain)
    assert found.shares.shape[0] == 30
    assert np.isfinite(found.groups).all()
    wide = make_confounded_domains(40, strengths=(0.95, 0.5), n_features=200, random_state=0)
    with pytest.warns(UserWarning, match="more features"):
        assert np.isfinite(abduct(wide.X, wide.y, wide.sample_domain).groups).all()


def test_plain_data_has_no_rows() -> None:
    data = _planted(n_samples=200)
    document = abduct(data.X, data.y, data.sample_domain).to_dict()
    assert document["n_groups"] == 2
    assert document["domains"] == ["source 0", "source 1"]
    assert all(isinstance(value, int | float | list) for value in document.values())


def test_the_test_of_very_many_rows_takes_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain_scores, "_MAX_TEST_ROWS", 300)
    data = _planted()
    found = abduct(data.X, data.y, data.sample_domain)
    assert found.n_groups == 2
    assert found.p_value <= LEVEL


def test_many_sources_are_tested_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    y, s = np.arange(240) % 2, rng.permutation(np.arange(240) % 40)
    X = rng.normal(size=(240, 2)) + 0.2 * (s % 3)[:, None]
    flat = rows_of_domains(check_domains(X, y, s))
    rows, _ = arrange_rows(flat.T, flat.y, flat.s, 2, 40)
    cross = rows.products(indicators(rows, rows.s))
    torch.testing.assert_close(domain_scores.indicator_products(rows, rows.s), cross)
    regression = DomainRegression(rows)
    span = torch.linalg.qr(cross.reshape(-1, 40).T).Q
    assert span.shape[1] < 40
    torch.testing.assert_close(
        regression.largest_gains(cross @ span, span.shape[1]), regression.largest_gains(cross, 40)
    )
    few = domain_scores.permutation_test(regression)
    monkeypatch.setattr(domain_scores, "_MANY_SOURCES", 1)
    many = domain_scores.permutation_test(regression)
    assert abs(many.p_value - few.p_value) < 0.15  # other shifts of the same group
    assert many.noise_gain == pytest.approx(few.noise_gain, rel=0.5)


@pytest.mark.filterwarnings("ignore")
def test_few_rows_of_each_class_in_a_source_leave_the_gain_finite() -> None:
    rng = np.random.default_rng(0)
    y, s = np.arange(120) % 12, rng.permutation(np.arange(120) % 4)
    X = rng.normal(size=(120, 3)) + 3 * s[:, None]  # far apart, so that groups are looked for
    found = _find(X, y, s)
    assert np.isfinite([found.gain, found.gain_error, found.possible_gain]).all()
