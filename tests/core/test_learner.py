from dataclasses import replace

import pytest
import torch

from regraft.core.learner import Learner
from regraft.core.newton import minimax_newton
from regraft.core.surrogates import WeightedSample, stack_samples
from tests.helpers.problems import make_problem, with_constant


def _learner() -> tuple[Learner, list[WeightedSample]]:
    p = make_problem(n=100, d=3)
    Z = with_constant(torch.from_numpy(p.X))
    y = torch.from_numpy(p.y)
    weights = torch.rand(2, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = weights**6
    weights /= weights.sum(dim=1, keepdim=True)
    return Learner(ridge=1e-2, tolerance=1e-8), [WeightedSample(Z, y, row) for row in weights]


def test_risk_is_the_minimax_over_the_collection() -> None:
    learner, samples = _learner()
    start = samples[0].Z.new_zeros((2, 4))
    learner.add(samples[0])
    first = learner.respond(start)
    learner.add(samples[1])
    second = learner.respond(first.head, first.mixture)
    direct = minimax_newton(*stack_samples(samples), ridge=1e-2, start=start, tolerance=1e-8)
    assert second.value == pytest.approx(direct.value, abs=1e-7)
    assert second.value >= first.value - 1e-8


def test_constants_make_it_the_minimax_of_regrets() -> None:
    learner, samples = _learner()
    start = samples[0].Z.new_zeros((2, 4))
    alone = [
        minimax_newton(*stack_samples([sample]), ridge=1e-2, start=start, tolerance=1e-8).value
        for sample in samples
    ]
    # The rows' constants need not be equal: only their weighted mean, the offset, counts.
    spread = torch.linspace(-1, 1, 200, dtype=torch.float64)
    regrets = [
        replace(sample, constant=spread - sample.weight @ spread - best)
        for sample, best in zip(samples, alone, strict=True)
    ]
    learner.add(regrets[0])
    first = learner.respond(start)
    assert first.value == pytest.approx(0, abs=1e-7)
    learner.add(regrets[1])
    second = learner.respond(first.head, first.mixture)
    assert learner.offsets.tolist() == pytest.approx(alone)
    risk, _ = _learner()
    for sample in samples:
        risk.add(sample)
    assert 0 < second.value < risk.respond(start).value
    # Regret is equalized between the two targets: both bind.
    assert bool((second.mixture > 1e-3).all())
