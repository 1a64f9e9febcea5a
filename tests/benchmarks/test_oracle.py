"""Heads that are told the hidden factor do what their names say."""

from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from regraft import ERMClassifier
from regraft.data.examples import ConfoundedDomains, make_confounded_domains
from regraft.estimators.linear import LinearHead

SCRIPT = "oracle"
TOLD = "told_group_dro", "told_balanced"


@pytest.fixture(scope="module")
def data() -> ConfoundedDomains:
    return make_confounded_domains(400, n_features=8, random_state=0)


def group_losses(data: ConfoundedDomains, model: LinearHead) -> NDArray[np.float64]:
    p = model.predict_proba(data.X)[np.arange(len(data.y)), data.y]
    group = 2 * data.confounder + data.y
    return np.array([-np.log(p[group == g]).mean() for g in range(4)])


def test_the_told_heads_hold_in_the_unseen_domain(
    script: ModuleType, data: ConfoundedDomains
) -> None:
    """Where ERM is misled; three quarters of the labels can be known."""
    erm = ERMClassifier().fit(data.X, data.y, data.sample_domain)
    assert erm.score(data.X_target, data.y_target) < 0.4
    for name in TOLD:
        head = getattr(script, name)(data.X, data.y, data.confounder, data.sample_domain)
        assert head.score(data.X_target, data.y_target) > 0.68
        assert group_losses(data, head).max() < group_losses(data, erm).max() - 0.1


def test_group_dro_has_the_smaller_worst_group_and_balance_the_smaller_mean(
    script: ModuleType, data: ConfoundedDomains
) -> None:
    dro, balanced = (
        group_losses(
            data, getattr(script, name)(data.X, data.y, data.confounder, data.sample_domain)
        )
        for name in TOLD
    )
    assert dro.max() <= balanced.max() + 1e-3
    assert balanced.mean() <= dro.mean() + 1e-3


@pytest.mark.parametrize("name", TOLD)
def test_names_and_row_order_do_not_matter(
    script: ModuleType, data: ConfoundedDomains, name: str
) -> None:
    plain = getattr(script, name)(data.X, data.y, data.confounder, data.sample_domain)
    order = np.random.default_rng(0).permutation(len(data.y))
    factor = np.array(["striped", "dotted"])[data.confounder]
    other = getattr(script, name)(
        data.X[order], data.y[order], factor[order], data.sample_domain[order]
    )
    np.testing.assert_allclose(other.coef_, plain.coef_, atol=1e-3)


@pytest.mark.parametrize("name", TOLD)
def test_a_factor_that_is_constant_leaves_the_classes(
    script: ModuleType, data: ConfoundedDomains, name: str
) -> None:
    head = getattr(script, name)(data.X, data.y, np.zeros(len(data.y)), data.sample_domain)
    assert head.score(data.X, data.y) > 0.8
