import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from regraft.core import curvature
from regraft.core.curvature import hessian, hessian_diagonal
from regraft.core.newton import (
    losses,
    minimax_newton,
    minimize_largest_risk,
    soft_risks_in_memory,
)
from tests.helpers.problems import make_problem, normal, with_constant


def _data(
    seed: int, targets: int, classes: int = 3
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    problem = make_problem(seed, n=60, d=3, classes=classes)
    Z = with_constant(torch.from_numpy(problem.X))
    weights = torch.rand(
        targets, len(Z), dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    ).pow(4)
    return Z, torch.from_numpy(problem.y), weights / weights.sum(dim=1, keepdim=True)


def _objective(
    Z: torch.Tensor, y: torch.Tensor, weights: torch.Tensor, ridge: float, head: torch.Tensor
) -> torch.Tensor:
    loss = losses(torch.log_softmax(Z @ head.T, dim=1), y)
    return (weights @ loss).max() + ridge * head.square().sum()


def test_one_target_is_logistic_regression() -> None:
    Z, y, weights = _data(0, 1)
    solution = minimax_newton(Z, y, weights, ridge=0.01, start=Z.new_zeros((3, 4)), tolerance=1e-10)
    peer = LogisticRegression(C=1 / 0.02, fit_intercept=False, tol=1e-10, max_iter=10_000)
    peer.fit(Z.numpy(), y.numpy(), sample_weight=weights[0].numpy())
    assert np.allclose(solution.head.numpy(), peer.coef_, atol=1e-4)


@given(st.integers(0, 200), st.integers(1, 5))
def test_gap_bounds_what_any_other_head_could_gain(seed: int, targets: int) -> None:
    Z, y, weights = _data(seed, targets)
    solution = minimax_newton(Z, y, weights, ridge=1e-3, start=Z.new_zeros((3, 4)), tolerance=1e-7)
    assert 0 <= solution.gap <= 1e-7
    assert solution.value == pytest.approx(
        float(_objective(Z, y, weights, 1e-3, solution.head)), abs=1e-12
    )
    generator = torch.Generator().manual_seed(seed)
    for scale in (1e-3, 1e-1, 1.0):
        step = torch.randn(solution.head.shape, dtype=torch.float64, generator=generator)
        other = _objective(Z, y, weights, 1e-3, solution.head + scale * step)
        assert float(other) >= solution.value - solution.gap


def test_agrees_with_a_smooth_epigraph_solver() -> None:
    Z, y, weights = _data(3, 3, classes=2)
    solution = minimax_newton(Z, y, weights, ridge=1e-2, start=Z.new_zeros((2, 4)), tolerance=1e-9)
    shape = (2, 4)

    def slack(v: np.ndarray) -> np.ndarray:
        head = torch.from_numpy(v[:-1]).reshape(shape)
        loss = losses(torch.log_softmax(Z @ head.T, dim=1), y)
        return v[-1] - (weights @ loss).numpy()

    peer = minimize(
        lambda v: v[-1] + 1e-2 * (v[:-1] ** 2).sum(),
        np.append(np.zeros(8), 1.0),
        constraints={"type": "ineq", "fun": slack},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert solution.value == pytest.approx(peer.fun, abs=1e-5)


@given(st.integers(0, 100))
def test_mixture_is_a_dual_certificate(seed: int) -> None:
    Z, y, weights = _data(seed, 4)
    solution = minimax_newton(Z, y, weights, ridge=1e-2, start=Z.new_zeros((3, 4)), tolerance=1e-8)
    q = solution.mixture
    assert float(q.sum()) == pytest.approx(1)
    assert bool((q >= 0).all())
    mixed = minimax_newton(
        Z, y, (q @ weights)[None], ridge=1e-2, start=solution.head, tolerance=1e-10
    )
    assert mixed.value == pytest.approx(solution.value, abs=1e-7)  # strong duality


def test_offsets_shift_the_targets() -> None:
    Z, y, weights = _data(1, 2)
    far = torch.tensor([0.0, 100.0], dtype=torch.float64)
    solution = minimax_newton(Z, y, weights, ridge=1e-2, start=Z.new_zeros((3, 4)), offsets=far)
    alone = minimax_newton(Z, y, weights[:1], ridge=1e-2, start=Z.new_zeros((3, 4)))
    assert torch.allclose(solution.head, alone.head, atol=1e-2)
    assert float(solution.mixture[1]) == pytest.approx(0, abs=1e-9)


def test_anchor_and_column_ridges() -> None:
    Z, y, weights = _data(2, 1)
    anchor = normal(0, 3, 4)
    strong = minimax_newton(Z, y, weights, ridge=1e6, start=Z.new_zeros((3, 4)), anchor=anchor)
    assert torch.allclose(strong.head, anchor, atol=1e-4)
    ridge = torch.tensor([1e4, 1e-2, 1e-2, 1e-2], dtype=torch.float64)
    held = minimax_newton(Z, y, weights, ridge=ridge, start=Z.new_zeros((3, 4)))
    assert float(held.head[:, 0].abs().max()) < 1e-4 < float(held.head[:, 1].abs().max())


def test_hessian_is_the_second_derivative() -> None:
    Z, y, weights = _data(4, 1)
    head = normal(1, 3, 4)

    def risk(h: torch.Tensor) -> torch.Tensor:
        return weights[0] @ losses(torch.log_softmax(Z @ h.reshape(3, 4).T, dim=1), y)

    exact = torch.autograd.functional.hessian(risk, head.flatten())
    p = torch.softmax(Z @ head.T, dim=1)
    assert torch.allclose(hessian(Z, p, weights[0]), exact, atol=1e-10)
    assert torch.allclose(hessian_diagonal(Z, p, weights[0]).flatten(), exact.diagonal())


@given(st.integers(0, 100), st.integers(1, 3), st.integers(2, 4))
def test_dense_systems_are_solved_exactly(seed: int, targets: int, classes: int) -> None:
    Z, _, weights = _data(seed, targets)
    p = torch.softmax(Z @ normal(seed, classes, 4).T, dim=1)
    ridge, rhs = torch.linspace(1e-2, 1, 4).double(), normal(seed + 1, targets, classes * 4)
    matrix = hessian(Z, p, weights[0])
    expected = torch.linalg.solve(matrix + torch.diag(2 * ridge.repeat(classes)), rhs.T).T
    found = curvature.solve_dense(matrix, ridge, rhs.reshape(targets, classes, 4))
    assert torch.allclose(found.flatten(1), expected, atol=1e-10)


@given(st.integers(0, 100), st.integers(1, 3))
def test_conjugate_gradients_solve_the_dense_system(seed: int, targets: int) -> None:
    Z, _, weights = _data(seed, targets)
    p = torch.softmax(Z @ normal(seed, 3, 4).T, dim=1)
    ridge = torch.full((4,), 1e-2, dtype=torch.float64)
    rhs = torch.randn(targets, 3, 4, dtype=torch.float64)
    dense = curvature.solve_dense(hessian(Z, p, weights[0]), ridge, rhs)
    curved = p * weights[0].unsqueeze(1)
    system = (
        hessian_diagonal(Z, p, weights[0]),
        lambda v: curvature.curvature_product(Z, p.T, curved.T, v),
        ridge,
    )
    for tolerance in (3e-2, 3e-5):
        conjugate = curvature.solve_conjugate(*system, rhs, tolerance)
        residual = (conjugate - dense).flatten(1).norm(dim=1)
        assert bool((residual <= 7 * tolerance * dense.flatten(1).norm(dim=1)).all())
        nothing = torch.zeros_like(rhs)
        solved = curvature.solve_conjugate(*system, nothing, tolerance)
        assert torch.equal(solved, nothing)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_that_fail_are_solved_for_more_precisely(dtype: torch.dtype) -> None:
    """More columns than it pays to factorize for, and a gap that coarse directions miss."""
    generator = torch.Generator().manual_seed(0)
    Z = torch.randn(400, 60, generator=generator).to(dtype)
    y = torch.randint(4, (400,), generator=generator)
    weights = torch.rand(3, 400, dtype=torch.float64, generator=generator)
    weights /= weights.sum(dim=1, keepdim=True)
    start = torch.zeros(4, 60, dtype=torch.float64)
    assert not curvature.prefers_dense_hessian(400, 60, 4)
    answer = minimax_newton(Z, y, weights, ridge=1e-2, start=start, tolerance=1e-6)
    assert answer.gap <= 1e-6


@given(st.integers(0, 200))
def test_shares_of_classes_count_like_a_row_for_each_class(seed: int) -> None:
    Z, _, weights = _data(seed, 2)
    shares = torch.softmax(normal(seed, len(Z), 3), dim=1)
    start = Z.new_zeros((3, 4))
    soft = minimize_largest_risk(
        soft_risks_in_memory(Z, shares, weights, 1e-2), ridge=1e-2, start=start, tolerance=1e-12
    )
    labels = torch.arange(3).repeat_interleave(len(Z))
    pairs = (weights.unsqueeze(1) * shares.T).flatten(1)
    hard = minimax_newton(Z.repeat(3, 1), labels, pairs, ridge=1e-2, start=start, tolerance=1e-12)
    assert torch.allclose(soft.head, hard.head, atol=1e-6)
    assert torch.allclose(soft.risks, hard.risks, atol=1e-9)
