"""Baselines minimize what they say: checked against brute force and independent objectives."""

import warnings
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from regraft.core.domains import check_domains
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.data.examples import ConfoundedDomains, make_confounded_domains
from regraft.estimators import baselines
from regraft.estimators.baselines import (
    ERMClassifier,
    GroupDROClassifier,
    IRMClassifier,
    VRExClassifier,
)
from regraft.estimators.linear import LinearHead
from tests.helpers.scikit_learn_checks import expected_failures

Matrix = NDArray[np.float64]
# On one feature, where whitening shrinks nothing, this ridge changes no risk that a test resolves.
TINY = 1e-9
MULTI_DOMAIN = (GroupDROClassifier, VRExClassifier, IRMClassifier)


DATA = make_confounded_domains(400, n_classes=3, strengths=(0.9, 0.6), n_features=8, random_state=0)


@pytest.fixture(scope="module")
def data() -> ConfoundedDomains:
    """Three classes, two sources that disagree about the confounder."""
    return DATA


@pytest.fixture(scope="module")
def erm(data: ConfoundedDomains) -> LinearHead:
    """The tuned pooled head on ``data``."""
    return fit(ERMClassifier(), data)


def fit(model: LinearHead, data: ConfoundedDomains) -> LinearHead:
    """Fit on the sources."""
    return model.fit(data.X, data.y, data.sample_domain)


def head_of(model: LinearHead) -> Matrix:
    """(C, d + 1) weights on ``[x, 1]``."""
    return model._head


def source_risks(data: ConfoundedDomains, head: Matrix, scale: float = 1.0) -> Matrix:
    """(K,) cross-entropy of each source, the logits multiplied by ``scale``."""
    logits = scale * (data.X @ head[:, :-1].T + head[:, -1])
    loss = -log_softmax(logits, axis=1)[np.arange(len(data.y)), data.y]
    return np.array([loss[data.sample_domain == s].mean() for s in np.unique(data.sample_domain)])


def scale_slopes(data: ConfoundedDomains, head: Matrix) -> Matrix:
    """(K,) derivative of each source's risk in the scale of the logits, by central differences."""
    step = 1e-4
    return (source_risks(data, head, 1 + step) - source_risks(data, head, 1 - step)) / (2 * step)


@cache
def sources() -> SourceHeads:
    return fit_source_heads(check_domains(DATA.X, DATA.y, DATA.sample_domain))


def ridge_term(head: Matrix) -> float:
    """The cross-validated ridge of a head on raw features."""
    whitening = sources().whitening
    coef = head[:, :-1] @ whitening.basis.numpy() * whitening.scale.numpy()
    intercept = head[:, -1:] + head[:, :-1] @ whitening.mean.numpy()[:, None]
    return float((sources().learner_ridge(None).numpy() * np.hstack([coef, intercept]) ** 2).sum())


def vrex_objective(data: ConfoundedDomains, head: Matrix, penalty: float) -> float:
    """V-REx by its definition, without ridge."""
    risks = source_risks(data, head)
    return float(risks.mean() + penalty * risks.var())


def irm_objective(data: ConfoundedDomains, head: Matrix, penalty: float) -> float:
    """IRMv1 by its definition, without ridge."""
    slopes = scale_slopes(data, head)
    return float(source_risks(data, head).mean() + penalty * (slopes**2).mean())


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [ERMClassifier(), GroupDROClassifier(), VRExClassifier(), IRMClassifier()],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_conventions(estimator: LinearHead, check: Any) -> None:
    """Every check scikit-learn has for classifiers."""
    check(estimator)


@pytest.fixture(scope="module")
def group_dro(data: ConfoundedDomains) -> Matrix:
    """The head with the smallest worst risk plus ridge."""
    return head_of(fit(GroupDROClassifier(), data))


