"""The test of whether rows are a mixture of the groups, where it is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from regraft.core.closure_test import compare_with_mixture


def _rows(n: int, share: float, rng: np.random.Generator, d: int = 6) -> Tensor:
    """Draw rows of two groups, of which the first has this share."""
    first = rng.random(n) < share
    return torch.from_numpy(rng.standard_normal((n, d)) + np.where(first, 1.5, -1.5)[:, None])


def _mixture(share: float, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return rows of which one group is rare, and weights that give it a share of 1 - share."""
    parts = [_rows(900, 1.0, rng), _rows(300, 0.0, rng)]
    weight = torch.cat([torch.full((900,), share / 900), torch.full((300,), (1 - share) / 300)])
    order = torch.from_numpy(rng.permutation(1200))
    return torch.cat(parts)[order], weight[order].double()


def _p_values(n: int, change: float, times: int) -> list[float]:
    found = []
    for seed in range(times):
        rng = np.random.default_rng(seed)
        X = _rows(n, 0.2, rng)
        X = X * (1 + change)
        found.append(compare_with_mixture(X, *_mixture(0.2, rng)).p_value)
    return found


@pytest.mark.parametrize("n", [10, 40, 400])
def test_alarms_are_rare_if_the_domain_is_a_mixture(n: int) -> None:
    alarms = np.mean([p < 0.05 for p in _p_values(n, 0.0, 40)])
    assert alarms <= 0.125  # 5 % is claimed; two standard errors of 40 draws are 7 points


def test_a_change_of_scale_is_noticed() -> None:
    assert np.mean([p < 0.05 for p in _p_values(150, 0.6, 10)]) >= 0.9


def test_rows_that_are_unlike_have_the_highest_scores() -> None:
    rng = np.random.default_rng(0)
    X = _rows(200, 0.2, rng)
    X[:30, 2] += 6
    found = compare_with_mixture(X, *_mixture(0.2, rng))
    assert found.p_value < 0.01
    assert found.gap > 0
    top = found.rows[found.scores.argsort(descending=True)[:20]]
    assert (top < 30).double().mean() > 0.8


def test_many_rows_are_thinned_over_all_of_them() -> None:
    rng = np.random.default_rng(0)
    found = compare_with_mixture(_rows(9000, 0.2, rng), *_mixture(0.2, rng))
    assert len(found.rows) == len(found.scores) <= 4000
    assert int(found.rows[-1]) > 8900


def test_constant_columns_do_no_harm() -> None:
    rng = np.random.default_rng(0)
    mixture, weight = _mixture(0.2, rng)
    X = torch.cat([_rows(50, 0.2, rng), torch.ones(50, 1)], dim=1)
    found = compare_with_mixture(X, torch.cat([mixture, torch.ones(1200, 1)], dim=1), weight)
    assert 0 <= found.p_value <= 1
