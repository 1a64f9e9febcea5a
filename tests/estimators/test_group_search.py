"""Heads that look for groups: they find the rows that their definitions name, and use them so."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import Tensor

from regraft import (
    EIILClassifier,
    ERMClassifier,
    GroupDROClassifier,
    JTTClassifier,
    XRMClassifier,
    make_confounded_domains,
)
from regraft.core.cross_mistakes import find_cross_mistakes
from regraft.core.domains import check_domains
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.core.newton import log_probabilities, losses
from regraft.data.examples import ConfoundedDomains
from regraft.estimators.baselines import group_weights, minimax_over_groups
from regraft.estimators.group_search import find_mistakes, infer_environments, underfitted_head
from regraft.estimators.linear import LinearHead
from tests.helpers.scikit_learn_checks import expected_failures

PEERS = (JTTClassifier, EIILClassifier, XRMClassifier)


def draw(n_classes: int = 2, seed: int = 0) -> ConfoundedDomains:
    """Two sources with a strong confounder and few wrong labels."""
    return make_confounded_domains(
        400, n_classes=n_classes, n_features=8, label_noise=0.1, random_state=seed
    )


@pytest.fixture(scope="module")
def data() -> ConfoundedDomains:
    return draw()


@pytest.fixture(scope="module")
def sources(data: ConfoundedDomains) -> SourceHeads:
    return fit_source_heads(check_domains(data.X, data.y, data.sample_domain))


@pytest.fixture(scope="module")
def minority(data: ConfoundedDomains, sources: SourceHeads) -> Tensor:
    """Rows whose confounder is not that of their label, in the order of the source heads."""
    return torch.from_numpy(data.confounder != data.y)[sources.order]


def fit(model: LinearHead, data: ConfoundedDomains) -> LinearHead:
    return model.fit(data.X, data.y, data.sample_domain)


def precision_and_recall(found: Tensor, truth: Tensor) -> tuple[float, float]:
    return float(truth[found].double().mean()), float(found[truth].double().mean())


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [JTTClassifier(), EIILClassifier(), XRMClassifier()],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_conventions(estimator: LinearHead, check: Any) -> None:
    """Every check scikit-learn has for classifiers."""
    check(estimator)


def test_an_underfitted_head_follows_the_confounder(sources: SourceHeads, minority: Tensor) -> None:
    """Its mistakes are the minority; ERM's are fewer of these, and others."""
    found = find_mistakes(sources, underfitted_head(sources, 1.0))
    assert min(precision_and_recall(found, minority)) > 0.9
    assert min(precision_and_recall(find_mistakes(sources, sources.pooled), minority)) < 0.8


@pytest.mark.parametrize("upweight", [1.0, 5.0])
def test_jtt_minimizes_the_risk_with_mistakes_counted_more_often(upweight: float) -> None:
    """The gradient vanishes if the first head's mistakes, and no other rows, count more."""
    data = draw(n_classes=3)
    sources = fit_source_heads(check_domains(data.X, data.y, data.sample_domain))
    wrong = find_mistakes(sources, underfitted_head(sources, 0.5))
    head = JTTClassifier(upweight, reference_ridge=0.5).solve(sources).requires_grad_()
    weight = sources.weight * (1 + (upweight - 1) * wrong)
    loss = losses(log_probabilities(sources.Z, head), sources.y)
    value = weight @ loss / weight.sum() + (sources.learner_ridge(None) * head.square()).sum()
    (gradient,) = torch.autograd.grad(value, head)
    assert float(gradient.abs().max()) < 1e-3
    assert 0 < int(wrong.sum()) < 0.5 * len(wrong)


def test_jtt_without_upweighting_is_erm(data: ConfoundedDomains) -> None:
    model, erm = fit(JTTClassifier(1.0), data), fit(ERMClassifier(), data)
    np.testing.assert_allclose(model.coef_, erm.coef_, atol=1e-3)


