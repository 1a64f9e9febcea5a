"""The algebra of transplants, checked against the statements it implements."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regraft.core.transplant import (
    Transplant,
    affine_combination,
    decompose,
    find_witness,
    kernel_condition,
    transplant_bases,
)
from tests.helpers.problems import normal, with_constant

seeds = st.integers(0, 2**32 - 1)
examples = settings(deadline=None, max_examples=60)


def close(a: Tensor, b: Tensor, atol: float = 1e-8) -> bool:
    """Equality up to rounding."""
    return torch.allclose(a, b, rtol=1e-8, atol=atol)


def biorthogonal(seed: int, K: int, r: int, extra: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Random A (K+1 x d x r, target last), D (d x r) and one of their transplant bases."""
    d = (K + 2) * r + extra
    abductions, deduction = normal(seed, K + 1, d, r), normal(seed + 1, d, r)
    bases = transplant_bases(list(abductions), deduction)
    return abductions, deduction, bases.member(normal(seed + 2, bases.directions.shape[1], r))


def affine_weights(seed: int, K: int, reach: float = 3.0) -> Tensor:
    """Random weights that sum to one, most of them outside the simplex."""
    weights = reach * normal(seed, K)
    weights[-1] = 1.0 - weights[:-1].sum()
    return weights


@examples
@given(seeds, st.integers(1, 3), st.integers(1, 3))
def test_transplant_carries_the_readouts(seed: int, K: int, r: int) -> None:
    """Eq. `multi-bio`: A_s' reads the moved point as A_s read the original; D sees nothing."""
    A, D, L = biorthogonal(seed, K, r)
    rows = normal(seed + 3, 7, L.shape[0])
    moved = Transplant(L, A[0], A[-1])(rows)
    assert close(moved @ A[-1], rows @ A[0], 1e-7)
    assert close(moved @ D, rows @ D, 1e-7)
    assert not close(moved, rows, 1e-3)


@examples
@given(seeds, st.integers(1, 3), st.integers(1, 3))
def test_transplant_is_unipotent_and_inverts(seed: int, K: int, r: int) -> None:
    """`lem:multi-bio`: (T - I)^2 = 0, det T = 1, and swapping the roles inverts T."""
    A, _, L = biorthogonal(seed, K, r)
    T = Transplant(L, A[0], A[-1])
    nilpotent = T.matrix() - torch.eye(L.shape[0], dtype=torch.float64)
    scale = float(torch.linalg.matrix_norm(nilpotent)) ** 2
    assert float((nilpotent @ nilpotent).abs().max()) < 1e-10 * scale
    assert T.determinant() == pytest.approx(1.0, abs=1e-7)
    rows = normal(seed + 3, 5, L.shape[0])
    assert close(T.inverse()(T(rows)), rows, 1e-10 * scale)


@examples
@given(seeds, st.integers(1, 6), st.integers(1, 4))
def test_operator_and_sylvester_determinant_match_the_matrix(seed: int, d: int, r: int) -> None:
    """Both hold for any parameters, biorthogonal or not."""
    T = Transplant(normal(seed, d, r), normal(seed + 1, d, r), normal(seed + 2, d, r))
    rows = normal(seed + 3, 4, d)
    assert close(T(rows), rows @ T.matrix().T)
    assert T.determinant() == pytest.approx(float(torch.linalg.det(T.matrix())), rel=1e-6, abs=1e-6)


def test_transplants_compose_along_a_chain() -> None:
    """T_{1->2} after T_{0->1} is T_{0->2}."""
    A, _, L = biorthogonal(0, K=2, r=2)
    rows = normal(9, 6, L.shape[0])
    chained = Transplant(L, A[1], A[2])(Transplant(L, A[0], A[1])(rows))
    assert close(chained, Transplant(L, A[0], A[2])(rows))


