"""The quadratic program on a simplex of few vertices."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft.core import simplex
from regraft.core.simplex import maximize_on_simplex


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_no_point_of_the_simplex_is_better(t: int, rank: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    factor = random.standard_normal((t, rank))  # of a rank below t, some faces are flat
    matrix, linear = factor @ factor.T, random.standard_normal(t)
    q = maximize_on_simplex(torch.from_numpy(matrix), torch.from_numpy(linear)).numpy()
    assert (q >= 0).all() and abs(q.sum() - 1) < 1e-12
    others = random.dirichlet(np.full(t, 0.3), size=200)
    values = others @ linear - 0.5 * np.einsum("ij,jk,ik->i", others, matrix, others)
    assert q @ linear - 0.5 * q @ matrix @ q >= values.max() - 1e-7


def test_faces_and_search_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    factor = random.standard_normal((4, 4))
    problem = torch.from_numpy(factor @ factor.T), torch.from_numpy(random.standard_normal(4))
    exact = maximize_on_simplex(*problem)
    monkeypatch.setattr(simplex, "_FEW_VERTICES", 0)
    torch.testing.assert_close(maximize_on_simplex(*problem), exact, rtol=0, atol=1e-6)