def test_jtt_chooses_the_factor_that_serves_held_out_groups(
    data: ConfoundedDomains, sources: SourceHeads, minority: Tensor
) -> None:
    """Its worst group, of label and true confounder, is better than with 2 times or 100 times."""
    risks = [
        losses(log_probabilities(sources.Z, JTTClassifier(upweight).solve(sources)), sources.y)
        for upweight in (None, 2.0, 100.0)
    ]
    worst = [max(float(loss[part].mean()) for part in (minority, ~minority)) for loss in risks]
    assert worst[0] < min(worst[1:]) - 0.05


def invariance_penalty(slopes: NDArray[np.float64], share: NDArray[np.float64]) -> float:
    """Sum over two environments of the squared derivative of their risk, rows shared as given."""
    return float((share @ slopes) ** 2 + ((1 - share) @ slopes) ** 2)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.05, 0.5, 0.95]))
def test_no_assignment_breaks_invariance_more(sources: SourceHeads, seed: int, q: float) -> None:
    """Neither random nor near ones, hard or soft; derivatives by central differences."""
    head = underfitted_head(sources, 1.0)
    step = 1e-5
    up, down = (
        losses(log_probabilities(sources.Z, scale * head), sources.y)
        for scale in (1 + step, 1 - step)
    )
    slopes = (sources.weight * (up - down)).numpy() / (2 * step)
    best = infer_environments(sources, head).double().numpy()
    rng = np.random.default_rng(seed)
    soft = rng.random(len(best))
    for other in ((soft < q).astype(float), soft, np.where(soft < 0.1, 1 - best, best)):
        assert invariance_penalty(slopes, best) > invariance_penalty(slopes, other)


def test_with_two_classes_environments_are_mistakes(sources: SourceHeads) -> None:
    for ridge in (0.01, 1.0):
        head = underfitted_head(sources, ridge)
        assert torch.equal(infer_environments(sources, head), find_mistakes(sources, head))


@pytest.mark.parametrize("model", [EIILClassifier(), XRMClassifier()], ids=str)
def test_where_mistakes_are_noise_the_head_guesses(model: LinearHead) -> None:
    """No head is better than a coin on the rows that a good head misses and on the others."""
    data = make_confounded_domains(400, strengths=(0.5, 0.5), label_noise=0.2, random_state=0)
    fitted = fit(model, data)
    assert fitted.predict_proba(data.X).max(axis=1).mean() < 0.6


@pytest.mark.parametrize("model", [EIILClassifier(), XRMClassifier()], ids=str)
def test_the_head_is_minimax_over_class_and_part(sources: SourceHeads, model: LinearHead) -> None:
    """At the answer the worst groups are equally bad, and no group is worse than under ERM's."""
    if isinstance(model, EIILClassifier):
        part = infer_environments(sources, underfitted_head(sources, 1.0))
    else:
        part = find_cross_mistakes(sources)
    head = model.solve(sources)

    def group_risks(head: Tensor) -> Tensor:
        loss = losses(log_probabilities(sources.Z, head), sources.y)
        groups = [(sources.y == c) & (part == p) for c in (0, 1) for p in (False, True)]
        return torch.stack(
            [sources.weight[g] @ loss[g] / sources.weight[g].sum() for g in groups]
        ).sort(descending=True)[0]

    risks = group_risks(head)
    assert float(risks[0]) < float(group_risks(sources.pooled)[0]) - 0.1
    assert float(risks[0] - risks[1]) < 1e-3


def test_sources_as_groups_are_group_dro(data: ConfoundedDomains, sources: SourceHeads) -> None:
    ridge = sources.learner_ridge(None)
    head = minimax_over_groups(sources, 7 - 3 * sources.domain, ridge)
    assert torch.allclose(head, GroupDROClassifier().solve(sources), atol=1e-6)


def test_weights_of_groups() -> None:
    weight, group = torch.tensor([0.1, 0.0, 0.3, 0.6]), torch.tensor([5, 2, 5, -1])
    expected = torch.tensor([[0, 0, 0, 1], [0.25, 0, 0.75, 0]])
    assert torch.allclose(group_weights(weight, group), expected)


