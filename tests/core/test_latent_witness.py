"""The abduction map of hidden groups."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from regraft.core.latent_witness import fit_group_map
from regraft.core.whitening import fit_whitening


@given(st.integers(0, 10_000), st.integers(2, 4), st.integers(1, 6), st.floats(1e-4, 1.0))
def test_the_map_is_the_discriminant_of_the_covariance_within_groups(
    seed: int, groups: int, d: int, ridge: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn((60, d), generator=generator, dtype=torch.float64)
    weight = torch.full((60,), 1 / 60, dtype=torch.float64)
    belief = torch.softmax(3 * X @ torch.randn((d, groups), generator=generator).double(), dim=1)
    whitening = fit_whitening(X, weight)
    Z = whitening(X)
    found = fit_group_map(Z, weight, belief, whitening, ridge)

    rows, mass = Z[:, :-1].double(), weight @ belief
    means = (belief * weight[:, None]).T @ rows / mass[:, None]
    total = (rows * weight[:, None]).T @ rows
    within = total - (means * mass[:, None]).T @ means + 2 * ridge * torch.eye(rows.shape[1])
    coef = means @ torch.linalg.inv(within)
    torch.testing.assert_close(found[:, :-1], coef, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(found[:, -1], mass.log() - 0.5 * (coef * means).sum(dim=1))
