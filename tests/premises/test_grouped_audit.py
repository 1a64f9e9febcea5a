"""Worst cases over abductions on domains whose maps are known."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import expit
from torch import Tensor

from regraft.core.hull import fit_hull
from regraft.core.newton import log_probabilities, losses
from regraft.premises.factorization import fix_gauge
from regraft.premises.grouped_audit import (
    AbductionHull,
    GroupedAudit,
    audit_abductions,
    place_abduction,
    span_abductions,
)
from regraft.premises.multinomial_maps import OutcomeData, fit_map
from tests.helpers.problems import with_constant


def real(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


NAMES = ("Aarau", "Bern", "Chur")
GROUPS = ("old", "young", "newborn")
ROWS = 20_000  # of each domain
# Of x (2,), with variance one; domains differ in P(x), so that P(s | x) counts.
MEANS = real([[-0.5, 0.0], [0.5, 0.3], [0.0, -0.6]])
# (K, 3, 3) from [x, 1] to groups.
ABDUCTIONS = fix_gauge(
    real(
        [
            [[1.0, 0.0, -0.5], [0.0, 0.4, 0.0], [0.8, 0.0, -0.4]],
            [[-0.4, 0.3, 0.0], [0.5, 0.0, -0.5], [-0.6, 0.5, 0.2]],
            [[0.0, -0.6, 0.6], [-0.7, 0.0, 0.3], [0.0, -0.3, 0.5]],
        ]
    )
)
# (3, 3) from [x, 1] to the log-odds of y = 1 in each group: two groups contradict each other.
DEDUCTION = real([[2.0, -2.0, 0.0], [0.0, 0.5, 1.0], [0.5, -0.5, 0.0]])
# (2, 3): the predictor to audit, a head on [x, 1].
HEAD = real([[-0.8, 0.1, 0.0], [0.8, -0.1, 0.3]])


@dataclass(frozen=True)
class Rows:
    """Rows [x, 1] (n, 3) of domains with the same share, and the losses of ``HEAD`` there."""

    Z: Tensor
    domain: Tensor
    group: Tensor
    loss: Tensor

    @property
    def weight(self) -> Tensor:
        rows = torch.bincount(self.domain)
        return 1 / (len(rows) * rows.double())[self.domain]


def read_losses(Z: Tensor, group: Tensor, rng: torch.Generator) -> Tensor:
    """Draw labels by the deduction of each row's group; return the losses of ``HEAD``."""
    odds = (Z @ DEDUCTION).gather(1, group.unsqueeze(1)).squeeze(1)
    y = (torch.rand(len(Z), generator=rng) < torch.sigmoid(odds)).long()
    return losses(log_probabilities(Z, HEAD), y)


def draw(abductions: Tensor, seed: int, n: int = ROWS) -> Rows:
    """``n`` rows around each of the means, in the groups that these maps (K, 3, 3) give them."""
    rng = torch.Generator().manual_seed(seed)
    domain = torch.arange(len(abductions)).repeat_interleave(n)
    x = MEANS[domain] + torch.randn(len(domain), 2, generator=rng, dtype=torch.float64)
    Z = with_constant(x)
    share = torch.softmax(torch.einsum("nk,nkr->nr", Z, abductions[domain]), dim=1)
    group = torch.multinomial(share, 1, generator=rng).squeeze(1)
    return Rows(Z, domain, group, read_losses(Z, group, rng))


def draw_target(mix: Tensor, seed: int) -> Rows:
    """Rows with P(x) of the sources together, and the combination ``mix`` of their abductions."""
    return draw(torch.tensordot(mix, ABDUCTIONS, dims=1).expand(3, -1, -1), seed)


def span(abductions: Tensor, rows: Rows) -> AbductionHull:
    return span_abductions(abductions, rows.Z, rows.domain, rows.weight, penalty=1.0)


def audit(spanned: AbductionHull, rows: Rows, radius: float) -> GroupedAudit:
    names = NAMES[: len(spanned.abductions)]
    return audit_abductions(
        spanned, rows.loss, rows.Z, rows.group, rows.weight, radius, names=names, groups=GROUPS
    )


