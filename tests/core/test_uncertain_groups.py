"""Bounds on a group hold whichever rows its members are, and are reached by the worst ones."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regraft.core.evidence import HeldOutRows, measure
from regraft.core.group_evidence import measure_targets
from regraft.core.group_targets import GroupTargets
from regraft.core.uncertain_groups import bound_group_mean
from tests.helpers.problems import normal


@settings(max_examples=50)
@given(
    seed=st.integers(0, 10_000),
    counts=st.lists(st.integers(1, 15), min_size=1, max_size=8),
    least=st.sampled_from([0.0, 0.3]),
)
def test_no_choice_of_members_is_above_the_bound(
    seed: int, counts: list[int], least: float
) -> None:
    """Each class is a part of 16 rows, of which so many are members."""
    random = torch.Generator().manual_seed(seed)
    value = normal(seed, 16 * len(counts)).abs()
    y = torch.arange(len(counts)).repeat_interleave(16)
    base = torch.full_like(value, 1 / len(value))
    factor = torch.full_like(value, least)
    for c, count in enumerate(counts):
        factor[16 * c + torch.randperm(16, generator=random)[:count]] = 1.0
    share = torch.stack([factor[y == c].mean() for c in range(len(counts))])[y]
    bound = bound_group_mean(value, share, base, y, least=least, together=1)
    assert float(factor @ value / factor.sum()) <= bound


def test_it_is_the_mean_of_the_largest_values() -> None:
    value, n = normal(0, 200_000).abs(), 200_000
    base, y = torch.full_like(value, 1 / n), torch.zeros(n, dtype=torch.long)
    bound = bound_group_mean(value, torch.full_like(value, 0.3), base, y, least=0.0, together=1)
    largest = float(value.sort(descending=True).values[: int(0.3 * n)].mean())
    assert bound == pytest.approx(largest, abs=0.01)


@pytest.mark.parametrize("prior_shift", [None, 0.0, 1.0])
def test_a_certificate_takes_the_better_bound(prior_shift: float | None) -> None:
    n = 4000
    belief = torch.softmax(0.2 * normal(1, n, 3), dim=1)  # hardly told apart
    base, y = torch.full((n,), 1 / n, dtype=torch.float64), torch.arange(n) % 2
    targets = GroupTargets(belief, base, y, 2, prior_shift)
    rows = HeldOutRows(0.4 + 0.1 * normal(2, n).abs(), (normal(3, n) < 1).double())
    found = measure_targets(targets, rows)
    by_purity = [
        measure("", weight, rows, together=len(found), purity=purity)
        for weight, purity in zip(targets.blocks[0], targets.purity[0].tolist(), strict=True)
    ]
    for each, other in zip(found, by_purity, strict=True):
        assert each.risk < each.risk_bound <= other.risk_bound
        assert each.accuracy > each.accuracy_bound >= other.accuracy_bound
        if prior_shift is None:  # losses are much alike, so it matters little whose they are
            assert each.risk_bound < 0.7 * other.risk_bound


def test_rows_without_a_mistake_certify_no_more_than_so_many_rows_can() -> None:
    n = 40
    belief = torch.stack([torch.arange(n) % 2, 1 - torch.arange(n) % 2], dim=1).double()
    base, y = torch.full((n,), 1 / n, dtype=torch.float64), torch.arange(n) // 2 % 2
    rows = HeldOutRows(torch.full((n,), 0.01, dtype=torch.float64), base * n)
    for each in measure_targets(GroupTargets(belief, base, y, 2, None), rows):
        assert (each.accuracy, each.rows) == pytest.approx((1, 20))
        assert each.accuracy_bound == pytest.approx(20 / (20 + 1.96**2), abs=0.001)  # Wilson, of 2
