"""The conditional randomization test: valid where domains say nothing, powerful where they do."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import binom
from torch import Tensor

import regraft.premises.randomization
from regraft.core.domains import check_domains
from regraft.premises.deduction_invariance import deduction_test
from regraft.premises.factorization import GroupedRows, group_rows
from regraft.premises.randomization import (
    Randomization,
    domain_probabilities,
    randomization_test,
    with_squares,
)
from tests.helpers.factorized_domains import Shift, draw_domains

PENALTY = 1.0  # a weak one, which data of such strong signals choose


def compare_deductions(seed: int, **options: Any) -> Randomization:
    """The test of y independent of s given x and u on a small problem."""
    rows = draw_domains(seed, d=3, **options).rows()
    return deduction_test(rows, PENALTY, draws=99, seed=seed)


@pytest.mark.parametrize("shift", ["prior", "inputs", "full"])
@pytest.mark.slow
def test_p_values_are_valid(shift: Shift) -> None:
    """Whether P(x | u) is shared or not, a tenth of them are below a tenth, up to chance."""
    found = [compare_deductions(seed, n=150, shift=shift).p_value for seed in range(50)]
    assert sum(p <= 0.1 for p in found) <= binom.ppf(0.999, 50, 0.1)
    assert np.mean(found) < 0.6  # nor are all of them large, which would be valid too


@pytest.mark.parametrize("shift", ["prior", "full"])
def test_strong_violations_are_found(shift: Shift) -> None:
    found = [
        compare_deductions(seed, n=150, shift=shift, reversed_last=True).p_value
        for seed in range(20)
    ]
    assert sum(p <= 0.01 for p in found) >= 19


def make_rows(seed: int = 0, n: int = 120, k: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Residuals (n, 1) of noise, rows (n, k) with a constant and two domains by chance."""
    rng = np.random.default_rng(seed)
    Z = np.column_stack([rng.standard_normal((n, k - 1)), np.ones(n)])
    residuals, domain = rng.standard_normal((n, 1)), rng.integers(2, size=n)
    return torch.from_numpy(residuals), torch.from_numpy(Z), torch.from_numpy(domain)


def chances(n: int, domains: int = 2) -> Tensor:
    return torch.full((n, domains), 1 / domains, dtype=torch.float64)


def compare(
    residuals: Tensor, Z: Tensor, domain: Tensor, p: Tensor | None = None, **options: Any
) -> Randomization:
    """The test of rows that all have the same group, and any of two domains by chance."""
    n = len(domain)
    p = chances(n) if p is None else p
    alike = torch.zeros(n, dtype=torch.int64)
    return randomization_test(residuals, Z, domain, alike, p, 1, **{"draws": 99, **options})


def test_the_p_value_is_that_of_all_draws() -> None:
    """Eight rows and a constant: 256 labellings, of which as many are as surprising."""
    residuals = torch.tensor([[3.0, 2.0, 1.0, 1.5, -2.5, -1.0, -2.0, 0.5]]).double().T
    domain = torch.tensor([0, 0, 1, 0, 1, 1, 0, 1])
    ones = torch.ones(8, 1, dtype=torch.float64)
    r = residuals[:, 0].numpy()
    sums = [abs(r @ (np.array(labels) - 0.5)) for labels in product([0, 1], repeat=8)]
    expected = np.mean(np.array(sums) >= abs(r @ (domain.numpy() - 0.5)) - 1e-9)
    found = compare(residuals, ones, domain, draws=9999)
    assert 0.02 < expected < 0.3
    assert found.p_value == pytest.approx(expected, abs=0.015)