def test_group_dro_lowers_the_worst_risk(
    data: ConfoundedDomains, erm: LinearHead, group_dro: Matrix
) -> None:
    """Below ERM's by more than rounding: the sources are not equally hard."""
    assert source_risks(data, group_dro).max() < source_risks(data, head_of(erm)).max() - 1e-3


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(-4, 0.5))
def test_group_dro_is_optimal(
    data: ConfoundedDomains, group_dro: Matrix, seed: int, log_size: float
) -> None:
    """No perturbation, small or large, has a smaller worst risk."""
    direction = np.random.default_rng(seed).standard_normal(group_dro.shape)
    other = group_dro + 10**log_size * direction / np.linalg.norm(direction)
    heads = group_dro, other
    here, there = (source_risks(data, head).max() + ridge_term(head) for head in heads)
    assert here <= there + 2e-6


def two_sources_on_a_line() -> ConfoundedDomains:
    """Two sources, of unequal size, whose best thresholds differ: both bind at the minimax head."""
    data = make_confounded_domains(200, random_state=0)
    second = data.sample_domain == "source 1"
    x = data.y + np.random.default_rng(0).standard_normal(len(data.y)) + 3.0 * second
    kept = ~second | (np.arange(len(x)) % 4 == 0)
    return replace(data, X=x[kept, None], y=data.y[kept], sample_domain=data.sample_domain[kept])


def test_group_dro_equals_brute_force() -> None:
    """On one feature and two sources: the best slope and threshold of a grid."""
    data = two_sources_on_a_line()
    head = head_of(fit(GroupDROClassifier(TINY), data))
    slope, intercept = head[1] - head[0]
    risks = source_risks(data, head)
    assert risks[0] == pytest.approx(risks[1], abs=1e-4)

    def worst(a: float, b: float) -> float:
        return float(source_risks(data, np.array([[0.0, 0.0], [a, b]])).max())

    a, b, width = 0.0, 0.0, 4.0
    for _ in range(12):
        grid = np.linspace(-width, width, 21)
        a, b = min(((a + i, b + j) for i in grid for j in grid), key=lambda ab: worst(*ab))
        width /= 2
    assert risks.max() == pytest.approx(worst(a, b), abs=1e-5)
    assert slope == pytest.approx(a, abs=0.02)
    assert intercept == pytest.approx(b, abs=0.02)


@pytest.mark.parametrize("model", [VRExClassifier(0.0), IRMClassifier(0.0)])
def test_no_penalty_is_erm(data: ConfoundedDomains, erm: LinearHead, model: LinearHead) -> None:
    """The pooled head is the minimum already."""
    assert np.allclose(head_of(fit(model, data)), head_of(erm), atol=1e-4)


def test_vrex_variance_falls_with_the_penalty(data: ConfoundedDomains) -> None:
    """Each tenfold penalty buys a smaller variance of risks, at a larger mean."""
    risks = [
        source_risks(data, head_of(fit(VRExClassifier(p), data))) for p in (0.0, 1.0, 10.0, 100.0)
    ]
    variances, means = [r.var() for r in risks], [r.mean() for r in risks]
    assert all(b < 0.9 * a for a, b in pairwise(variances))
    assert all(b > a for a, b in pairwise(means))


def test_irm_penalty_falls(data: ConfoundedDomains, erm: LinearHead) -> None:
    """The sources gain less by rescaling the logits than under ERM, the less the larger."""
    heads = [head_of(erm), *(head_of(fit(IRMClassifier(p), data)) for p in (10.0, 1000.0))]
    values = [(scale_slopes(data, head) ** 2).mean() for head in heads]
    assert values[1] < 0.5 * values[0]
    assert values[2] < 0.1 * values[1]