def value_at(spanned: AbductionHull, rows: Rows, z: Tensor) -> float:
    """The risk of the surrogate at ``z``: the audit's worst case around it, within no radius."""
    moved = replace(spanned.hull, center=spanned.hull.head(z))
    return audit(replace(spanned, hull=moved), rows, 0.0).worst_case


def coordinates(spanned: AbductionHull, weights: Tensor) -> Tensor:
    """The place of the affine combination ``weights`` (K,) of the sources."""
    return weights @ spanned.hull.sources


@pytest.fixture(scope="module")
def rows() -> Rows:
    return draw(ABDUCTIONS, seed=0)


@pytest.fixture(scope="module")
def spanned(rows: Rows) -> AbductionHull:
    return span(ABDUCTIONS, rows)


def surrogate_error(rows: Rows, abduction: Tensor) -> float:
    """The standard error of the surrogate's risk for a target with this abduction (3, 3)."""
    mixing = MEANS @ rows.Z[:, :2].T - MEANS.square().sum(dim=1, keepdim=True) / 2
    shares = torch.softmax(torch.einsum("nk,skr->snr", rows.Z, ABDUCTIONS), dim=2)
    mixed = torch.einsum("sn,snr->nr", torch.softmax(mixing, dim=0), shares)
    ratio = torch.softmax(rows.Z @ abduction, dim=1) / mixed
    weight = ratio.gather(1, rows.group.unsqueeze(1)).squeeze(1)
    weight = weight / weight.sum()
    return float((weight * (rows.loss - weight @ rows.loss)).square().sum().sqrt())


def mean_error(loss: Tensor) -> float:
    return float(loss.std()) / math.sqrt(len(loss))


@pytest.mark.parametrize(
    "weights",
    [
        (1.0, 0.0, 0.0),
        (0.0, 1.0, 0.0),
        (0.0, 0.0, 1.0),
        (1 / 3, 1 / 3, 1 / 3),
        (1.8, -0.8, 0.0),
        (-0.7, -0.3, 2.0),
    ],
)
def test_a_surrogate_has_the_risk_of_the_target_it_stands_for(
    spanned: AbductionHull, rows: Rows, weights: tuple[float, ...]
) -> None:
    """A target's P(x) is that of the sources together, its abduction the combination of theirs."""
    mix = real(weights)
    abduction = torch.tensordot(mix, ABDUCTIONS, dims=1)
    target = draw_target(mix, seed=1)
    truth = float(target.loss.mean())
    error = math.hypot(surrogate_error(rows, abduction), mean_error(target.loss))
    assert abs(value_at(spanned, rows, coordinates(spanned, mix)) - truth) < 3 * error
    assert abs(float(rows.loss.mean()) - truth) > 6 * error  # so the surrogate tells something


def test_the_surrogate_of_fitted_maps_does_so_too(rows: Rows) -> None:
    seen = draw(ABDUCTIONS, seed=2)
    data = [
        OutcomeData(seen.Z[seen.domain == s], seen.group[seen.domain == s], 3) for s in range(3)
    ]
    spanned = span(torch.stack([fit_map(outcomes, 1.0) for outcomes in data]).mT, seen)
    mix = real([1.8, -0.8, 0.0])
    target = draw_target(mix, seed=3)
    found = value_at(spanned, rows, coordinates(spanned, mix))
    assert found == pytest.approx(float(target.loss.mean()), abs=0.03)
    assert float(rows.loss.mean() - target.loss.mean()) > 0.3


def test_domains_mix_by_their_weights_not_by_their_rows() -> None:
    """With unequal domains of equal mass, a target's P(x) is that of the domains in equal parts."""
    drawn = draw(ABDUCTIONS, seed=6)
    kept = torch.arange(len(drawn.loss)) % ROWS < torch.tensor([ROWS, 4000, 2000])[drawn.domain]
    rows = Rows(drawn.Z[kept], drawn.domain[kept], drawn.group[kept], drawn.loss[kept])
    spanned, mix = span(ABDUCTIONS, rows), real([-0.3, 1.6, -0.3])
    truth = float(draw_target(mix, seed=7).loss.mean())
    z = coordinates(spanned, mix)
    assert value_at(spanned, rows, z) == pytest.approx(truth, abs=0.02)
    by_rows = replace(spanned, mixing=fit_map(OutcomeData(rows.Z, rows.domain, 3), 1.0))
    assert abs(value_at(by_rows, rows, z) - truth) > 0.05