@examples
@given(seeds, st.integers(1, 3), st.integers(1, 3), st.integers(0, 4), st.integers(0, 4))
def test_independent_columns_suffice(seed: int, K: int, r: int, m: int, extra: int) -> None:
    """`prop:L-exists`, sufficient condition, with the dimension r (d - rank)."""
    d = (K + 1) * r + m + extra
    A, D = list(normal(seed, K + 1, d, r)), normal(seed + 1, d, m)
    report = kernel_condition(A, D, tolerance=1e-7)
    assert report.holds
    assert report.rank == report.columns == (K + 1) * r + m
    assert report.solution_dimension == r * extra


@examples
@given(seeds, st.integers(2, 4), st.integers(1, 3))
def test_affine_target_abduction_passes_and_other_combinations_fail(
    seed: int, K: int, r: int
) -> None:
    """The kernel vector (alpha, -1) has parts that sum to zero exactly for affine weights."""
    d = (K + 1) * r + 3
    sources, D = normal(seed, K, d, r), normal(seed + 1, d, r)
    weights = affine_weights(seed + 2, K)
    inside = kernel_condition([*sources, affine_combination(sources, weights)], D)
    assert inside.holds
    assert inside.rank == (K + 1) * r < inside.columns
    assert inside.solution_dimension == r * (d - inside.rank)

    outside = [*sources, 1.5 * affine_combination(sources, weights)]
    report = kernel_condition(outside, D)
    assert not report.holds
    assert report.residual > 1e-3
    assert report.solution_dimension == -1
    with pytest.raises(ValueError, match=r"relative residual .* lower the transplant dimension"):
        transplant_bases(outside, D)


def test_deduction_that_reads_the_abduction_fails() -> None:
    """D may overlap differences of abductions, whose weights sum to zero, but no abduction."""
    A = list(normal(0, 3, 20, 2))
    D = torch.cat([A[0][:, :1], normal(1, 20, 1)], dim=1)
    assert not kernel_condition(A, D).holds
    shared_with_difference = torch.cat([A[0][:, :1] - A[1][:, :1], normal(1, 20, 1)], dim=1)
    assert kernel_condition(A, shared_with_difference).holds


def test_too_few_dimensions_fail_for_generic_parameters() -> None:
    """At d = (K + 2) r the generic basis is unique; one dimension less leaves none."""
    assert not kernel_condition(list(normal(0, 3, 7, 2)), normal(1, 7, 2)).holds
    assert kernel_condition(list(normal(0, 3, 8, 2)), normal(1, 8, 2)).solution_dimension == 0


def test_equal_abductions_need_few_dimensions() -> None:
    """d >= (K + 2) r is necessary for full rank, not for a basis."""
    A = normal(0, 4, 2)
    report = kernel_condition([A] * 5, normal(1, 4, 1))
    assert report.holds
    assert (report.rank, report.columns, report.solution_dimension) == (3, 11, 2)


@examples
@given(seeds, st.integers(1, 3), st.integers(1, 3))
def test_every_member_of_the_basis_set_solves(seed: int, K: int, r: int) -> None:
    """Particular solution plus any directions; the particular one is shortest."""
    d = (K + 2) * r + 4
    A, D = normal(seed, K + 1, d, r), normal(seed + 1, d, r)
    bases = transplant_bases(list(A), D)
    assert bases.dimension == kernel_condition(list(A), D).solution_dimension == 4 * r
    member = bases.member(5.0 * normal(seed + 2, 4, r))
    assert close(A.mT @ member, torch.eye(r, dtype=torch.float64).expand(K + 1, r, r), 1e-7)
    assert close(D.mT @ member, torch.zeros(r, r, dtype=torch.float64), 1e-7)
    assert close(bases.directions.mT @ bases.directions, torch.eye(4, dtype=torch.float64))
    assert torch.linalg.matrix_norm(bases.particular) < torch.linalg.matrix_norm(member)


