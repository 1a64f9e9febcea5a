"""Hausdorff distances against brute force, closure residuals, and thm:robustness."""

import math
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regraft.core.closure import (
    _CHUNK_ENTRIES,
    _chunked_hausdorff,
    _distances,
    closure_residual,
    directed_hausdorff,
    least_closure,
    minibatch_hausdorff,
)
from regraft.core.transplant import (
    Transplant,
    Witness,
    affine_combination,
    find_witness,
    measure_witness,
    transplant_bases,
)
from tests.helpers.problems import normal, with_constant

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 30)
examples = settings(deadline=None, max_examples=60)
few_examples = settings(deadline=None, max_examples=12)


def brute_force(points: Tensor, reference: Tensor) -> float:
    """The definition, in plain Python."""
    return max(min(math.dist(p, q) for q in reference.tolist()) for p in points.tolist())


def closed_sources(seed: int, n: int = 40) -> tuple[Witness, list[Tensor]]:
    """Three sources whose supports are transplants of one another."""
    witness = find_witness(normal(seed, 3, 12), normal(seed + 1, 3, 3, 12))
    first = with_constant(normal(seed + 2, n, 11))
    return witness, [witness.transplant(0, s)(first) for s in range(3)]


@examples
@given(seeds, sizes, sizes, st.integers(1, 5), st.integers(1, 100))
def test_all_forms_equal_brute_force(seed: int, n: int, m: int, d: int, entries: int) -> None:
    """scipy, the chunked form at any chunk size, and the differentiable form agree."""
    points, reference = normal(seed, n, d), normal(seed + 1, m, d)
    expected = brute_force(points, reference)
    assert directed_hausdorff(points, reference) == pytest.approx(expected, rel=1e-12)
    assert _chunked_hausdorff(points, reference, entries) == pytest.approx(expected, rel=1e-12)
    assert float(minibatch_hausdorff(points, reference)) == pytest.approx(expected, rel=1e-12)


def test_chunks_cover_every_row() -> None:
    """The farthest point counts in the first, a middle and the last chunk."""
    points, reference = normal(0, 50, 3), normal(1, 7, 3)
    for outlier in (0, 13, 49):
        moved = points.clone()
        moved[outlier] += 100.0
        exact = directed_hausdorff(moved, reference)
        assert exact > 100.0
        assert _chunked_hausdorff(moved, reference, entries=21) == pytest.approx(exact, rel=1e-12)