@pytest.mark.parametrize(
    ("model", "objective"),
    [(VRExClassifier(10.0), vrex_objective), (IRMClassifier(100.0), irm_objective)],
)
def test_penalized_heads_are_local_minima(
    data: ConfoundedDomains, erm: LinearHead, model: Any, objective: Any
) -> None:
    """Of the objective as the papers write it plus ridge; and lower than at the ERM head."""
    head, penalty = head_of(fit(model, data)), model.penalty
    assert objective(data, head, penalty) < objective(data, head_of(erm), penalty) - 1e-3
    value = objective(data, head, penalty) + ridge_term(head)
    random = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 1e-1):
        for direction in random.standard_normal((20, *head.shape)):
            other = head + size * direction / np.linalg.norm(direction)
            assert objective(data, other, penalty) + ridge_term(other) > value - 1e-7


@pytest.mark.parametrize("model_class", MULTI_DOMAIN)
def test_ridge_shrinks(data: ConfoundedDomains, model_class: Any) -> None:
    """A larger ridge gives a shorter head."""
    lengths = [np.linalg.norm(fit(model_class(ridge=r), data).coef_) for r in (1e-4, 1e-2, 1.0)]
    assert lengths[0] > lengths[1] > lengths[2] > 0


@pytest.mark.parametrize("model_class", [ERMClassifier, *MULTI_DOMAIN])
def test_row_order_does_not_matter(data: ConfoundedDomains, model_class: Any) -> None:
    """Shuffled rows give the same head."""
    order = np.random.default_rng(0).permutation(len(data.y))
    shuffled = model_class().fit(data.X[order], data.y[order], data.sample_domain[order])
    assert np.allclose(head_of(shuffled), head_of(fit(model_class(), data)), atol=1e-4)


@pytest.mark.parametrize("model_class", [ERMClassifier, *MULTI_DOMAIN])
def test_names_do_not_matter(data: ConfoundedDomains, model_class: Any) -> None:
    """String labels and integer domains, in the same order, give the same head and come back."""
    names = np.array(["ant", "bee", "cat"])
    domain = (data.sample_domain == "source 1").astype(int)
    named = model_class().fit(data.X, names[data.y], domain)
    plain = fit(model_class(), data)
    assert named.classes_.tolist() == names.tolist()
    assert named.domains_.tolist() == [0, 1]
    assert np.array_equal(named.coef_, plain.coef_)
    assert np.array_equal(named.predict(data.X_target), names[plain.predict(data.X_target)])


@pytest.mark.parametrize("model_class", MULTI_DOMAIN)
def test_one_domain_is_erm(data: ConfoundedDomains, model_class: Any) -> None:
    """With a warning; ERM itself has nothing to warn of."""
    with pytest.warns(UserWarning, match="one domain.*ERM head is returned"):
        model = model_class().fit(data.X, data.y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = ERMClassifier().fit(data.X, data.y)
    assert np.array_equal(model.coef_, expected.coef_)


def test_unsettled_descent_warns(data: ConfoundedDomains, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the iterations run out, the user is told and still has a head."""
    monkeypatch.setattr(baselines, "_MAX_ITERATIONS", 1)
    with pytest.warns(ConvergenceWarning, match="did not settle in 1 iterations"):
        model = fit(IRMClassifier(), data)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GroupDROClassifier(ridge=0.0), "ridge is 0.0: pass a number of 1e-10 or more"),
        (GroupDROClassifier(ridge=float("nan")), "ridge is nan: pass a number of 1e-10 or more"),
        (VRExClassifier(ridge=-1.0), "ridge is -1.0: pass a number of 1e-10 or more"),
        (VRExClassifier(penalty=-1.0), "penalty is -1.0: pass a finite number"),
        (IRMClassifier(ridge=float("inf")), "ridge is inf: pass a number of 1e-10 or more"),
        (IRMClassifier(penalty=float("inf")), "penalty is inf: pass a finite number"),
    ],
)
def test_bad_parameters(data: ConfoundedDomains, model: LinearHead, message: str) -> None:
    """One sentence says what is wrong and what to pass."""
    with pytest.raises(ValueError, match=rf"^{message}.*\.$"):
        fit(model, data)