@examples
@given(seeds, st.integers(1, 3), st.integers(1, 3))
def test_transplants_preserve_the_deduction_component(seed: int, K: int, r: int) -> None:
    """`rem:T-preserves-WD`, and W_A is what moves."""
    A, D, L = biorthogonal(seed, K, r)
    rows = normal(seed + 3, 5, L.shape[0])
    abduction_part, deduction_part = decompose(rows, L, A[0])
    assert close(abduction_part + deduction_part, rows)
    assert close(deduction_part @ A[0], torch.zeros(5, r, dtype=torch.float64), 1e-6)
    assert close(abduction_part @ D, torch.zeros(5, r, dtype=torch.float64), 1e-6)
    moved_abduction, moved_deduction = decompose(Transplant(L, A[0], A[-1])(rows), L, A[0])
    assert close(moved_deduction, deduction_part, 1e-6)
    assert not close(moved_abduction, abduction_part, 1e-3)


def test_hull_combines_abductions_and_heads() -> None:
    """Weights apply to the leading axis and must sum to one."""
    stack = normal(0, 3, 4, 2)
    weights = torch.tensor([2.0, -1.5, 0.5], dtype=torch.float64)
    assert close(
        affine_combination(stack, weights), 2.0 * stack[0] - 1.5 * stack[1] + 0.5 * stack[2]
    )
    with pytest.raises(ValueError, match=r"sum to 0\.9"):
        affine_combination(stack, torch.tensor([0.5, 0.2, 0.2], dtype=torch.float64))


@examples
@given(seeds, st.integers(2, 4), st.integers(1, 3))
def test_target_in_the_hull_makes_the_heads_affine(seed: int, K: int, r: int) -> None:
    """A_star = sum alpha_s A_s and the fit condition give W_star = sum alpha_s W_s."""
    d = (K + 1) * r + 3
    A = normal(seed, K, d, r)
    weights = affine_weights(seed + 1, K)
    A_star = affine_combination(A, weights)
    L = transplant_bases([*A, A_star], normal(seed + 2, d, 0)).particular
    W_star = normal(seed + 3, 5, d)
    W = torch.stack([W_star @ Transplant(L, A_s, A_star).matrix() for A_s in A])
    scale = float(W.abs().max() * weights.abs().sum())
    assert close(affine_combination(W, weights), W_star, 1e-10 * scale)
    assert not close(W[0], W_star, 1e-3)


def biorthogonality_holds(A: Tensor, L: Tensor) -> bool:
    """Whether A_s^T L = I for every stacked A_s."""
    return close(A.mT @ L, torch.eye(L.shape[1], dtype=torch.float64).expand(len(A), -1, -1))


@examples
@given(seeds, st.integers(1, 4), st.integers(2, 5), st.integers(2, 6))
def test_affine_heads_have_exact_witnesses(seed: int, K: int, C: int, extra: int) -> None:
    """The converse of the hull, extrapolation included."""
    heads = normal(seed, K, C, K * (C - 1) + extra + 1)
    weights = affine_weights(seed + 1, K)
    witness = find_witness(affine_combination(heads, weights), heads)
    assert witness.fit_residual < 1e-8
    assert witness.biorthogonality_residual < 1e-8
    assert witness.rank == (C - 1 if K > 1 else 0)
    assert close(affine_combination(witness.sources, weights), witness.target, 1e-7)


@examples
@given(seeds, st.integers(1, 3), st.integers(2, 4))
def test_generic_targets_off_the_hull_have_exact_witnesses(seed: int, K: int, C: int) -> None:
    """With enough features the hull is not necessary for a witness."""
    d = (K + 1) * (C - 1) + 4
    witness = find_witness(normal(seed, C, d), normal(seed + 1, K, C, d))
    assert witness.fit_residual < 1e-8
    assert witness.biorthogonality_residual < 1e-8


