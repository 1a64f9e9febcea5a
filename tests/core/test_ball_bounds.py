"""Bounds of log-sums over a ball hold every value in it, and are tight."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from torch import Tensor

from regraft.core.ball_bounds import greatest_log_sum, least_log_sum
from tests.helpers.problems import normal

SIZES = pytest.mark.parametrize("C, m", [(2, 1), (4, 1), (3, 2), (6, 2), (5, 3), (6, 5)])


def _problem(seed: int, C: int, m: int, n: int = 6) -> tuple[Tensor, Tensor]:
    base, moves = 2 * normal(seed, n, C), normal(seed + 1, n, C, m)
    return base - base[:, :1], moves - moves[:, :1]


def _values(base: Tensor, moves: Tensor, z: Tensor) -> Tensor:
    """Return the log-sums (B, V) at points (V, m)."""
    return torch.logsumexp(base.unsqueeze(2) + moves @ z.T, dim=1)


def _points(m: int, radius: float) -> Tensor:
    """Cover a ball: many points on the sphere, and as many inside."""
    if m == 1:
        return radius * torch.linspace(-1, 1, 4001, dtype=torch.float64).unsqueeze(1)
    z = torch.nn.functional.normalize(normal(7, 4_000, m), dim=1)
    inside = torch.rand(4_000, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    return radius * torch.cat([z, inside.unsqueeze(1) * z])


@SIZES
@settings(max_examples=10)
@given(seed=st.integers(0, 500), radius=st.sampled_from([0.1, 1.0, 4.0]))
def test_no_point_of_the_ball_is_outside(C: int, m: int, seed: int, radius: float) -> None:
    base, moves = _problem(seed, C, m)
    values = _values(base, moves, _points(m, radius))
    assert bool((least_log_sum(base, moves, radius) <= values.amin(dim=1) + 1e-9).all())
    assert bool((greatest_log_sum(base, moves, radius) >= values.amax(dim=1) - 1e-9).all())


@SIZES
def test_the_bounds_are_tight(C: int, m: int) -> None:
    base, moves = _problem(3, C, m, n=40)
    values = _values(base, moves, _points(m, 2.0))
    # The sample misses the ends by little where the ball has few dimensions.
    missed = 2e-3 if m == 1 else 3e-2 if m == 2 else 0.3
    torch.testing.assert_close(
        least_log_sum(base, moves, 2.0), values.amin(dim=1), atol=missed, rtol=0
    )
    slack = missed if m <= 2 else 1.5
    assert float((greatest_log_sum(base, moves, 2.0) - values.amax(dim=1)).max()) <= slack


def test_newton_reaches_the_least_value() -> None:
    base, moves = _problem(11, 5, 3, n=10)
    least = least_log_sum(base, moves, 3.0)
    for bound, offset, slope in zip(least, base.numpy(), moves.numpy(), strict=True):
        found = minimize(
            lambda z, a=offset, d=slope: logsumexp(a + d @ z),
            np.zeros(3),
            jac=lambda z, a=offset, d=slope: softmax(a + d @ z) @ d,
            method="SLSQP",
            constraints={"type": "ineq", "fun": lambda z: 9.0 - z @ z, "jac": lambda z: -2 * z},
            options={"ftol": 1e-12, "maxiter": 500},
        )
        assert float(bound) == pytest.approx(found.fun, abs=1e-6)


@pytest.mark.parametrize("m, radius", [(0, 3.0), (2, 0.0)])
def test_a_ball_that_is_a_point_has_one_value(m: int, radius: float) -> None:
    base, moves = _problem(0, 3, m)
    for bound in (least_log_sum, greatest_log_sum):
        torch.testing.assert_close(bound(base, moves, radius), torch.logsumexp(base, dim=1))