@pytest.mark.parametrize("model_class", PEERS)
def test_the_unseen_domain_is_served_better_than_by_erm(
    data: ConfoundedDomains, model_class: Any
) -> None:
    scores = [
        fit(model, data).score(data.X_target, data.y_target)
        for model in (ERMClassifier(), model_class())
    ]
    assert scores[1] > scores[0] + 0.2


@pytest.mark.parametrize("model_class", PEERS)
def test_domains_matter_by_their_mass_alone(data: ConfoundedDomains, model_class: Any) -> None:
    """Rows dealt to two domains of the same size at random: as if there were one."""
    half = np.random.default_rng(0).permutation(len(data.y)) % 2
    first = model_class().fit(data.X, data.y).predict(data.X_target)
    second = model_class().fit(data.X, data.y, half).predict(data.X_target)
    assert (first == second).mean() > 0.97


@pytest.mark.parametrize("model_class", PEERS)
def test_row_order_and_names_do_not_matter(model_class: Any) -> None:
    """Shuffled rows, classes and domains named in another order."""
    data = draw(n_classes=3, seed=1)
    plain = fit(model_class(), data)
    again = fit(model_class(), data)
    np.testing.assert_array_equal(again.coef_, plain.coef_)
    order = np.random.default_rng(0).permutation(len(data.y))
    names = np.array(["cat", "bee", "ant"])
    domain = np.where(data.sample_domain == "source 0", "z", "a")
    other = model_class().fit(data.X[order], names[data.y][order], domain[order])
    assert other.classes_.tolist() == ["ant", "bee", "cat"]
    np.testing.assert_allclose(other.coef_[::-1], plain.coef_, atol=1e-3)
    np.testing.assert_allclose(other.intercept_[::-1], plain.intercept_, atol=1e-3)


@pytest.mark.parametrize("model_class", PEERS)
def test_ridge_shrinks(data: ConfoundedDomains, model_class: Any) -> None:
    lengths = [np.linalg.norm(fit(model_class(ridge=r), data).coef_) for r in (1e-4, 1e-2, 1.0)]
    assert lengths[0] > lengths[1] > lengths[2] > 0


@pytest.mark.parametrize("model_class", PEERS)
def test_rows_without_mistakes(model_class: Any) -> None:
    """Separable rows and a weak first head: there is nothing to search, and a head all the same."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = 10.0 * y[:, None] + rng.standard_normal((40, 3))
    model = model_class().fit(X, y, np.arange(40) // 20)
    assert model.score(X, y) == 1


@pytest.mark.parametrize("model_class", PEERS)
def test_one_row_of_each_class_and_domain(model_class: Any) -> None:
    """All rows are in one fold and in one half."""
    X = np.array([[0.0, 1.0], [3.0, 2.0], [1.0, 0.0], [4.0, 1.0]])
    model = model_class().fit(X, [0, 1, 0, 1], [0, 0, 1, 1])
    assert model.score(X, [0, 1, 0, 1]) == 1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (JTTClassifier(upweight=0.5), "upweight is 0.5: pass a finite number, 1 or more"),
        (JTTClassifier(upweight=float("nan")), "upweight is nan: pass a finite number"),
        (JTTClassifier(reference_ridge=0.0), "reference_ridge is 0.0: pass a finite number of"),
        (EIILClassifier(reference_ridge=float("inf")), "reference_ridge is inf: pass a finite"),
        (EIILClassifier(ridge=-1.0), "ridge is -1.0: pass a number of 1e-10 or more"),
        (XRMClassifier(ridge=0.0), "ridge is 0.0: pass a number of 1e-10 or more"),
    ],
    ids=str,
)
def test_bad_parameters(data: ConfoundedDomains, model: LinearHead, message: str) -> None:
    """One sentence says what is wrong and what to pass."""
    with pytest.raises(ValueError, match=rf"^{message}.*\.$"):
        fit(model, data)
