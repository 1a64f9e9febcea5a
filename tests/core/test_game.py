from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from regraft.core.game import Adversary, Round, play
from regraft.core.heads import SourceHeads
from regraft.core.hull import Hull, Objective, TiltedRows, fit_hull, supported_radius, tilt_rows
from regraft.core.hull_adversary import ReweightingHullAdversary
from regraft.core.learner import Learner
from regraft.core.newton import log_probabilities, losses
from tests.helpers.problems import make_problem, with_constant


def _tiny(seed: int) -> tuple[torch.Tensor, TiltedRows]:
    """A finite problem on a line: seven points, two labels, one direction of disagreement."""
    rng = np.random.default_rng(seed)
    points = torch.from_numpy(rng.standard_normal((7, 1)))
    rows = with_constant(points)
    Z = rows.repeat_interleave(2, dim=0)
    y = torch.arange(2).repeat(7)
    center, shift = (torch.from_numpy(rng.standard_normal((2, 2))) for _ in range(2))
    p = torch.softmax(rows @ (center - center.mean(0)).T, dim=1)
    weight = (p * torch.from_numpy(rng.dirichlet(np.ones(7)))[:, None]).flatten()
    none = torch.zeros(1, 1, dtype=torch.float64)
    center = center - center.mean(0)
    hull = Hull(center, (shift - shift.mean(0))[None], none, none, torch.eye(2))
    domain = torch.zeros_like(y)  # one source, whose head is the center
    return Z, tilt_rows(hull, center[None], Z, y, weight / weight.sum(), domain)


def _brute_force(Z: torch.Tensor, surrogates: TiltedRows, radius: float, ridge: float) -> float:
    """min over heads of max over a fine grid of targets, by a general solver from many starts."""
    grid = torch.linspace(-radius, radius, 201, dtype=torch.float64)[:, None]
    weights = torch.stack([surrogates.weights(z) for z in grid])

    def slack(v: np.ndarray) -> np.ndarray:
        head = torch.from_numpy(v[:-1]).reshape(2, 2)
        return v[-1] - (weights @ losses(torch.log_softmax(Z @ head.T, 1), surrogates.y)).numpy()

    values = []
    for start in np.random.default_rng(0).standard_normal((4, 4)):
        answer = minimize(
            lambda v: v[-1] + ridge * (v[:-1] ** 2).sum(),
            np.append(start, 5.0),
            constraints={"type": "ineq", "fun": slack},
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-10},
        )
        if answer.success:
            values.append(answer.fun)
    return min(values)


@given(st.integers(0, 40), st.sampled_from([0.5, 2.0, 5.0]))
def test_reaches_the_minimax_value_of_a_tiny_problem(seed: int, radius: float) -> None:
    """thm:min-max-conv: within the tolerance of the brute-force value, and never above it."""
    Z, surrogates = _tiny(seed)
    ridge = 1e-3
    outcome = play(
        ReweightingHullAdversary(Z, surrogates, radius),
        Learner(ridge=ridge, tolerance=1e-7),
        Z.new_zeros((2, 2)),
        tolerance=1e-6,
    )
    value = _brute_force(Z, surrogates, radius, ridge)
    assert outcome.rounds[-1].value == pytest.approx(value, abs=2e-4)
    penalty = ridge * float(outcome.head.square().sum())
    assert outcome.worst_value + penalty == pytest.approx(value, abs=1e-3)


@settings(max_examples=10)
@given(st.integers(0, 20), st.sampled_from([1.0, 8.0]), st.sampled_from(["risk", "regret"]))
@pytest.mark.slow
def test_value_never_falls_and_the_rule_stops_it(
    seed: int, radius: float, objective: Objective
) -> None:
    sources = make_problem(seed, n=120, d=4, classes=3, sources=3).sources
    seen: list[Round] = []
    adversary = _hull_game(sources, radius, objective)
    outcome = play(adversary, Learner(ridge=1e-3), sources.pooled, on_round=seen.append)
    assert outcome.converged
    assert tuple(seen) == outcome.rounds
    assert len(outcome.rounds) >= 2
    values = [r.value for r in outcome.rounds]
    for before, after in pairwise(outcome.rounds):
        assert after.value >= before.value - before.gap - 1e-9
        assert after.gap <= 1e-4
    assert abs(values[-1] - values[-2]) <= 1e-3
    assert all(abs(b - a) > 1e-3 for a, b in pairwise(values[:-1]))
    assert len(outcome.targets) == len(outcome.mixture) == len(outcome.heads) == len(outcome.rounds)
    farthest = max(radius, supported_radius(fit_hull(sources.heads, sources.Z, sources.weight)))
    assert all(float(target.z.norm()) <= farthest * (1 + 1e-9) for target in outcome.targets)


def _hull_game(sources: SourceHeads, radius: float, objective: Objective = "risk") -> Adversary:
    hull = fit_hull(sources.heads, sources.Z, sources.weight)
    rows = sources.Z, sources.y, sources.weight, sources.domain
    surrogates = tilt_rows(hull, sources.heads, *rows)
    return ReweightingHullAdversary(sources.Z, surrogates, radius, objective)


def test_radius_zero_leaves_the_sources_and_their_center() -> None:
    sources = make_problem().sources
    learner = Learner(ridge=sources.regularization.pooled_ridge, tolerance=1e-9)
    outcome = play(_hull_game(sources, 0.0), learner, sources.pooled)
    loss = losses(log_probabilities(sources.Z, outcome.head), sources.y)
    worst = max(float(loss[each].mean()) for each in sources.slices)
    assert outcome.worst_value >= worst - 1e-9
    for target in outcome.targets:
        inside = [float(target.sample.weight[each].sum()) for each in sources.slices]
        assert max(inside) == pytest.approx(1) or float(target.z.norm()) == 0


def test_gives_up_after_max_rounds() -> None:
    sources = make_problem(n=120, classes=3, sources=3).sources
    adversary, learner = _hull_game(sources, 8.0), Learner(ridge=1e-3)
    outcome = play(adversary, learner, sources.pooled, tolerance=1e-9, max_rounds=2)
    assert len(outcome.rounds) == 2
    assert not outcome.converged


@pytest.mark.parametrize("seed", range(6))
def test_rounding_is_not_a_fall(seed: int) -> None:
    """With one source every round solves the same problem; its last digits may differ."""
    sources = make_problem(seed, n=200, classes=5, sources=1).sources
    outcome = play(_hull_game(sources, 0.0), Learner(ridge=1e-2), sources.pooled)
    assert len(outcome.rounds) == 2