def test_no_point_within_the_radius_is_worse(spanned: AbductionHull) -> None:
    few, radius = draw(ABDUCTIONS, seed=5, n=1500), 1.5
    found = audit(spanned, few, radius)
    angles = torch.linspace(0, 2 * math.pi, 24, dtype=torch.float64)
    circle = torch.stack([angles.cos(), angles.sin()], dim=1)
    for scale in (0.0, 0.3, 0.7, 1.0):
        values = [value_at(spanned, few, radius * scale * z) for z in circle]
        assert max(values) <= found.worst_case + 1e-6
    assert max(values) > value_at(spanned, few, real([0.0, 0.0])) + 0.1  # on the rim
    radii = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    found = [audit(spanned, few, radius) for radius in radii]
    assert all(a.worst_case <= b.worst_case + 1e-9 for a, b in pairwise(found))
    assert found[0].worst_case < found[3].worst_case - 0.1
    for radius, one in zip(radii, found, strict=True):
        assert one.radius == radius and list(one.weights) == list(NAMES)
        mix = real(list(one.weights.values()))
        z = coordinates(spanned, mix)
        assert float(mix.sum()) == pytest.approx(1) and float(z.norm()) <= radius + 1e-6
        assert value_at(spanned, few, z) == pytest.approx(one.worst_case)
    assert found[0].weights == pytest.approx(dict.fromkeys(NAMES, 1 / 3))


def test_the_same_loss_everywhere_is_every_targets(spanned: AbductionHull, rows: Rows) -> None:
    found = audit(spanned, replace(rows, loss=torch.full_like(rows.loss, 0.7)), 2.0)
    assert found.worst_case == pytest.approx(0.7) and found.any_prior == pytest.approx(0.7)


def draw_groups(prior: list[float], seed: int, n: int = 4000) -> Rows:
    """Rows of one domain with P(x, y | u) of all, and this prior of u."""
    rng = torch.Generator().manual_seed(seed)
    group = torch.multinomial(real(prior), n, replacement=True, generator=rng)
    x = MEANS[group] + torch.randn(n, 2, generator=rng, dtype=torch.float64)
    Z = with_constant(x)
    return Rows(Z, torch.zeros_like(group), group, read_losses(Z, group, rng))


PRIORS = ([0.6, 0.2, 0.2], [0.2, 0.3, 0.5])


@pytest.fixture(scope="module")
def prior_audit() -> GroupedAudit:
    """The audit of two domains that differ in the prior of u only."""
    first, second = (draw_groups(prior, seed) for seed, prior in enumerate(PRIORS))
    both = Rows(
        torch.cat([first.Z, second.Z]),
        torch.cat([first.domain, second.domain + 1]),
        torch.cat([first.group, second.group]),
        torch.cat([first.loss, second.loss]),
    )
    slopes = torch.cat([MEANS.T, -MEANS.square().sum(dim=1).unsqueeze(0) / 2])
    maps = [slopes + real([[0.0], [0.0], [1.0]]) * real(p).log() for p in PRIORS]
    return audit(span(fix_gauge(torch.stack(maps)), both), both, 1.0)


@given(
    prior=st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any),
    seed=st.integers(0, 2**31),
)
def test_no_mix_of_groups_has_more_than_the_worst_group(
    prior_audit: GroupedAudit, prior: list[int], seed: int
) -> None:
    target = draw_groups([float(mass) for mass in prior], seed)
    slack = 4 * math.hypot(mean_error(target.loss), 0.02)
    assert float(target.loss.mean()) < prior_audit.any_prior + slack


