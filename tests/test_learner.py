from __future__ import annotations

import pytest
import torch
from conftest import make_problem

from regraft.learner import Learner
from regraft.newton import minimax_newton


def _learner(objective: str) -> tuple[Learner, torch.Tensor, torch.Tensor, torch.Tensor]:
    p = make_problem(n=100, d=3)
    Z = torch.cat([torch.from_numpy(p.X), torch.ones(200, 1, dtype=torch.float64)], dim=1)
    y = torch.from_numpy(p.y)
    weights = torch.rand(2, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = weights**6
    weights /= weights.sum(dim=1, keepdim=True)
    learner = Learner(Z, y, ridge=1e-2, objective=objective, tolerance=1e-8)  # type: ignore[arg-type]
    return learner, Z, y, weights


def test_risk_is_the_minimax_over_the_collection() -> None:
    learner, Z, y, weights = _learner("risk")
    start = Z.new_zeros((2, 4))
    learner.add(weights[0], learner.offset(weights[0], start))
    first = learner.respond(start)
    learner.add(weights[1], learner.offset(weights[1], start))
    second = learner.respond(first.head, first)
    direct = minimax_newton(Z, y, weights, ridge=1e-2, start=start, tolerance=1e-8)
    assert second.value == pytest.approx(direct.value, abs=1e-7)
    assert second.value >= first.value - 1e-8


def test_regret_is_nothing_on_one_target_and_little_on_two() -> None:
    learner, Z, _, weights = _learner("regret")
    start = Z.new_zeros((2, 4))
    learner.add(weights[0], learner.offset(weights[0], start))
    first = learner.respond(start)
    assert first.value == pytest.approx(0, abs=1e-7)
    learner.add(weights[1], learner.offset(weights[1], start))
    second = learner.respond(first.head, first)
    risk, *_ = _learner("risk")
    for row in weights:
        risk.add(row, risk.offset(row, start))
    assert 0 < second.value < risk.respond(start).value
    # Regret is equalized between the two targets: both bind.
    assert bool((second.mixture > 1e-3).all())
