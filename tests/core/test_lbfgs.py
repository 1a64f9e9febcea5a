import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft.core.lbfgs import minimize_batch


@given(st.integers(0, 500), st.integers(1, 6))
def test_solves_a_batch_of_quadratics(seed: int, batch: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(batch, 5, 5, dtype=torch.float64, generator=generator)
    matrix = root @ root.transpose(1, 2) + 0.1 * torch.eye(5, dtype=torch.float64)
    linear = torch.randn(batch, 5, dtype=torch.float64, generator=generator)

    def value_and_gradient(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        image = torch.einsum("bij,bj->bi", matrix, x)
        return (x * image).sum(dim=1) / 2 - (linear * x).sum(dim=1), image - linear

    start = torch.zeros(batch, 5, dtype=torch.float64)
    answer = minimize_batch(value_and_gradient, start, lambda g: g, tolerance=1e-16)
    assert torch.allclose(answer, torch.linalg.solve(matrix, linear), atol=1e-5)


def test_problems_do_not_disturb_each_other() -> None:
    def value_and_gradient(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scale = torch.tensor([[1.0], [1e4]], dtype=torch.float64)[: len(x)]
        return (scale * (x.cosh() - 1)).sum(dim=1), scale * x.sinh()

    start = torch.full((2, 3), 2.0, dtype=torch.float64)
    both = minimize_batch(value_and_gradient, start, lambda g: g, tolerance=1e-14)
    alone = minimize_batch(value_and_gradient, start[:1], lambda g: g, tolerance=1e-14)
    assert torch.allclose(both, torch.zeros_like(both), atol=1e-4)
    assert torch.allclose(both[:1], alone, atol=1e-6)


def test_a_preconditioner_of_the_wrong_size_costs_one_search_for_a_step() -> None:
    evaluations = 0

    def value_and_gradient(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        nonlocal evaluations
        evaluations += 1
        return (x.cosh() - 1).sum(dim=1), x.sinh()

    start = torch.tensor([[1.0, -0.5, 0.25]], dtype=torch.float64)
    answer = minimize_batch(value_and_gradient, start, lambda g: 1000 * g, tolerance=1e-12)
    assert torch.allclose(answer, torch.zeros_like(answer), atol=1e-6)
    assert evaluations <= 20  # 36 if the size is searched for again in each step
