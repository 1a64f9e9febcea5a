"""Shares of the groups in a new domain, where the groups' densities are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regraft.core.group_shares import (
    ShareLikelihood,
    ShareRegion,
    estimate_shares,
    log_ratios,
    target_log_probabilities,
)
from regraft.core.reference import Reference

_MEANS = torch.tensor([[-2.0, 0.0], [1.0, 3.0], [-0.5, 6.0]])  # (G, C) of one feature
_POOLED = torch.tensor([0.6, 0.4, 0.0])


def _draw(shares: list[float], n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw rows of a mixture: log P(y, u | x) (n, G, C) in the pooled sources, and labels."""
    G = len(shares)
    rng = np.random.default_rng(seed)
    u, y = rng.choice(G, size=n, p=shares), rng.integers(2, size=n)
    x = torch.from_numpy(rng.standard_normal(n)) + _MEANS[u, y]
    pooled = _pooled(G)
    log_density = -0.5 * (x[:, None, None] - _MEANS[:G]).square()
    log_joint = log_density + pooled.log().unsqueeze(1)
    flat = torch.log_softmax(log_joint.flatten(1), dim=1)
    return flat.reshape(-1, G, 2), torch.from_numpy(y)


def _pooled(n_groups: int) -> Tensor:
    return torch.full((n_groups,), 1 / n_groups) if n_groups == 3 else _POOLED[:2]


def _reference(n_groups: int = 2, n: int = 3000) -> Reference:
    pooled = _pooled(n_groups).double()
    log_joint, y = _draw(pooled.div(pooled.sum()).tolist(), n, seed=99)
    own = log_joint.gather(2, y[:, None, None].expand(-1, n_groups, 1)).squeeze(2)
    zero = torch.zeros(n, dtype=torch.float64)
    return Reference(
        X=zero.unsqueeze(1),
        y=y,
        domain=torch.zeros_like(y),
        weight=zero + 1 / n,
        belief=torch.softmax(own, dim=1).double(),
        log_joint=log_joint.double(),
        loss=zero,
        correct=zero,
        shares=pooled,
        sampled=torch.ones(1),
    )


def _estimate(shares: list[float], n: int, seed: int, *, labels: bool = False) -> ShareRegion:
    reference = _reference(len(shares))
    log_joint, y = _draw(shares, n, seed)
    ratios = log_ratios(log_joint.double(), reference.shares, y if labels else None)
    return estimate_shares(ShareLikelihood(ratios), n * labels, reference)


@pytest.mark.parametrize("shares", [[0.1, 0.9], [0.5, 0.5], [0.2, 0.3, 0.5]])
@pytest.mark.parametrize("labels", [False, True])
def test_the_shares_are_found_with_and_without_labels(shares: list[float], labels: bool) -> None:
    region = _estimate(shares, 4000, seed=1, labels=labels)
    assert region.shares.tolist() == pytest.approx(shares, abs=0.05)
    low, high = region.bounds
    assert (low <= region.shares + 1e-9).all() and (region.shares <= high + 1e-9).all()
    assert float((high - low).max()) < 0.2


def test_the_region_covers_the_truth_as_often_as_it_says() -> None:
    held = []
    for seed in range(60):
        low, high = _estimate([0.25, 0.75], 200, seed).bounds[:, 0].tolist()
        held.append(low <= 0.25 <= high)
    assert np.mean(held) >= 0.88  # 95 % is claimed; two standard errors of 60 draws are 6 points


def test_the_maximum_is_a_fixed_point_of_expectation_maximization() -> None:
    region = _estimate([0.2, 0.3, 0.5], 500, seed=3)
    belief = region.shares.numpy() * region.likelihood.slope(region.shares.numpy())
    np.testing.assert_allclose(belief, region.shares, atol=1e-4)


def test_labels_narrow_the_region_and_tell_more() -> None:
    without, with_labels = (_estimate([0.3, 0.7], 300, 5, labels=has) for has in (False, True))
    widths = [float(region.bounds[1, 0] - region.bounds[0, 0]) for region in (without, with_labels)]
    assert widths[1] < widths[0]
    assert 0 < without.told < with_labels.told < 1


def test_groups_that_look_alike_tell_nothing() -> None:
    reference = _reference()
    alike = reference.shares.log()[None, :, None].expand(50, 2, 2) - np.log(2)
    region = estimate_shares(ShareLikelihood(log_ratios(alike, reference.shares)), 0, reference)
    assert region.bounds.tolist() == pytest.approx(np.array([[0, 0], [1, 1]]), abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(-1, 1), st.floats(-1, 1))
def test_no_point_of_the_region_lies_farther(seed: int, a: float, b: float) -> None:
    region = _estimate([0.3, 0.3, 0.4], 60, seed % 7)
    direction = torch.tensor([a, b, 0.1], dtype=torch.float64)
    end = region.farthest(direction)
    assert float(end.sum()) == pytest.approx(1) and (end >= 0).all()
    likely = lambda p: 60 * region.likelihood.value(p.numpy())  # noqa: E731
    slack = 0.5 * 5.99147 / region.certainty
    assert likely(end.clamp_min(1e-12)) >= likely(region.shares.clamp_min(1e-12)) - slack - 1e-3
    rng = np.random.default_rng(seed)
    for point in torch.from_numpy(rng.dirichlet(np.ones(3), size=50)):
        if likely(point) >= likely(region.shares.clamp_min(1e-12)) - slack:
            assert float(direction @ point) <= float(direction @ end) + 1e-3


def test_at_the_pooled_shares_the_conditional_is_the_pooled_one() -> None:
    log_joint, _ = _draw([0.6, 0.4], 50, seed=0)
    at_home = target_log_probabilities(log_joint, _POOLED[:2], _POOLED[:2])
    np.testing.assert_allclose(at_home, torch.logsumexp(log_joint, dim=1), atol=1e-4)
    alone = target_log_probabilities(log_joint, _POOLED[:2], torch.tensor([1.0, 0.0]))
    np.testing.assert_allclose(alone, torch.log_softmax(log_joint[:, 0], dim=1), atol=1e-4)
