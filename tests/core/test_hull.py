from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from regraft.core.heads import SourceHeads
from regraft.core.hull import (
    Hull,
    Objective,
    TiltedRows,
    _value_and_gradient,
    attack,
    check_rank,
    fit_hull,
    tilt_rows,
)
from regraft.core.newton import log_probabilities, losses
from tests.helpers.problems import make_problem, normal

Game = tuple[SourceHeads, Hull, TiltedRows]


@cache
def _game(k: int) -> Game:
    """Two classes in two sources (a line of targets), or three in three (a plane)."""
    sources = make_problem(seed=k - 2, classes=k, sources=k).sources
    hull = fit_hull(sources.heads, sources.Z, sources.weight)
    return sources, hull, tilt_rows(hull, sources.Z, sources.y, sources.weight)


@pytest.fixture
def three() -> Game:
    return _game(3)


def test_hull_holds_the_sources_and_their_affine_combinations(three: Game) -> None:
    sources, hull, _ = three
    centred = sources.heads - sources.heads.mean(dim=1, keepdim=True)
    for z, head in zip(hull.sources, centred, strict=True):
        assert torch.allclose(hull.head(z), head, atol=1e-8)
    z = torch.tensor([3.0, -7.0], dtype=torch.float64)
    alpha = hull.coefficients(z)
    assert float(alpha.sum()) == pytest.approx(1)
    assert torch.allclose(hull.head(z), torch.tensordot(alpha, centred, dims=1), atol=1e-8)


def test_norm_is_the_root_mean_square_of_the_tilt(three: Game) -> None:
    sources, hull, _ = three
    z = torch.tensor([1.5, 2.0], dtype=torch.float64)
    tilt = sources.Z @ (hull.head(z) - hull.center).T
    rms = (sources.weight @ tilt.square().mean(dim=1)).sqrt()
    assert float(rms) == pytest.approx(2.5)


def test_rank_limits_the_class_directions(three: Game) -> None:
    sources, full, _ = three
    ranks = {}
    for rank in (1, 2):
        hull = fit_hull(sources.heads, sources.Z, sources.weight, rank)
        stack = (hull.directions).permute(1, 0, 2).reshape(3, -1)
        ranks[rank] = int(torch.linalg.matrix_rank(stack, rtol=1e-8))
    assert ranks == {1: 1, 2: 2}
    whole = fit_hull(sources.heads, sources.Z, sources.weight, 2)
    assert torch.allclose(whole.sources.norm(dim=1), full.sources.norm(dim=1), atol=1e-8)


def test_equal_heads_make_a_point(three: Game) -> None:
    sources, _, _ = three
    same = sources.pooled.expand(3, -1, -1)
    hull = fit_hull(same, sources.Z, sources.weight)
    assert len(hull.directions) == 0
    surrogates = tilt_rows(hull, sources.Z, sources.y, sources.weight)
    loss = losses(log_probabilities(sources.Z, sources.pooled), sources.y)
    found = attack(surrogates, loss, 8.0)
    assert found.value == pytest.approx(float(sources.weight @ loss))


def test_adding_a_constant_to_all_logits_changes_nothing(three: Game) -> None:
    sources, hull, _ = three
    shifted = sources.heads + torch.randn(3, 1, sources.Z.shape[1], dtype=torch.float64)
    other = fit_hull(shifted, sources.Z, sources.weight)
    assert torch.allclose(hull.sources.abs(), other.sources.abs(), atol=1e-8)
    assert torch.allclose(hull.center, other.center, atol=1e-10)


def test_surrogate_conditional_is_the_target_head() -> None:
    """Reweighting moves P(y|x) to softmax(W_star) exactly when the pooled model is exact."""
    points = normal(0, 6, 3)
    center, shift = (h - h.mean(dim=0) for h in normal(1, 2, 3, 3))
    Z = points.repeat_interleave(3, dim=0)  # every point with every label
    y = torch.arange(3).repeat(6)
    p = torch.softmax(points @ center.T, dim=1)
    weight = p.flatten() / 6
    hull = Hull(center, shift[None], torch.zeros(1, 1), torch.zeros(1, 1), torch.eye(3))
    weights = tilt_rows(hull, Z, y, weight).weights(torch.ones(1, dtype=torch.float64))
    joint = weights.reshape(6, 3)
    conditional = joint / joint.sum(dim=1, keepdim=True)
    assert torch.allclose(conditional, torch.softmax(points @ (center + shift).T, dim=1))
    assert bool((joint.sum(dim=1) > 0).all())  # the support stays the sources'


@given(st.integers(0, 50), st.sampled_from(["risk", "regret"]))
def test_gradient(seed: int, objective: Objective) -> None:
    sources, _, surrogates = _game(3)
    rng = np.random.default_rng(seed)
    loss = torch.from_numpy(rng.exponential(size=len(sources.y)))
    z = rng.standard_normal(2)

    def at(point: np.ndarray) -> tuple[float, torch.Tensor]:
        return _value_and_gradient(surrogates, loss, torch.from_numpy(point), objective)

    assert np.allclose(at(z)[1], approx_fprime(z, lambda point: at(point)[0], 1e-6), atol=1e-5)


@given(st.integers(0, 30), st.sampled_from([0.5, 2.0, 8.0]), st.sampled_from(["risk", "regret"]))
def test_attack_beats_a_fine_grid(seed: int, radius: float, objective: Objective) -> None:
    sources, _, surrogates = _game(3)
    head = sources.pooled + 0.5 * normal(seed, *sources.pooled.shape)
    loss = losses(log_probabilities(sources.Z, head), sources.y)
    found = attack(surrogates, loss, radius, objective)
    assert float(found.z.norm()) <= radius * (1 + 1e-9)
    angles = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    grid = [
        share * radius * np.array([np.cos(a), np.sin(a)])
        for share in np.linspace(0.05, 1, 20)
        for a in angles
    ]
    best = max(
        _value_and_gradient(surrogates, loss, torch.from_numpy(z), objective)[0] for z in grid
    )
    assert found.value >= best - 1e-6


@given(st.integers(0, 30), st.floats(0.1, 16))
def test_line_search_beats_a_fine_grid(seed: int, radius: float) -> None:
    sources, _, surrogates = _game(2)
    loss = torch.from_numpy(np.random.default_rng(seed).exponential(size=len(sources.y)))
    found = attack(surrogates, loss, radius)
    best = max(
        float(surrogates.weights(torch.tensor([z], dtype=torch.float64)) @ loss)
        for z in np.linspace(-radius, radius, 401)
    )
    assert found.value >= best - 1e-4


def test_attacks_grow_with_the_radius() -> None:
    sources, _, surrogates = _game(2)
    loss = losses(log_probabilities(sources.Z, sources.pooled), sources.y)
    values = [attack(surrogates, loss, radius).value for radius in (0, 0.5, 1, 2, 4)]
    assert values[0] == pytest.approx(float(sources.weight @ loss))
    assert all(a < b for a, b in pairwise(values))


@pytest.mark.parametrize("rank", [0, -1, 3])
def test_impossible_ranks(rank: int) -> None:
    with pytest.raises(ValueError, match="at most 2 direction"):
        check_rank(rank, 3)