def test_only_the_worst_group_has_as_much(prior_audit: GroupedAudit) -> None:
    alone = [draw_groups(prior, 3, 20_000).loss for prior in torch.eye(3).tolist()]
    means = [float(loss.mean()) for loss in alone]
    assert GROUPS[int(np.argmax(means))] == prior_audit.worst_group == "young"
    assert prior_audit.any_prior == pytest.approx(max(means), abs=0.06)
    assert sorted(means)[1] < prior_audit.any_prior - 0.3
    assert prior_audit.worst_case < prior_audit.any_prior  # which allows more than one nat


SLOPE = real([[1.0, -1.0], [0.0, 0.0]])  # of logits (x, -x)


def test_a_surrogate_and_the_means_of_groups_by_hand() -> None:
    """Two domains with two rows each, x = 1 and x = -1, and abductions that lean on x alone."""
    Z, domain = with_constant(real([[1.0], [-1.0], [1.0], [-1.0]])), torch.tensor([0, 0, 1, 1])
    rows = Rows(Z, domain, torch.tensor([0, 1, 1, 0]), real([1.0, 2.0, 4.0, 0.5]))
    found = audit(span(torch.stack([3 * SLOPE, -SLOPE]), rows), rows, 0.0)
    assert (found.worst_group, found.any_prior) == ("young", 3.0)  # (2 + 4) / 2; nobody is newborn
    assert found.n_groups == 2
    assert list(found.weights) == ["Aarau", "Bern"]
    # The domains have the same rows, so P(s | x) is 1/2; the centre's logits are (x, -x). At x = 1
    # the groups have sigma(2) and sigma(-2) there, and (sigma(6) + sigma(-2)) / 2 and
    # (sigma(-6) + sigma(2)) / 2 in the sources; at x = -1 the other way around.
    first = expit(2) / (expit(6) + expit(-2))
    second = expit(-2) / (expit(-6) + expit(2))
    # Groups 0, 1 at x = 1, -1 have the first ratio: the losses 1 and 2; the others have the second.
    expected = (3 * first + 4.5 * second) / (2 * (first + second))
    assert found.worst_case == pytest.approx(expected, abs=1e-6)


@given(st.floats(-5, 5), st.floats(-5, 5))
@example(1.0, 0.0)  # the sources themselves
@example(0.0, 1.0)
@example(0.0, 0.0)
def test_a_combination_lies_on_the_hull(first: float, second: float) -> None:
    rows = draw(ABDUCTIONS, seed=4, n=50)
    spanned = span(ABDUCTIONS, rows)
    mix = real([first, second, 1 - first - second])
    abduction = torch.tensordot(mix, ABDUCTIONS, dims=1)
    constant = real([[3.0], [-1.0], [7.0]])  # the same for all groups: of no effect
    placed = place_abduction(spanned.hull, abduction + constant, rows.Z, rows.weight)
    assert placed.along == pytest.approx(float(coordinates(spanned, mix).norm()))
    shift = rows.Z @ (abduction - ABDUCTIONS.mean(dim=0))  # in the gauge
    assert placed.along == pytest.approx(float(shift.square().mean().sqrt()), abs=1e-8)
    assert placed.off == pytest.approx(0, abs=1e-9)


def test_a_map_off_the_hull_by_hand() -> None:
    Z = with_constant(real([[1.0], [-1.0]]))
    maps = torch.stack([3 * SLOPE, -SLOPE]).mT
    there = 5 * SLOPE + 5 * SLOPE.flip(0)  # the second of logits (1, -1)
    even, uneven = real([0.5, 0.5]), real([0.25, 0.75])
    # The centre is (x, -x): these logits are 4 (x, -x) + 5 (1, -1) from it, and x and 1 are
    # orthogonal where both rows weigh the same.
    placed = place_abduction(fit_hull(maps, Z, even), there, Z, even)
    assert [placed.along, placed.off] == pytest.approx([4, 5])
    # Here x has the mean -1/2: of 5 the share -2.5 x lies along, and 5 sqrt(1 - 1/4) off.
    placed = place_abduction(fit_hull(maps, Z, uneven), there, Z, uneven)
    assert [placed.along, placed.off] == pytest.approx([1.5, 5 * math.sqrt(0.75)])
