"""The minimax head over a region of mixtures."""

from __future__ import annotations

import numpy as np
import torch

from regraft.core.group_shares import target_log_probabilities
from regraft.core.least_favourable import find_least_favourable
from regraft.core.newton import losses
from tests.core.test_group_shares import _estimate, _reference


def test_no_other_mixture_has_a_head_with_a_lower_worst_risk() -> None:
    reference, region = _reference(), _estimate([0.3, 0.7], 40, seed=2)

    def worst_risk(shares: torch.Tensor) -> float:
        log_p = target_log_probabilities(reference.log_joint, reference.shares, shares)
        risks = reference.laws @ losses(log_p, reference.y)
        return float(risks @ region.farthest(risks))

    found = find_least_favourable(region, reference)
    low, high = region.bounds[:, 0].tolist()
    assert low - 1e-6 <= float(found.shares[0]) <= high + 1e-6
    others = [torch.tensor([share, 1 - share]).double() for share in np.linspace(low, high, 21)]
    assert worst_risk(found.shares) <= min(map(worst_risk, others)) + 1e-3


def test_many_rows_leave_the_conditional_of_the_domain() -> None:
    reference, region = _reference(), _estimate([0.3, 0.7], 20_000, seed=2, labels=True)
    found = find_least_favourable(region, reference)
    np.testing.assert_allclose(found.shares, [0.3, 0.7], atol=0.05)