@examples
@given(seeds, st.integers(2, 4), st.integers(2, 4))
def test_witness_solves_the_system_of_the_paper(seed: int, K: int, C: int) -> None:
    """(P5), and the source predictions carried to the target and to other sources."""
    d = (K + 1) * (C - 1) + 4
    target, sources = normal(seed, C, d), normal(seed + 1, K, C, d)
    witness = find_witness(target, sources)
    abductions = torch.stack([*witness.sources, witness.target])
    assert biorthogonality_holds(abductions, witness.basis)
    assert kernel_condition(list(abductions), witness.deduction).holds
    rows = normal(seed + 2, 6, d)
    for s in range(K):
        moved = witness.transplant(s)(rows)
        assert close((moved @ target.T).softmax(1), (rows @ sources[s].T).softmax(1), 1e-6)
        between = witness.transplant(s, 0)(rows)
        assert close((between @ sources[0].T).softmax(1), (rows @ sources[s].T).softmax(1), 1e-6)


def test_witness_heads_are_deduction_plus_abduction() -> None:
    """W_s = D^T + Q A_s^T for every domain, target included."""
    target, sources = normal(0, 3, 12), normal(1, 2, 3, 12)
    witness = find_witness(target, sources)
    centred = target - target.mean(dim=0)
    directions = centred @ witness.basis
    assert close(directions.T @ directions, torch.eye(2, dtype=torch.float64))
    assert close(witness.deduction.T + directions @ witness.target.T, centred)
    for head, abduction in zip(sources, witness.sources, strict=True):
        assert close(witness.deduction.T + directions @ abduction.T, head - head.mean(dim=0))


@examples
@given(seeds, st.integers(1, 4), st.integers(2, 4), st.integers(1, 8))
def test_constant_coordinate_and_unipotence_survive_infeasibility(
    seed: int, K: int, C: int, features: int
) -> None:
    """Whether or not the fit is exact, T is an affine bijection of phi."""
    witness = find_witness(normal(seed, C, features + 1), normal(seed + 1, K, C, features + 1))
    rows = with_constant(normal(seed + 2, 5, features))
    T = witness.transplant(0)
    assert torch.equal(T(rows)[:, -1], rows[:, -1])
    assert T.determinant() == pytest.approx(1.0, abs=1e-6)


def test_equal_heads_have_the_empty_witness() -> None:
    """No disagreement, no transplant: r = 0 and T is the identity."""
    head = normal(0, 3, 6)
    witness = find_witness(head, head.repeat(2, 1, 1))
    assert witness.rank == 0
    assert witness.basis.shape == (6, 0)
    assert witness.sources.shape == (2, 6, 0)
    assert witness.fit_residual == witness.biorthogonality_residual == 0.0
    rows = normal(1, 4, 6)
    assert torch.equal(witness.transplant(0)(rows), rows)
    assert witness.transplant(0, 1).determinant() == 1.0


def test_heads_apart_in_the_intercept_only() -> None:
    """The V_s then have no feature part, which leaves L unconstrained by them."""
    head = normal(0, 2, 6)
    sources = head.repeat(3, 1, 1)
    sources[:, 0, -1] += torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
    witness = find_witness(head, sources)
    assert witness.rank == 1
    assert max(witness.fit_residual, witness.biorthogonality_residual) < 1e-10


@examples
@given(seeds, st.integers(1, 3), st.integers(2, 4))
def test_witness_ignores_the_softmax_gauge(seed: int, K: int, C: int) -> None:
    """A row vector added to all classes of a head, shared or its own, changes nothing."""
    d = (K + 1) * (C - 1) + 4
    target, sources = normal(seed, C, d), normal(seed + 1, K, C, d)
    shift, own_shifts = normal(seed + 2, 1, d), normal(seed + 3, K, 1, d)
    plain = find_witness(target, sources)
    shifted = find_witness(target + shift, sources + shift + own_shifts)
    assert shifted.rank == plain.rank
    assert abs(shifted.fit_residual - plain.fit_residual) < 1e-8
    assert abs(shifted.biorthogonality_residual - plain.biorthogonality_residual) < 1e-8
    assert close(shifted.transplant(0).matrix(), plain.transplant(0).matrix(), 1e-6)


