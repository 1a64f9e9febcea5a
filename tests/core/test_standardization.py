import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from regraft.core.domains import check_domains
from regraft.core.heads import SourceHeads
from regraft.core.standardization import Standardized, standardize, standardize_columns
from tests.helpers.problems import Problem, make_problem, normal, with_constant


def _fit(p: Problem, X: NDArray[np.float64]) -> tuple[SourceHeads, Standardized]:
    sources = Problem(X, p.y, p.domain).sources
    return sources, standardize(sources)


def _uneven(seed: int) -> Problem:
    """Two sources of different sizes, features of different scales and far from zero."""
    p = make_problem(seed, n=120, d=4)
    scales = np.array([0.01, 1.0, 5.0, 40.0])
    return Problem(p.X * scales + 3 * scales[::-1], p.y, p.domain).take(slice(0, 200))


def _raw(X: NDArray[np.float64], sources: SourceHeads) -> Tensor:
    """Rows [x, 1], in the order of ``sources``."""
    return with_constant(torch.from_numpy(X)[sources.order])


@given(st.integers(0, 100))
def test_rows_are_those_of_the_sources_with_mean_zero_and_deviation_one(seed: int) -> None:
    p = _uneven(seed)
    sources, scaled = _fit(p, p.X)
    x, weight = scaled.rows.Z[:, :-1], scaled.rows.weight
    assert torch.allclose(weight @ x, torch.zeros(4, dtype=torch.float64), atol=1e-9)
    assert torch.allclose(weight @ x.square(), torch.ones(4, dtype=torch.float64))
    assert bool((scaled.rows.Z[:, -1] == 1).all())
    assert scaled.rows.Z.dtype == torch.float64
    raw = torch.from_numpy(p.X)[sources.order]
    assert torch.allclose(x, (raw - scaled.mean) / scaled.scale, atol=1e-8)
    assert torch.equal(scaled.rows.y, torch.from_numpy(p.y)[sources.order])
    assert torch.equal(scaled.rows.weight, sources.weight)


@given(st.integers(0, 100))
def test_the_maps_of_heads_are_inverse_and_keep_the_logits(seed: int) -> None:
    p = _uneven(seed)
    sources, scaled = _fit(p, p.X)
    for heads in (normal(seed, 2, 5), normal(seed, 3, 2, 5)):
        assert torch.allclose(scaled.from_features(scaled.to_features(heads)), heads, atol=1e-9)
        assert torch.allclose(scaled.to_features(scaled.from_features(heads)), heads, atol=1e-9)
    raw, head = _raw(p.X, sources), normal(seed, 2, 5)
    assert torch.allclose(raw @ scaled.to_features(head).T, scaled.rows.Z @ head.T, atol=1e-7)
    assert torch.allclose(raw @ head.T, scaled.rows.Z @ scaled.from_features(head).T, atol=1e-7)


def test_the_pooled_head_predicts_the_same_in_all_coordinates(problem: Problem) -> None:
    sources, scaled = _fit(problem, problem.X)
    head = scaled.from_features(sources.whitening.to_features(sources.pooled))
    assert torch.allclose(scaled.rows.Z @ head.T, sources.Z @ sources.pooled.T, atol=1e-9)
    # A head of single precision becomes one of double.
    head = scaled.from_features(normal(0, 2, 7).float())
    assert head.dtype == torch.float64
    assert scaled.to_features(head).dtype == torch.float64


@pytest.mark.filterwarnings("ignore:1 of 7 features are constant")
@pytest.mark.parametrize("deviation", [0.0, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-2])
def test_a_feature_that_hardly_varies_is_harmless(problem: Problem, deviation: float) -> None:
    noise = np.random.default_rng(0).standard_normal((len(problem.X), 1))
    X = np.concatenate([problem.X, 3 + deviation * noise], axis=1)
    sources, scaled = _fit(problem, X)
    assert bool(torch.isfinite(scaled.rows.Z).all())
    assert bool((scaled.scale > 0).all())
    head = normal(1, 2, 8)
    logits = _raw(X, sources) @ scaled.to_features(head).T
    assert torch.allclose(logits, scaled.rows.Z @ head.T, atol=1e-3)
    if deviation == 0:  # a constant stays at zero
        _, plain = _fit(problem, problem.X)
        assert torch.allclose(scaled.rows.Z[:, 6], torch.zeros(600).double(), atol=1e-9)
        assert float(scaled.scale[6]) == 1
        assert torch.allclose(scaled.rows.Z[:, :6], plain.rows.Z[:, :6], atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.filterwarnings("ignore")
def test_columns_have_mean_zero_and_variance_one_and_constants_vanish(dtype: type) -> None:
    p = _uneven(3)
    X = np.column_stack([p.X, np.full(len(p.X), 3.3)]).astype(dtype)
    domains = check_domains(X, p.y, p.domain)
    found = standardize_columns(domains)
    X64 = found.X.double()
    assert found.X.dtype == (torch.float64 if dtype is np.float64 else torch.float32)
    expected = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    assert torch.allclose(domains.weight @ X64, torch.zeros(5).double(), atol=1e-5)
    assert torch.allclose(domains.weight @ X64.square(), expected, atol=1e-5)
    assert bool((found.X[:, -1] == 0).all()) and np.array_equal(domains.X.numpy(), X)
