"""Intervals of fitted models hold the known conditionals of every domain."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import softmax

from regraft import CROClassifier, Interval, load, load_demo, make_confounded_domains, save
from regraft.data.examples import ConfoundedDomains, DemoBank
from tests.helpers.problems import Problem, make_problem

LABEL_NOISE = 0.25
STRENGTHS = (0.9, 0.8, 0.1)  # of the two sources and of the unseen domain


def _truth(data: ConfoundedDomains, X: NDArray[Any], strength: float) -> NDArray[Any]:
    """P(y | x) (n, 2) where the confounder equals the label at this rate."""
    cause = softmax(X @ data.cause_directions.T, axis=1)
    confounder = softmax(X @ data.confounder_directions.T, axis=1)

    def blurred(p: NDArray[Any], keep: float) -> NDArray[Any]:
        return p * keep + (1 - p) * (1 - keep)

    joint = blurred(cause, 1 - LABEL_NOISE) * blurred(confounder, strength)
    return joint / joint.sum(axis=1, keepdims=True)


def _share_outside(interval: Interval, p: NDArray[Any], slack: float) -> float:
    outside = (p < interval.lower - slack) | (p > interval.upper + slack)
    return float(outside.any(axis=1).mean())


@pytest.fixture(scope="module")
def confounded() -> ConfoundedDomains:
    return make_confounded_domains(3000, random_state=3)


@pytest.mark.parametrize(
    "settings",
    [{}, {"prior_shift": 5.0}, {"class_groups": True}, {"family": "hull", "radius": 8.0}],
    ids=str,
)
def test_the_true_conditional_of_every_domain_is_inside(
    confounded: ConfoundedDomains, settings: dict[str, Any]
) -> None:
    data = confounded
    model = CROClassifier(**settings).fit(data.X, data.y, data.sample_domain)
    interval = model.predict_interval(data.X_target)
    for strength in STRENGTHS:
        truth = _truth(data, data.X_target, strength)
        assert _share_outside(interval, truth, slack=0.02) <= 0.02


def test_a_small_shift_holds_the_sources_and_not_the_far_domain(
    confounded: ConfoundedDomains,
) -> None:
    data = confounded
    model = CROClassifier(prior_shift=1.0).fit(data.X, data.y, data.sample_domain)
    interval = model.predict_interval(data.X_target)
    # The pooled head is linear and the truth is not, so it is off by some hundredths.
    near, middle, far = (
        _share_outside(interval, _truth(data, data.X_target, strength), slack=0.1)
        for strength in STRENGTHS
    )
    assert max(near, middle) <= 0.05 and far >= 0.9
    assert 0.2 < interval.decided.mean() < 0.9


def _cells(bank: DemoBank) -> dict[str, tuple[NDArray[Any], ...]]:
    """Rows, labels and colours of each domain."""
    columns = bank.X, bank.y, bank.colour
    domains = {
        str(name): tuple(column[bank.sample_domain == name] for column in columns)
        for name in np.unique(bank.sample_domain)
    }
    return {**domains, bank.target: (bank.X_target, bank.y_target, bank.colour_target)}


def _largest_miss(
    model: CROClassifier, rows: tuple[NDArray[Any], ...], score: NDArray[Any]
) -> float:
    """By how many standard errors label rates miss the mean interval, at most over cells.

    The truth about single images is not known, but the mean of P(y | x) over a cell that depends
    on x alone is the rate of the label in it.
    """
    X, y, colour = rows
    interval = model.predict_interval(X)
    bins = np.digitize(score, np.quantile(score, [0.2, 0.4, 0.6, 0.8]))
    misses = []
    for cell in np.unique(2 * bins + colour):
        own = 2 * bins + colour == cell
        rate = y[own].mean()
        error = np.sqrt(max(rate * (1 - rate), 0.01) / own.sum())
        ends = interval.lower[own, 1].mean(), interval.upper[own, 1].mean()
        misses.append(max(ends[0] - rate, rate - ends[1]) / error)
    return float(max(misses))


def test_the_demo_is_inside_in_every_domain() -> None:
    bank = load_demo()
    data = bank.X[::3], bank.y[::3], bank.sample_domain[::3]
    # In the unseen domain, the log-odds of "colour agrees with label" are lower by 3.9 nats.
    wide, narrow = (CROClassifier(prior_shift=b).fit(*data) for b in (4.5, 1.0))
    misses = {
        (b, name): _largest_miss(model, rows, wide.decision_function(rows[0]))
        for b, model in ((4.5, wide), (1.0, narrow))
        for name, rows in _cells(bank).items()
    }
    for domain in ("+90%", "+80%"):
        assert misses[4.5, domain] < 3 and misses[1.0, domain] < 3
    assert misses[4.5, "-90%"] < 3 < misses[1.0, "-90%"]


def test_a_shift_of_zero_is_a_point_inside_the_others(problem: Problem) -> None:
    point, *wider = (
        CROClassifier(prior_shift=shift).fit(*problem.data).predict_interval(problem.X)
        for shift in (0.0, 2.0, None)
    )
    np.testing.assert_allclose(point.upper, point.lower)
    for interval in wider:
        assert _share_outside(interval, point.lower, slack=1e-9) == 0


def test_without_a_factor_the_interval_is_the_answer_of_erm(problem: Problem) -> None:
    shuffled = np.random.default_rng(0).permutation(problem.domain)
    model = CROClassifier().fit(problem.X, problem.y, shuffled)
    assert model.certificate_.n_groups == 1  # type: ignore[union-attr]
    interval = model.predict_interval(problem.X)
    np.testing.assert_allclose(interval.lower, model.predict_proba(problem.X))
    np.testing.assert_allclose(interval.upper, model.predict_proba(problem.X))
    assert interval.decided.all()


@pytest.mark.parametrize("classes, sources", [(2, 2), (3, 3), (4, 5)])
def test_heads_of_the_sources_are_inside_a_ball_that_holds_them(classes: int, sources: int) -> None:
    problem = make_problem(seed=4, n=120, classes=classes, sources=sources)
    model = CROClassifier("hull", radius=3.0).fit(*problem.data)
    coordinates = np.linalg.pinv(model.hull_mixing_)
    assert np.linalg.norm(coordinates, axis=1).max() < 3.0
    interval = model.predict_interval(problem.X[::20])
    heads = model.hull_heads_
    for head in heads:
        p = softmax(problem.X[::20] @ head[:, :-1].T + head[:, -1], axis=1)
        assert _share_outside(interval, p, slack=1e-9) == 0


@pytest.mark.parametrize("family", ["latent", "hull"])
def test_a_loaded_model_has_the_same_interval(
    tmp_path: Path, problem: Problem, family: Any
) -> None:
    model = CROClassifier(family).fit(*problem.data)
    save(model, tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert isinstance(loaded, CROClassifier)
    before, after = (head.predict_interval(problem.X) for head in (model, loaded))
    for name in ("lower", "upper", "decided", "classes"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))


def test_single_precision_rows_are_taken(problem: Problem) -> None:
    model = CROClassifier().fit(*problem.data)
    single = model.predict_interval(problem.X.astype(np.float32))
    np.testing.assert_allclose(single.lower, model.predict_interval(problem.X).lower, atol=1e-5)


def test_with_few_rows_and_many_features_it_is_not_overconfident() -> None:
    n, fitted = 1000, 200
    data = make_confounded_domains(n, strengths=(0.9, 0.6), n_features=100, random_state=4)
    train = np.tile(np.arange(n) < fitted, 2)
    model = CROClassifier(prior_shift=0.0)  # one domain, the pooled sources
    model.fit(data.X[train], data.y[train], data.sample_domain[train])
    p = model.predict_interval(data.X[~train]).lower
    accuracy = (p.argmax(axis=1) == data.y[~train]).mean()
    assert abs(p.max(axis=1).mean() - accuracy) < 0.06
