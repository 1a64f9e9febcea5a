import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft.core.whitening import fit_whitening
from tests.helpers.problems import Problem


def _rows(seed: int, n: int = 200, d: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(d, d, dtype=torch.float64, generator=generator)
    X = torch.randn(n, d, dtype=torch.float64, generator=generator) @ mixing + 3
    weight = torch.rand(n, dtype=torch.float64, generator=generator)
    return X, weight / weight.sum()


@given(st.integers(0, 1000))
def test_unshrunk_rows_are_white(seed: int) -> None:
    X, weight = _rows(seed)
    Z = fit_whitening(X, weight)(X)
    moment = (Z * weight[:, None]).T @ Z
    assert torch.allclose(moment, torch.eye(6, dtype=torch.float64), atol=1e-6)


@given(st.integers(0, 1000), st.floats(0, 10))
def test_heads_mean_the_same_in_both_coordinates(seed: int, shrinkage: float) -> None:
    X, weight = _rows(seed)
    whitening = fit_whitening(X, weight).with_shrinkage(shrinkage)
    head = torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    raw = whitening.to_features(head)
    assert torch.allclose(X @ raw[:, :-1].T + raw[:, -1], whitening(X) @ head.T, atol=1e-8)


def test_penalty_is_the_ridge_under_another_shrinkage() -> None:
    X, weight = _rows(0)
    here, there = (fit_whitening(X, weight).with_shrinkage(s) for s in (0.1, 2.0))
    head = torch.randn(2, 6, dtype=torch.float64)
    ratio = torch.cat([there.scale / here.scale, torch.ones(1, dtype=torch.float64)])
    same_head_there = head * ratio
    assert torch.allclose((here.penalty(2.0) * head.square()).sum(), same_head_there.square().sum())
    assert torch.allclose(here(X) @ head.T, there(X) @ same_head_there.T)


def test_directions_without_variance_are_dropped() -> None:
    X, weight = _rows(0)
    X = torch.cat([X, X[:, :1] + X[:, 1:2], torch.ones(len(X), 1, dtype=torch.float64)], dim=1)
    whitening = fit_whitening(X, weight)
    assert len(whitening.eigenvalues) == 5
    assert whitening(X).isfinite().all()


def test_order_and_half_precision(problem: Problem) -> None:
    X = torch.from_numpy(problem.X.astype(np.float32))
    weight = torch.full((len(X),), 1 / len(X), dtype=torch.float64)
    whitening = fit_whitening(X, weight)
    order = torch.randperm(len(X))
    assert torch.equal(whitening(X, order), whitening(X)[order])
    assert whitening(X).dtype == torch.float64


def test_constant_columns_leave_before_the_decomposition() -> None:
    X = torch.randn(30, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weight = torch.full((30,), 1 / 30, dtype=torch.float64)
    wide = torch.full((30, 40), 0.1, dtype=torch.float64)
    places = torch.arange(3, 35, 4)
    wide[:, places] = X
    alone, among = fit_whitening(X, weight), fit_whitening(wide, weight)
    assert torch.allclose(among.eigenvalues, alone.eigenvalues)
    assert torch.allclose(among.basis[places].abs(), alone.basis.abs())
    assert int(among.basis.any(dim=1).sum()) == 8
    nothing = fit_whitening(wide[:, :3], weight)
    assert nothing.basis.shape == (3, 0) and nothing(wide[:, :3]).shape == (30, 1)