def test_means_slopes_and_groups_are_seen_one_by_one() -> None:
    noise, Z, domain = make_rows(n=400)
    side = (2 * domain - 1).double().unsqueeze(1)
    in_mean = compare(noise + 0.5 * side, Z, domain)
    along = compare(noise + 0.5 * side * Z[:, :1], Z, domain)
    assert in_mean.p_value == along.p_value == 0.01
    assert in_mean.views["means by group"] > 20 and in_mean.views["slopes by group"] < 4
    assert along.views["slopes by group"] > 20 and along.views["means by group"] < 4
    (noise, Z, domain), group = make_rows(seed=4, n=400), torch.arange(400) % 2
    side = ((2 * domain - 1) * (2 * group - 1)).double().unsqueeze(1)
    found = randomization_test(noise + side, Z, domain, group, chances(400), 2, draws=99)
    assert found.p_value == 0.01
    assert found.views["means by group"] > 20 and found.views["means"] < 4


def test_the_violating_cell_is_found_even_among_hundreds_of_domains() -> None:
    noise, Z, domain = make_rows(seed=3, n=600)
    group = torch.arange(600) % 3
    side = (2 * domain - 1).double().unsqueeze(1)
    residuals = noise + torch.where(group == 1, 1.0, 0.0).unsqueeze(1) * side
    found = randomization_test(residuals, Z, domain, group, chances(600), 3, draws=199)
    assert found.views.keys() == {"means by group", "slopes by group", "means", "slopes"}
    assert found.cell_p_values.shape == (2, 3)
    assert found.cell_p_values[:, 1].tolist() == pytest.approx([1 / 200] * 2)
    assert float(found.cell_p_values[:, [0, 2]].min()) > 0.05
    n, guilty = 20 * 300, 280
    domain = torch.arange(n) % 300
    noise = np.random.default_rng(0).standard_normal((n, 1))
    residuals = torch.from_numpy(noise) + torch.where(domain == guilty, 30.0, 0.0).unsqueeze(1)
    ones = torch.ones(n, 1, dtype=torch.float64)
    found = compare(residuals, ones, domain, chances(n, 300), draws=199)
    assert found.cell_p_values[guilty].tolist() == pytest.approx([1 / 200])
    assert float(found.cell_p_values[guilty - 256]) > 0.05


def test_the_seed_decides_and_of_two_residuals_the_second_says_it_all() -> None:
    residuals, Z, domain = make_rows()
    first, other = (compare(residuals, Z, domain, seed=seed) for seed in (5, 6))
    both = torch.cat([-residuals, residuals], dim=1)
    for again in (residuals, both):
        same = compare(again, Z, domain, seed=5)
        assert same.p_value == first.p_value and same.views == first.views
    assert first.views != other.views


def test_residuals_of_zero_separated_domains_and_groups_without_rows() -> None:
    residuals, Z, domain = make_rows()
    certain = torch.nn.functional.one_hot(domain, 2).double()
    separated = compare(residuals, Z, domain, certain)
    assert separated.effective_rows == 0 and not separated.has_enough_rows
    for found in (separated, compare(0 * residuals, Z, domain)):
        assert found.p_value == 1 and found.cell_p_values.tolist() == [[1.0], [1.0]]
    residuals, Z, domain = make_rows(n=400)
    group = torch.arange(400) % 2
    p = chances(400)
    p[group == 1] = torch.tensor([1.0, 0.0], dtype=torch.float64)
    domain = torch.where(group == 1, 0, domain)
    residuals = residuals + (2 * domain - 1).double().unsqueeze(1)
    found = randomization_test(residuals, Z, domain, group, p, 3, draws=99)
    assert found.cell_p_values[:, 1:].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert found.cell_p_values[:, 0].tolist() == pytest.approx([0.01, 0.01])
    assert found.p_value == 0.01


# 149.6 and 150.28 of the 150 that it takes.
@pytest.mark.parametrize(("half", "has_enough_rows"), [(220, False), (221, True)])
def test_effective_rows_by_hand(half: int, has_enough_rows: bool) -> None:
    residuals, Z, domain = make_rows(n=2 * half)
    p = torch.tensor([[0.5, 0.5]] * half + [[0.9, 0.1]] * half, dtype=torch.float64)
    found = compare(residuals, Z, domain, p)
    assert found.effective_rows == pytest.approx(half * 0.5 + half * (1 - 0.81 - 0.01))
    assert found.has_enough_rows == has_enough_rows