def test_the_differentiable_form_never_holds_all_distances(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Large sets are searched in chunks, the gradient still reaches the attaining pair."""
    held: list[int] = []

    def record(points: Tensor, reference: Tensor, mode: str) -> Tensor:
        distances = _distances(points, reference, mode)
        held.append(distances.numel())
        return distances

    monkeypatch.setattr("regraft.core.closure._distances", record)
    points, reference = normal(0, 3000, 2), normal(1, 3000, 2)
    points[2345] += 100.0
    value = minibatch_hausdorff(points.requires_grad_(), reference)
    value.backward()
    assert sum(held) == 3000 * 3000 and max(held) <= _CHUNK_ENTRIES
    assert float(value.detach()) == pytest.approx(directed_hausdorff(points, reference))
    assert points.grad is not None
    assert points.grad.norm(dim=1).nonzero().tolist() == [[2345]]


@examples
@given(seeds, st.integers(2, 20), st.integers(1, 5))
def test_subset_is_at_distance_zero_but_not_conversely(seed: int, n: int, d: int) -> None:
    """The distance is directed."""
    points = normal(seed, n, d)
    points[0] += 50.0
    subset = points[1:]
    for distance in (directed_hausdorff, _chunked_hausdorff):
        assert distance(subset, points) == 0.0
        assert distance(points, subset) > 1.0


def test_small_distances_far_from_the_origin_keep_their_digits() -> None:
    """Matrix-product distances would be off by their own size here."""
    points = normal(0, 20, 4) + 1e4
    shifted = points + torch.tensor([1e-6, 0.0, 0.0, 0.0], dtype=torch.float64)
    for distance in (directed_hausdorff, _chunked_hausdorff):
        assert distance(shifted, points) == pytest.approx(1e-6, rel=1e-4)


def test_empty_sets_are_refused() -> None:
    """There is no maximum, or no minimum, over an empty set."""
    empty, points = torch.zeros(0, 3, dtype=torch.float64), normal(0, 2, 3)
    for pair in ((empty, points), (points, empty)):
        for distance in (directed_hausdorff, minibatch_hausdorff):
            with pytest.raises(ValueError, match="at least one row"):
                distance(*pair)


@examples
@given(seeds, st.integers(1, 10), st.integers(1, 10))
def test_gradient_is_the_unit_vector_of_the_attaining_pair(seed: int, n: int, m: int) -> None:
    """One row moves, at unit speed, and moving it lowers the distance."""
    points, reference = normal(seed, n, 3).requires_grad_(), normal(seed + 1, m, 3)
    minibatch_hausdorff(points, reference).backward()
    assert points.grad is not None
    norms = points.grad.norm(dim=1)
    assert int((norms > 0).sum()) == 1
    assert float(norms.max()) == pytest.approx(1.0)
    stepped = points.detach() - 1e-6 * points.grad
    assert minibatch_hausdorff(stepped, reference) < minibatch_hausdorff(points, reference)


def test_gradient_is_finite_at_distance_zero_and_reaches_the_transplant_parameters() -> None:
    """The norm has no derivative at zero: zero is used. An adversary optimizes L by the other."""
    points = normal(0, 5, 3).requires_grad_()
    value = minibatch_hausdorff(points, points.detach().clone())
    value.backward()
    assert float(value.detach()) == 0.0
    assert points.grad is not None
    assert torch.equal(points.grad, torch.zeros_like(points))
    basis = normal(0, 4, 1).requires_grad_()
    moved = Transplant(basis, normal(1, 4, 1), normal(2, 4, 1))(normal(3, 8, 4))
    minibatch_hausdorff(moved, normal(4, 8, 4)).backward()
    assert basis.grad is not None
    assert torch.isfinite(basis.grad).all()
    assert float(basis.grad.abs().max()) > 0.0


@examples
@given(seeds)
def test_closed_supports_have_no_residual(seed: int) -> None:
    """Exact closure is the case epsilon = 0 of `def:eps-closure`."""
    witness, rows = closed_sources(seed)
    scale = max(float(sample.abs().max()) for sample in rows)
    assert closure_residual(witness, rows) < 1e-10 * scale**2


def test_residual_is_the_largest_over_ordered_pairs() -> None:
    """Against brute force over all pairs, which differ."""
    witness, rows = closed_sources(0)
    rows = [rows[0], rows[1][:25], rows[2] + 0.05 * normal(7, *rows[2].shape)]
    ordered = permutations(range(3), 2)
    pairs = [brute_force(witness.transplant(s, t)(rows[s]), rows[t]) for s, t in ordered]
    assert min(pairs) < 0.5 * max(pairs)
    assert closure_residual(witness, rows) == pytest.approx(max(pairs), rel=1e-9)


def test_thinning_is_seeded_and_leaves_small_samples_alone() -> None:
    """Samples thinned apart from each other are no longer exact transplants."""
    witness, rows = closed_sources(0, n=60)
    everything = closure_residual(witness, rows, max_rows=None)
    assert closure_residual(witness, rows, max_rows=60) == everything
    thinned = closure_residual(witness, rows, max_rows=20, seed=3)
    assert thinned == closure_residual(witness, rows, max_rows=20, seed=3)
    assert thinned != closure_residual(witness, rows, max_rows=20, seed=4)
    assert thinned > everything


def test_every_source_needs_a_sample_and_one_source_is_closed() -> None:
    """A missing sample would hide its pairs; one source has no pair to compare."""
    alone = find_witness(normal(0, 3, 12), normal(1, 1, 3, 12))
    assert closure_residual(alone, [normal(2, 10, 12)]) == 0.0
    witness, rows = closed_sources(0)
    with pytest.raises(ValueError, match="3 sources need as many samples, got 2"):
        closure_residual(witness, rows[:2])


# The free part of the basis (`rem:L-underdet`).


def some_heads(seed: int, K: int, C: int, d: int) -> tuple[Tensor, Tensor]:
    """Gauge-fixed heads of a target in the hull (C, d), and of its sources (K, C, d)."""
    heads = normal(seed, K, C, d)
    heads = heads - heads.mean(dim=1, keepdim=True)
    weights = normal(seed + 1, K)
    return affine_combination(heads, weights + (1 - weights.sum()) / K), heads


def free_directions(target: Tensor, sources: Tensor) -> Tensor:
    """All N with W_star N = 0, V_s^T N = 0 and a last row of zeros, from the heads alone."""
    last = torch.eye(target.shape[1], dtype=torch.float64)[-1:]
    rows = torch.cat([target, *(sources - target), last])
    _, values, vectors = torch.linalg.svd(rows)
    return vectors[int((values > 1e-9 * values[0]).sum()) :].mT


@few_examples
@given(seeds, st.sampled_from([(2, 2, 6), (2, 3, 9), (3, 2, 8), (3, 3, 12)]))
def test_a_planted_basis_is_found(seed: int, shape: tuple[int, int, int]) -> None:
    """Supports closed under one member of the bases, far from the member of least norm."""
    target, heads = some_heads(seed, *shape)
    witness = find_witness(target, heads)
    free = free_directions(target, heads)
    planted = witness.basis + free @ normal(seed + 2, free.shape[1], witness.rank)
    first = with_constant(normal(seed + 3, 40, shape[2] - 1))
    rows = [Transplant(planted, witness.sources[0], A)(first) for A in witness.sources]
    scale = max(float(sample.abs().max()) for sample in rows)
    found, residual = least_closure(witness, rows)
    assert residual < 1e-7 * scale**2 < closure_residual(witness, rows)
    assert torch.allclose(found.basis, planted, atol=1e-6 * scale)


@few_examples
@given(seeds, st.sampled_from([(2, 2, 5), (2, 4, 12), (3, 3, 12), (2, 2, 3)]))
def test_the_least_closure_is_never_above_and_keeps_every_condition(
    seed: int, shape: tuple[int, int, int]
) -> None:
    """Other rows, other shifts: the same rows decide, and the witness is as exact as before."""
    K, _, d = shape
    target, heads = some_heads(seed, *shape)
    witness = find_witness(target, heads)
    rows = [with_constant(normal(seed + s, 20 + 5 * s, d - 1)) for s in range(K)]
    found, residual = least_closure(witness, rows)
    assert residual == closure_residual(found, rows) <= closure_residual(witness, rows)
    measured = measure_witness(target, heads, found.basis, found.target, found.sources)
    assert measured.fit_residual == pytest.approx(witness.fit_residual, abs=1e-9)
    assert measured.biorthogonality_residual == pytest.approx(
        found.biorthogonality_residual, abs=1e-9
    )
    assert found.biorthogonality_residual == pytest.approx(
        witness.biorthogonality_residual, abs=1e-9 * max(1, float(found.basis.norm()))
    )
    assert float(found.basis[-1].abs().max()) < 1e-12 * max(1, float(found.basis.norm()))
    shuffled = [sample[normal(seed, len(sample)).argsort()] for sample in rows]
    assert least_closure(witness, shuffled)[1] == pytest.approx(residual, rel=1e-6)


def test_the_least_closure_of_noisy_sources_is_smaller() -> None:
    """Independent rows leave room in nearly every problem; many rows are searched in part."""
    gains = []
    for seed in range(8):
        target, heads = some_heads(seed, 2, 2, 10)
        witness = find_witness(target, heads)
        rows = [with_constant(normal(seed + s, 300, 9)) for s in range(2)]
        before = closure_residual(witness, rows, max_rows=100, seed=1)
        found, after = least_closure(witness, rows, max_rows=100, seed=1)
        assert after == closure_residual(found, rows, max_rows=100, seed=1)
        gains.append(1 - after / before)
    assert min(gains) >= 0 and sum(gain > 0.01 for gain in gains) >= 7


def test_nothing_is_searched_where_nothing_is_free() -> None:
    """Equal heads have no basis, one source has no pair, and closed supports have no distance."""
    head = normal(0, 2, 5)
    rows = [with_constant(normal(s, 10, 4)) for s in range(2)]
    equal = find_witness(head, torch.stack([head, head]))
    assert least_closure(equal, rows) == (equal, closure_residual(equal, rows))
    alone = find_witness(normal(0, 3, 12), normal(1, 1, 3, 12))
    assert least_closure(alone, [normal(2, 10, 12)]) == (alone, 0.0)


def risk(mass: Tensor, positive: Tensor, predicted: Tensor) -> float:
    """Cross-entropy of predicted P(y_1) under atoms of given mass and true P(y_1)."""
    loss = -(positive * predicted.log() + (1.0 - positive) * (1.0 - predicted).log())
    return float(mass @ loss)


@examples
@given(seeds, st.floats(0.01, 0.45), st.floats(1e-4, 2.0), st.floats(0.1, 20.0))
def test_risk_moves_at_most_linearly_in_the_closure_residual(
    seed: int, floor: float, size: float, slope: float
) -> None:
    """`thm:robustness`: snap transplanted atoms to a perturbed support, as the coupling does."""
    A = normal(seed, 3, 10, 2)
    L = transplant_bases(list(A), normal(seed + 1, 10, 2)).particular
    moved = Transplant(L, A[0], A[2])(normal(seed + 2, 30, 10))
    support = moved + size * normal(seed + 3, 30, 10) / math.sqrt(10)
    epsilon = directed_hausdorff(moved, support)
    snapped = support[torch.cdist(moved, support).argmin(dim=1)]

    mass, positive = normal(seed + 4, 30).softmax(0), normal(seed + 5, 30).sigmoid()
    direction = slope * torch.nn.functional.normalize(normal(seed + 6, 10), dim=0)
    lipschitz = (1.0 - 2.0 * floor) * slope / 4.0

    def head(rows: Tensor) -> Tensor:
        return floor + (1.0 - 2.0 * floor) * (rows @ direction).sigmoid()

    gap = abs(risk(mass, positive, head(moved)) - risk(mass, positive, head(snapped)))
    assert gap <= lipschitz / floor * epsilon


@pytest.mark.parametrize("floor", [0.02, 0.1, 0.3])
def test_the_robustness_slack_is_attained(floor: float) -> None:
    """At the floor the constant L_h / delta cannot be improved."""
    lipschitz, epsilon = 2.0, 1e-5
    one = torch.ones(1, dtype=torch.float64)

    def head(row: Tensor) -> Tensor:
        return (floor + lipschitz * row).clamp(floor, 1.0 - floor)

    gap = risk(one, one, head(0.0 * one)) - risk(one, one, head(epsilon * one))
    bound = lipschitz / floor * epsilon
    assert 0.99 * bound < gap <= bound
