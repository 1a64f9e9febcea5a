from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from torch import Tensor

from regraft.core import hull_adversary as families
from regraft.core.ball_search import maximize_in_ball
from regraft.core.domains import check_domains
from regraft.core.game import Adversary, Target, play
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.core.hull import Hull, Objective, attack, fit_hull, plausible_targets
from regraft.core.hull_adversary import (
    ReweightingHullAdversary,
    SoftLabelHullAdversary,
    make_hull_adversary,
)
from regraft.core.learner import Learner
from regraft.core.newton import log_probabilities, losses
from regraft.core.surrogates import (
    SurrogateKind,
    WeightedSample,
    pair_with_every_label,
    relabel,
    relabel_moved,
)
from regraft.core.transplant import find_witness
from tests.helpers.problems import make_problem, normal

SURROGATES: tuple[SurrogateKind, ...] = ("reweighted", "transplanted", "relabelled")
SOFT: tuple[SurrogateKind, ...] = ("transplanted", "relabelled")
OBJECTIVES: tuple[Objective, ...] = ("risk", "regret")

soft = st.sampled_from(SOFT)
objectives = st.sampled_from(OBJECTIVES)


@cache
def _sources(k: int) -> SourceHeads:
    """Two classes in two sources (a line of targets), or three in three (a plane)."""
    p = make_problem(k, n=120) if k == 2 else make_problem(1, n=120, classes=3, sources=3)
    return p.sources


def _make(
    sources: SourceHeads, radius: float, surrogate: SurrogateKind, objective: Objective = "risk"
) -> tuple[Hull, Adversary]:
    return make_hull_adversary(sources, radius=radius, objective=objective, surrogate=surrogate)


def _head(sources: SourceHeads, seed: int, size: float = 0.5) -> Tensor:
    return sources.pooled + size * normal(seed, *sources.pooled.shape)


def _source_heads(hull: Hull) -> Tensor:
    return torch.stack([hull.head(z) for z in hull.sources])


def _surrogate(
    sources: SourceHeads, hull: Hull, z: Tensor, surrogate: SurrogateKind
) -> WeightedSample:
    """The target at ``z`` by definition: a witness of its own, and the paper's operators."""
    rows, head = WeightedSample(sources.Z, sources.y, sources.weight), hull.head(z)
    pairs = pair_with_every_label(rows, len(head))
    if surrogate == "reweighted":
        return _reweighted_by_unseen_heads(sources, hull.coefficients(z))
    if surrogate == "relabelled":
        return relabel(pairs, head)
    witness = find_witness(head, _source_heads(hull))
    moved = [witness.transplant(i)(sources.Z[s]) for i, s in enumerate(sources.slices)]
    return relabel_moved(pairs, torch.cat(moved).repeat(len(head), 1), head)


def _reweighted_by_unseen_heads(sources: SourceHeads, coefficients: Tensor) -> WeightedSample:
    """Each row weighed by the heads of its fold, the combination less its own source's."""
    held_out, log_weight = sources.held_out, sources.weight.log()
    for fold, heads in enumerate(held_out.heads):
        rows = held_out.fold == fold
        target = torch.tensordot(coefficients, heads, dims=1)
        for s, own in enumerate(heads):
            here = rows & (sources.domain == s)
            log_share = log_probabilities(sources.Z[here], target - own)
            log_weight[here] -= losses(log_share, sources.y[here])
    return WeightedSample(sources.Z, sources.y, torch.softmax(log_weight, dim=0))


def _value(
    sample: WeightedSample, hull: Hull, head: Tensor, z: Tensor, objective: Objective
) -> float:
    own = sample.risk(hull.head(z)) if objective == "regret" else 0.0
    return sample.risk(head) - own