@pytest.mark.parametrize(
    ("budget", "asked", "done"), [(250, 999, 250), (250, 120, 120), (3, 999, 99), (3, 20, 20)]
)
def test_huge_work_lowers_the_draws(
    monkeypatch: pytest.MonkeyPatch, budget: int, asked: int, done: int
) -> None:
    residuals, Z, domain = make_rows()
    work = 2 * 2 * 1 * Z.numel()  # multiply and add, of two domains and one residual
    monkeypatch.setattr(regraft.premises.randomization, "_MAX_OPERATIONS", budget * work)
    found = compare(residuals, Z, domain, draws=asked)
    assert found.draws == done
    assert found.p_value * (done + 1) == pytest.approx(round(found.p_value * (done + 1)))


def test_three_domains_with_groups_of_their_own_shares() -> None:
    """Estimated P(s | x, u) follows the shares of the groups and a slope common to them."""
    truth = draw_domains(0, n=6000, d=2, sources=3, shift="inputs")
    rows = truth.rows()
    p = domain_probabilities(rows.Z, rows.domain, 3, rows.group, 2)
    assert torch.allclose(p.sum(dim=1), torch.ones(len(p), dtype=torch.float64))
    for u in range(2):
        own = rows.group == u
        shares = torch.bincount(rows.domain[own], minlength=3).double() / int(own.sum())
        assert torch.allclose(p[own].mean(dim=0), shares, atol=1e-3)
    calibrated = p[:, 0] > 0.5
    assert int(calibrated.sum()) > 1000
    gap = p[calibrated, 0].mean() - (rows.domain[calibrated] == 0).double().mean()
    assert abs(float(gap)) < 0.02


def test_squares_come_before_the_rows() -> None:
    Z = torch.tensor([[2.0, -3.0, 1.0], [0.0, 0.5, 1.0]], dtype=torch.float64)
    assert with_squares(Z).tolist() == [[3.0, 8.0, 2.0, -3.0, 1.0], [-1.0, -0.75, 0.0, 0.5, 1.0]]
    wide = torch.arange(101, dtype=torch.float64).unsqueeze(0)
    # The last 32 of the 100 coordinates, the constant aside, are those of most variance.
    assert with_squares(wide)[0, :32].tolist() == [i**2 - 1 for i in range(68, 100)]
    assert torch.equal(with_squares(wide)[:, 32:], wide)


def spread_domains(seed: int) -> GroupedRows:
    """500 rows in each of three domains, whose inputs differ in their spread only.

    Labels follow a curve of the first feature that is the same in all of them.
    """
    rng = np.random.default_rng(seed)
    domain = np.repeat(np.arange(3), 500)
    X = rng.standard_normal((1500, 3)) * np.array([0.6, 1.0, 1.5])[domain, None]
    y = (rng.random(1500) < expit(X[:, 0] ** 2 - 1)).astype(int)
    group = torch.from_numpy(rng.integers(2, size=1500))
    return group_rows(check_domains(X, y, domain), group, 2)


def test_domains_that_differ_in_spread_are_told_apart_but_not_called_violated() -> None:
    rows = spread_domains(0)
    p = domain_probabilities(rows.Z, rows.domain, 3, rows.group, 2)
    own = p.gather(1, rows.domain.unsqueeze(1)).squeeze(1)
    assert float(own.log().mean()) > np.log(1 / 3) + 0.2
    far = rows.Z[:, :-1].square().sum(dim=1).topk(300).indices
    share = float((rows.domain[far] == 2).double().mean())
    assert 0.6 < float(p[far, 2].mean()) == pytest.approx(share, abs=0.05)
    found = [
        deduction_test(spread_domains(seed), PENALTY, draws=99, seed=seed).p_value
        for seed in range(20)
    ]
    assert sum(p <= 0.01 for p in found) <= 2