@pytest.mark.parametrize("common", [0.0, 0.3])
def test_binary_hull_through_zero_has_no_witness(common: float) -> None:
    """Heads on a line through zero leave the target no direction on which all heads agree."""
    line, apart = normal(0, 6), common * normal(1, 6)
    half_logits = torch.stack([apart + line, apart + 2.0 * line, apart + 4.0 * line])
    heads = torch.stack([half_logits, -half_logits], dim=1)
    witness = find_witness(heads[2], heads[:2])
    assert (witness.fit_residual < 1e-8) == (common > 0.0)
    assert (witness.biorthogonality_residual < 1e-8) == (common > 0.0)
    if common == 0.0:
        assert witness.fit_residual > 0.1


def test_uninformative_target_has_no_witness_and_mismatched_heads_are_refused() -> None:
    """A zero head reads nothing, so no transplant fits it. A single source still needs its axis."""
    witness = find_witness(torch.zeros(3, 9, dtype=torch.float64), normal(0, 2, 3, 9))
    assert witness.fit_residual > 0.1
    with pytest.raises(ValueError, match="K x C x d"):
        find_witness(normal(0, 3, 6), normal(1, 3, 6))


def test_deduction_component_is_an_invariant_representation() -> None:
    """`cor:invariant-rep` on a finite model with closed supports, summed out exactly.

    In rotated coordinates L = [I; 0], A_s = [I; B_s], D = [0; D'] and points are [z; v], so a
    transplant moves z by (B_s - B_s')^T v. Integer B and v keep the supports on one lattice,
    where those of different domains overlap and P^s(Y | W) can be compared point by point.
    """
    domains, r, tail = 3, 2, 5
    generator = torch.Generator().manual_seed(4)
    rotation = torch.linalg.qr(normal(5, r + tail, r + tail)).Q
    identity = torch.eye(r, dtype=torch.float64)
    shifts = torch.randint(-1, 2, (domains, tail, r), generator=generator).double()
    A = rotation @ torch.cat([identity.expand(domains, r, r), shifts], dim=1)
    L = rotation @ torch.cat([identity, torch.zeros(tail, r, dtype=torch.float64)])
    D = rotation @ torch.cat([torch.zeros(r, r, dtype=torch.float64), normal(6, tail, r)])
    assert biorthogonality_holds(A, L)

    fibres = torch.eye(tail, dtype=torch.float64)
    offsets = torch.cartesian_prod(*[torch.arange(4.0, dtype=torch.float64)] * r)
    points = torch.cat([offsets.repeat(tail, 1), fibres.repeat_interleave(len(offsets), 0)], 1)
    reference = points @ rotation.T
    within_fibre = normal(7, tail, len(offsets)).softmax(1)

    def label_probability(s: int, rows: Tensor) -> Tensor:
        return ((rows @ A[s]).softmax(1) * (rows @ D).sigmoid()).sum(1)

    conditionals, supports = [], []
    for s in range(domains):
        support = Transplant(L, A[0], A[s])(reference)
        marginal = normal(8 + s, tail).softmax(0)  # of W_D: free to differ between domains
        mass = (marginal[:, None] * within_fibre).flatten()
        _, deduction_part = decompose(support, L, A[1])
        keys, group = torch.unique((deduction_part * 1e6).round(), dim=0, return_inverse=True)
        assert len(keys) == tail
        nothing = torch.zeros(tail, dtype=torch.float64)
        joint = nothing.index_add(0, group, mass * label_probability(s, support))
        conditionals.append(joint / nothing.index_add(0, group, mass))
        supports.append(support)

    for s in range(1, domains):
        assert close(conditionals[s], conditionals[0], 1e-12)
        shared = supports[s][torch.cdist(supports[s], supports[0]).amin(1) < 1e-6]
        assert len(shared) > 10
        difference = label_probability(s, shared) - label_probability(0, shared)
        assert float(difference.abs().max()) > 0.05
    assert float(conditionals[0].max() - conditionals[0].min()) > 0.05
