import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regraft.core.group_mixture import (
    BinnedScores,
    ExpectedRows,
    GroupMixture,
    bin_scores,
    expect,
    fit_mixture,
    maximize,
)
from tests.helpers.problems import normal


def _scores(seed: int, n: int, separation: float, shares: tuple[float, ...] = (0.9, 0.6)):
    s = torch.arange(n) % len(shares)
    u = torch.rand(n, generator=torch.Generator().manual_seed(seed)) < torch.tensor(shares)[s]
    t = normal(seed, n) + separation * u
    return t, s, u


def _start(seed: int, separation: float, n_groups: int) -> tuple[BinnedScores, GroupMixture]:
    """Bin the scores of two problems, and return mixtures of components drawn at random."""
    t, s, _ = _scores(seed, 200, separation)
    binned = bin_scores(t, torch.arange(200) // 100, s, 2, 2)
    random = torch.Generator().manual_seed(seed)
    belief = torch.rand(2, 128, n_groups, dtype=torch.float64, generator=random)
    belief = belief / belief.sum(dim=2, keepdim=True)
    rows = ExpectedRows(binned.rows.unsqueeze(2) * belief, binned.count.mT @ belief)
    return binned, maximize(binned, rows)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.0, 8.0), st.sampled_from([2, 3]))
def test_no_step_lowers_the_likelihood(seed: int, separation: float, n_groups: int) -> None:
    binned, mixture = _start(seed, separation, n_groups)
    expected, before = expect(binned, mixture)
    for _ in range(30):
        expected, after = expect(binned, maximize(binned, expected))
        assert (after >= before - 1e-9).all()
        before = after


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.0, 300.0), st.sampled_from([2, 3]))
def test_expected_rows_are_the_beliefs_of_every_bin_and_source(
    seed: int, separation: float, n_groups: int
) -> None:
    binned, mixture = _start(seed, separation, n_groups)
    expected, likelihood = expect(binned, mixture)
    squares = (binned.center.unsqueeze(2) - mixture.mean.unsqueeze(1)).square()
    variance = mixture.variance[:, None, None]
    log_density = -0.5 * (squares / variance + variance.log())
    joint = log_density.unsqueeze(2) + mixture.shares.log().unsqueeze(1)  # (P, B, K, G)
    rows = binned.count.unsqueeze(3) * torch.softmax(joint, dim=3)
    assert torch.allclose(expected.in_bin, rows.sum(dim=2), atol=1e-9)
    assert torch.allclose(expected.in_source, rows.sum(dim=1), atol=1e-9)
    evidence = (binned.count * torch.logsumexp(joint, dim=3)).sum(dim=(1, 2))
    assert torch.allclose(likelihood, evidence / binned.count.sum(dim=(1, 2)))


def test_known_groups_and_shares_are_recovered() -> None:
    t, s, u = _scores(0, 20_000, 5.0)
    mixture = fit_mixture(bin_scores(t, torch.zeros(20_000, dtype=int), s, 1, 2), 2)
    assert mixture.mean[0].tolist() == pytest.approx([0.0, 5.0], abs=0.1)
    assert float(mixture.variance) == pytest.approx(1.0, abs=0.1)
    expected = [float(u[s == k].double().mean()) for k in range(2)]
    assert mixture.shares[0, :, 1].tolist() == pytest.approx(expected, abs=0.01)
    assert float(mixture.separation) == pytest.approx(5.0, abs=0.2)


def test_bins_keep_every_row_and_the_mean_score() -> None:
    t, s, _ = _scores(1, 999, 2.0)
    binned = bin_scores(t, torch.arange(999) % 3, s, 3, 2)
    assert binned.count.sum() == 999
    for p in range(3):
        total = (binned.count[p].sum(dim=1) * binned.center[p]).sum()
        assert float(total) == pytest.approx(float(t[torch.arange(999) % 3 == p].sum()))


def test_turning_the_score_round_turns_the_groups_round() -> None:
    t, s, _ = _scores(2, 2000, 3.0)
    problem = torch.zeros(2000, dtype=int)
    there = fit_mixture(bin_scores(t, problem, s, 1, 2), 2)
    back = fit_mixture(bin_scores(-t, problem, s, 1, 2), 2)
    assert torch.allclose(there.mean, -back.mean.flip(1), atol=1e-2)
    assert torch.allclose(there.shares, back.shares.flip(2), atol=1e-2)


def test_equal_scores_are_no_trouble() -> None:
    t, s = torch.ones(10, dtype=torch.float64), torch.arange(10) % 2
    mixture = fit_mixture(bin_scores(t, torch.zeros(10, dtype=int), s, 1, 2), 2)
    assert torch.isfinite(mixture.shares).all()
    assert torch.isfinite(mixture.likelihood).all()