def _points(m: int, radius: float) -> list[Tensor]:
    """A grid on the line, or random points of the disc."""
    if m == 1:
        return list(torch.linspace(-radius, radius, 61, dtype=torch.float64)[:, None])
    rng = np.random.default_rng(0)
    angles, shares = rng.uniform(0, 2 * np.pi, 60), np.sqrt(rng.random(60))
    points = radius * shares[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return list(torch.from_numpy(points))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_targets_are_the_surrogates_of_their_heads(k: int, surrogate: SurrogateKind) -> None:
    """One basis L serves the whole hull: each target's own witness moves the rows alike."""
    sources = _sources(k)
    hull, adversary = make_hull_adversary(sources, radius=4.0, surrogate=surrogate)
    for seed in range(3):
        found = adversary.attack(_head(sources, seed))
        if bool((found.z == hull.sources).all(dim=1).any()):
            continue  # a source as it is
        expected = _surrogate(sources, hull, found.z, surrogate)
        assert torch.allclose(found.sample.Z, expected.Z, atol=1e-7)
        assert torch.equal(found.sample.y, expected.y)
        assert torch.allclose(found.sample.weight, expected.weight, atol=1e-9)
        assert float(found.sample.weight.sum()) == pytest.approx(1)
        assert float(found.z.norm()) <= 4.0 * (1 + 1e-9)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("surrogate", SOFT)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("radius", [1.0, 8.0])
def test_search_is_no_worse_than_a_cover_of_the_ball(
    k: int, surrogate: SurrogateKind, objective: Objective, radius: float
) -> None:
    sources = _sources(k)
    hull, adversary = _make(sources, radius, surrogate, objective)
    head = _head(sources, k)
    best = max(
        _value(_surrogate(sources, hull, z, surrogate), hull, head, z, objective)
        for z in _points(k - 1, radius)
    )
    found = adversary.attack(head)
    assert _value(found.sample, hull, head, found.z, objective) >= best - 1e-4


@settings(max_examples=12)
@given(st.integers(0, 50), soft, objectives)
def test_a_later_attack_is_never_milder_than_a_known_target(
    seed: int, surrogate: SurrogateKind, objective: Objective
) -> None:
    sources = _sources(2)
    hull, adversary = _make(sources, 8.0, surrogate, objective)
    head = _head(sources, seed)
    known: list[Target] = []
    for h in (head, _head(sources, seed + 1, 2.0), head):
        found = adversary.attack(h)
        value = _value(found.sample, hull, h, found.z, objective)
        for target in known:
            assert value >= _value(target.sample, hull, h, target.z, objective) - 1e-12
        known.append(found)


@given(st.integers(0, 50), soft, objectives, st.sampled_from([2, 3]))
def test_the_ascents_gradient_is_that_of_its_value(
    seed: int, surrogate: SurrogateKind, objective: Objective, k: int
) -> None:
    sources = _sources(k)
    hull, adversary = _make(sources, 0.0, surrogate, objective)
    head, caught = _head(sources, seed), list[Any]()

    def listen(function: Any, *args: Any) -> tuple[Tensor, float]:
        caught.append(function)
        return maximize_in_ball(function, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(families, "maximize_in_ball", listen)
        adversary.attack(head)
    (value_and_gradient,) = caught
    z = np.random.default_rng(seed).standard_normal(k - 1)
    point = torch.from_numpy(z)
    value, gradient = value_and_gradient(point)
    sample = _surrogate(sources, hull, point, surrogate)
    assert value == pytest.approx(_value(sample, hull, head, point, objective), abs=1e-8)
    numeric = approx_fprime(z, lambda v: value_and_gradient(torch.from_numpy(v))[0], 1e-6)
    assert np.allclose(gradient.numpy(), numeric, atol=1e-4)


@pytest.mark.parametrize("k", [2, 3])
def test_predictions_are_invariant_on_transplanted_rows(k: int) -> None:
    """g_z(T_{s->z} w) = softmax(W_s w) for every row of every source."""
    sources = _sources(k)
    hull, adversary = make_hull_adversary(sources, radius=4.0, surrogate="transplanted")
    heads, classes = _source_heads(hull), len(sources.pooled)
    for seed in range(3):
        found = adversary.attack(_head(sources, seed))
        assert find_witness(hull.head(found.z), heads).fit_residual <= 1e-8
        for copy in found.sample.Z.reshape(classes, len(sources.Z), -1):
            moved = torch.softmax(copy @ hull.head(found.z).T, dim=1)
            for s, head in zip(sources.slices, heads, strict=True):
                own = torch.softmax(sources.Z[s] @ head.T, dim=1)
                assert torch.allclose(moved[s], own, atol=1e-8)
            assert torch.allclose(copy[:, -1], torch.ones_like(copy[:, -1]), atol=1e-12)


@given(st.integers(0, 50))
def test_every_transplanted_target_is_as_hard_for_its_own_head(seed: int) -> None:
    """Its labels have the entropy that the source heads give them, wherever it lies."""
    sources = _sources(3)
    hull, _ = plausible_targets(sources)
    pairs = zip(sources.slices, _source_heads(hull), strict=True)
    log_p = torch.cat([log_probabilities(sources.Z[s], head) for s, head in pairs])
    entropy = float(sources.weight @ -(log_p.exp() * log_p).sum(dim=1))
    z = torch.from_numpy(4 * np.random.default_rng(seed).uniform(-0.7, 0.7, size=2))
    sample = _surrogate(sources, hull, z, "transplanted")
    assert sample.risk(hull.head(z)) == pytest.approx(entropy, abs=1e-7)


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_radius_zero_leaves_the_center(surrogate: SurrogateKind, objective: Objective) -> None:
    sources = _sources(3)
    hull, adversary = _make(sources, 0.0, surrogate, objective)
    for seed in range(3):
        found = adversary.attack(_head(sources, seed))
        if surrogate == "reweighted" and bool(found.z.any()):  # a source as it is
            assert bool((found.z == hull.sources).all(dim=1).any())
            continue
        assert torch.equal(found.z, torch.zeros(2, dtype=torch.float64))
        expected = _surrogate(sources, hull, found.z, surrogate)
        assert torch.allclose(found.sample.weight, expected.weight)
        assert torch.allclose(found.sample.Z, expected.Z, atol=1e-8)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_a_single_source_leaves_one_target(surrogate: SurrogateKind) -> None:
    p = make_problem(n=120)
    sources = fit_source_heads(check_domains(p.X, p.y))
    _, adversary = make_hull_adversary(sources, radius=4.0, surrogate=surrogate)
    found = adversary.attack(sources.pooled)
    assert found.z.shape == (0,)
    assert torch.allclose(found.sample.Z[: len(sources.Z)], sources.Z, atol=1e-10)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_games_converge_and_their_value_never_falls(
    k: int, surrogate: SurrogateKind, objective: Objective
) -> None:
    sources = _sources(k)
    _, adversary = _make(sources, 4.0, surrogate, objective)
    ridge = sources.learner_ridge(None)
    outcome = play(adversary, Learner(ridge=ridge), sources.pooled, tolerance=1e-2)
    assert outcome.converged
    for before, after in pairwise(outcome.rounds):
        assert after.value >= before.value - before.gap - 1e-9
        assert after.gap <= 1e-4
    for target in outcome.targets:
        assert target.sample.effective_size >= 1
    last = outcome.rounds[-1]
    values = [target.sample.value(outcome.head) for target in outcome.targets]
    assert list(last.risks) == pytest.approx(values, abs=1e-9)
    penalty = float((ridge * outcome.head.square()).sum())
    assert last.value == pytest.approx(max(values) + penalty, abs=1e-9)
    assert outcome.worst_value >= max(values) - 1e-9
    pooled = max(target.sample.value(sources.pooled) for target in outcome.targets)
    assert outcome.worst_value < pooled


@given(st.integers(0, 50), objectives, st.sampled_from([0.0, 1.0, 8.0]), st.sampled_from([2, 3]))
def test_the_reweighting_adversary_is_the_attack_on_its_losses(
    seed: int, objective: Objective, radius: float, k: int
) -> None:
    sources = _sources(k)
    _, surrogates = plausible_targets(sources)
    adversary = ReweightingHullAdversary(sources.Z, surrogates, radius, objective)
    known: list[Tensor] = []
    for i in range(2):
        head = _head(sources, seed + i)
        loss = losses(log_probabilities(sources.Z, head), sources.y)
        expected = attack(surrogates, loss, radius, objective, known)
        found = adversary.attack(head)
        assert torch.equal(found.z, expected.z)
        assert torch.equal(found.sample.weight, expected.weights)
        assert found.sample.Z is sources.Z
        assert found.sample.y is surrogates.y
        if expected.source is None:
            known.append(expected.z)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_each_surrogate_has_its_adversary_and_a_lower_rank_moves_rows_in_fewer_directions(
    surrogate: SurrogateKind,
) -> None:
    sources = _sources(3)
    hull, adversary = make_hull_adversary(sources, radius=4.0, rank=1, surrogate=surrogate)
    Z = adversary.attack(_head(sources, 0)).sample.Z
    if surrogate == "reweighted":
        assert isinstance(adversary, ReweightingHullAdversary)
        expected, _ = plausible_targets(sources, 1)
        assert torch.equal(Z, sources.Z)
    else:
        assert isinstance(adversary, SoftLabelHullAdversary)
        expected = fit_hull(sources.heads, sources.Z, sources.weight, 1)
        moves = Z - sources.Z.repeat(3, 1)
        rank = int(torch.linalg.matrix_rank(moves, rtol=1e-8)) if bool(moves.any()) else 0
        assert rank == (1 if surrogate == "transplanted" else 0)
    assert torch.equal(hull.directions, expected.directions)
