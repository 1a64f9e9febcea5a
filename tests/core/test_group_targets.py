"""The adversary over mixtures of groups is exact, against brute force."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regraft.core.group_targets import GroupAdversary, GroupTargets
from regraft.core.newton import log_probabilities, losses
from tests.helpers.problems import normal

SHIFTS = pytest.mark.parametrize("prior_shift", [None, 0.0, 0.7, 3.0])


def _targets(seed: int, G: int, **options: object) -> tuple[GroupTargets, Tensor]:
    n = 60
    base = torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    belief = torch.softmax(2 * normal(seed, n, G), dim=1)
    y = torch.arange(n) % 3
    targets = GroupTargets(belief, base / base.sum(), y, 3, **options)  # type: ignore[arg-type]
    return targets, normal(seed + 1, n).abs()


def _mixtures(targets: GroupTargets, rows: Tensor) -> Tensor:
    """Draw many allowed mixtures of the groups in some rows, as weights that sum to their mass."""
    G, shift = targets.belief.shape[1], targets.prior_shift
    generator = torch.Generator().manual_seed(0)
    if shift is None:
        tilt = torch.distributions.Dirichlet(torch.full((G,), 0.3)).sample((500,)).double()
    else:
        tilt = torch.exp(-shift * torch.rand(500, G, generator=generator, dtype=torch.float64))
    weights = tilt @ (targets.belief * (targets.base * rows).unsqueeze(1)).T
    return targets.base[rows].sum() * weights / weights.sum(dim=1, keepdim=True)


@SHIFTS
@pytest.mark.parametrize("G", [2, 3])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_no_mixture_is_worse(seed: int, G: int, prior_shift: float | None) -> None:
    targets, loss = _targets(seed, G, prior_shift=prior_shift)
    worst, _ = targets.worst(loss)
    assert float(worst.sum()) == pytest.approx(1.0)
    everywhere = torch.ones(60, dtype=torch.bool)
    assert float(worst @ loss) >= float((_mixtures(targets, everywhere) @ loss).max()) - 1e-9


@SHIFTS
def test_classes_that_choose_for_themselves_keep_the_shares_of_the_labels(
    prior_shift: float | None,
) -> None:
    targets, loss = _targets(3, 2, prior_shift=prior_shift, class_groups=True)
    worst, picks = targets.worst(loss)
    assert len(picks) == 3
    best = 0.0
    for c in range(3):
        rows = targets.y == c
        assert float(worst[rows].sum()) == pytest.approx(float(targets.base[rows].sum()))
        best += float((_mixtures(targets, rows) @ loss).max())
    assert float(worst @ loss) >= best - 1e-9
    together, _ = _targets(3, 2, prior_shift=prior_shift)
    assert math.isfinite(float(together.worst(loss)[0] @ loss))


def test_no_shift_is_the_pooled_rows() -> None:
    targets, loss = _targets(0, 2, prior_shift=0.0)
    assert torch.allclose(targets.worst(loss)[0], targets.base)


def test_the_pooled_rows_lie_among_the_mixtures() -> None:
    targets, _ = _targets(1, 3)
    mass = targets.base @ targets.belief
    assert torch.allclose(mass @ targets.blocks[0], targets.base)


def test_the_adversary_returns_the_worst_group() -> None:
    targets, _ = _targets(2, 2)
    Z, head = normal(5, 60, 4), normal(6, 3, 4)
    target = GroupAdversary(Z, targets).attack(head)
    loss = losses(log_probabilities(Z, head), targets.y)
    assert target.sample.value(head) == pytest.approx(float((targets.blocks[0] @ loss).max()))


def test_purity_is_the_expected_share_of_the_right_rows() -> None:
    targets, _ = _targets(4, 2)
    expected = (targets.blocks[0] * targets.belief.T).sum(dim=1)
    assert torch.allclose(targets.purity[0], expected)
    certain = GroupTargets((targets.belief > 0.5).double(), targets.base, targets.y, 3)
    assert torch.allclose(certain.purity[0], torch.ones(2, dtype=torch.float64))
    pooled, _ = _targets(4, 2, prior_shift=0.0)
    assert torch.allclose(pooled.purity[0], torch.ones(2, dtype=torch.float64))
