from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from regraft.core import hull as hull_module
from regraft.core.heads import SourceHeads
from regraft.core.hull import (
    Hull,
    Objective,
    TiltedRows,
    _value_and_gradient,
    attack,
    attack_keeping_inputs,
    check_rank,
    fit_hull,
    standard_error,
    supported_radius,
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
    return sources, hull, _tilt(sources, hull)


def _tilt(sources: SourceHeads, hull: Hull) -> TiltedRows:
    rows = sources.Z, sources.y, sources.weight, sources.domain
    return tilt_rows(hull, sources.heads, *rows)


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
    hulls = [fit_hull(sources.heads, sources.Z, sources.weight, rank) for rank in (1, 2)]
    stacks = [hull.directions.permute(1, 0, 2).reshape(3, -1) for hull in hulls]
    assert [int(torch.linalg.matrix_rank(stack, rtol=1e-8)) for stack in stacks] == [1, 2]
    whole = hulls[1]
    assert torch.allclose(whole.sources.norm(dim=1), full.sources.norm(dim=1), atol=1e-8)


def test_equal_heads_make_a_point(three: Game) -> None:
    sources, _, _ = three
    same = sources.pooled.expand(3, -1, -1)
    hull = fit_hull(same, sources.Z, sources.weight)
    assert len(hull.directions) == 0
    rows = sources.Z, sources.y, sources.weight, sources.domain
    surrogates = tilt_rows(hull, same, *rows)
    zero = torch.zeros(0, dtype=torch.float64)
    assert torch.allclose(surrogates.weights(zero), sources.weight)
    loss = losses(log_probabilities(sources.Z, sources.pooled), sources.y)
    found = attack(surrogates, loss, 8.0)
    risks = [float(loss[each].mean()) for each in sources.slices]
    assert found.value == pytest.approx(max(risks)) and found.source == risks.index(max(risks))


def test_adding_a_constant_to_all_logits_changes_nothing(three: Game) -> None:
    sources, hull, _ = three
    shifted = sources.heads + torch.randn(3, 1, sources.Z.shape[1], dtype=torch.float64)
    other = fit_hull(shifted, sources.Z, sources.weight)
    assert torch.allclose(hull.sources.abs(), other.sources.abs(), atol=1e-8)
    assert torch.allclose(hull.center, other.center, atol=1e-10)


@given(st.integers(0, 50), st.sampled_from(["risk", "regret"]), st.sampled_from([0.0, 1.6]))
def test_gradient(seed: int, objective: Objective, errors: float) -> None:
    sources, _, surrogates = _game(3)
    rng = np.random.default_rng(seed)
    loss = torch.from_numpy(rng.exponential(size=len(sources.y)))
    z = rng.standard_normal(2)

    def at(point: np.ndarray) -> tuple[float, torch.Tensor]:
        return _value_and_gradient(surrogates, loss, torch.from_numpy(point), objective, errors)

    assert np.allclose(at(z)[1], approx_fprime(z, lambda point: at(point)[0], 1e-6), atol=1e-5)


@given(st.integers(0, 30), st.sampled_from([0.5, 2.0, 8.0]), st.sampled_from(["risk", "regret"]))
def test_attack_beats_a_fine_grid(seed: int, radius: float, objective: Objective) -> None:
    sources, _, surrogates = _game(3)
    head = sources.pooled + 0.5 * normal(seed, *sources.pooled.shape)
    loss = losses(log_probabilities(sources.Z, head), sources.y)
    found = attack(surrogates, loss, radius, objective)
    assert found.source is not None or float(found.z.norm()) <= radius * (1 + 1e-9)
    angles = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    grid = [
        share * radius * np.array([np.cos(a), np.sin(a)])
        for share in np.linspace(0.05, 1, 20)
        for a in angles
    ]
    best = max(
        _value_and_gradient(surrogates, loss, torch.from_numpy(z), objective, 0.0)[0] for z in grid
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
    risks = [float(loss[each].mean()) for each in sources.slices]
    center = float(surrogates.weights(torch.zeros(1, dtype=torch.float64)) @ loss)
    assert values[0] == pytest.approx(max(*risks, center))
    assert values == sorted(values) and values[-1] > values[0]


@given(st.integers(0, 30), st.sampled_from([0.0, 1.6]), st.floats(0.1, 8))
def test_with_inputs_kept_the_attack_beats_a_fine_grid(
    seed: int, errors: float, radius: float
) -> None:
    sources, hull, surrogates = _game(2)
    head = sources.pooled + 0.5 * normal(seed, *sources.pooled.shape)
    loss = -log_probabilities(sources.Z, head).T

    def value(share: torch.Tensor) -> float:
        expected = (share * loss).sum(dim=0)
        error = standard_error(sources.weight, expected)
        return float(sources.weight @ expected) + errors * error

    best = max(
        value(log_probabilities(sources.Z, hull.head(torch.tensor([z]))).exp().T)
        for z in np.linspace(-radius, radius, 201)
    )
    assert value(attack_keeping_inputs(surrogates, loss, radius, errors)) >= best - 1e-4


@pytest.mark.parametrize("objective", ["risk", "regret"])
@pytest.mark.parametrize("k", [2, 3])
def test_a_glance_at_some_rows_leads_to_the_target_that_all_rows_show(
    k: int, objective: Objective, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, _, rows = _game(k)
    loss = losses(log_probabilities(sources.Z, sources.pooled), sources.y)
    wanted = attack(rows, loss, 4.0, objective, errors=1.6)
    kept = attack_keeping_inputs(rows, loss.expand(k, -1), 4.0, errors=1.6)
    monkeypatch.setattr(hull_module, "_GLANCE_ROWS", len(rows.y) // 3)
    found = attack(rows, loss, 4.0, objective, errors=1.6)
    assert found.value == pytest.approx(wanted.value, abs=1e-3)
    again = attack_keeping_inputs(rows, loss.expand(k, -1), 4.0, errors=1.6)
    assert again.shape == kept.shape


def test_the_sources_support_the_radius_of_a_domain_drawn_like_them() -> None:
    """On average over draws, K + 1 domains drawn alike: the last, and the mean of the others."""
    for n_sources in (2, 5):
        drawn = normal(n_sources, 4000, n_sources + 1, 3)
        known, new = drawn[:, :-1], drawn[:, -1]
        center = known.mean(dim=1, keepdim=True)
        ratio = (new - center[:, 0]).square().mean() / (known - center).square().mean()
        assert float(ratio) == pytest.approx((n_sources + 1) / (n_sources - 1), rel=0.05)
    _, hull, _ = _game(3)
    farthest = float(hull.sources.norm(dim=1).max())
    assert supported_radius(hull) == pytest.approx(2**0.5 * farthest)


@pytest.mark.parametrize("rank", [0, -1, 3])
def test_impossible_ranks(rank: int) -> None:
    with pytest.raises(ValueError, match="at most 2 direction"):
        check_rank(rank, 3)
