"""Intervals of P(y | x) against brute force over mixtures of groups and heads of a hull."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regraft.core.hull import Hull, fit_hull
from regraft.core.intervals import RowBounds, factorized_bounds, hull_bounds, mixture_bounds
from tests.helpers.problems import normal, with_constant

SHIFTS = pytest.mark.parametrize("prior_shift", [None, 0.0, 0.7, 3.0])
SEEDS = st.integers(0, 500)


def _tilts(seed: int, n: int, G: int, prior_shift: float | None) -> Tensor:
    """Draw allowed factors (n, G) of the groups' shares, the extreme ones among them."""
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(n, G, generator=generator, dtype=torch.float64)
    corner = (uniform > 0.5).double()
    if prior_shift is None:
        corner[corner.sum(dim=1) == 0] = 1.0
        return torch.cat([uniform, corner])
    return torch.exp(-prior_shift * torch.cat([uniform, corner]))


def _check(bounds: RowBounds, p: Tensor, slack: float = 1e-9, tight: float = 1e-9) -> None:
    """Compare bounds with the conditionals (targets, n, C) of many targets."""
    assert bool((bounds.lower <= p.amin(dim=0) + slack).all())
    assert bool((bounds.upper >= p.amax(dim=0) - slack).all())
    torch.testing.assert_close(bounds.lower, p.amin(dim=0), atol=tight, rtol=0)
    torch.testing.assert_close(bounds.upper, p.amax(dim=0), atol=tight, rtol=0)


def _leads_everywhere(p: Tensor) -> Tensor:
    leader = p.argmax(dim=2)
    return (leader == leader[0]).all(dim=0)


@SHIFTS
@pytest.mark.parametrize("C, G", [(2, 2), (3, 2), (3, 3)])
@given(seed=SEEDS)
def test_mixtures_by_brute_force(C: int, G: int, prior_shift: float | None, seed: int) -> None:
    logits = 2 * normal(seed, 8, G, C)
    bounds = mixture_bounds(logits, prior_shift)
    mass = torch.einsum("tg,ngc->tnc", _tilts(seed, 300, G, prior_shift), logits.exp())
    p = mass / mass.sum(dim=2, keepdim=True)
    _check(bounds, p)
    assert torch.equal(bounds.decided, _leads_everywhere(p))


@SHIFTS
@given(seed=SEEDS)
def test_classes_that_mix_the_groups_on_their_own(prior_shift: float | None, seed: int) -> None:
    C, G = 3, 2
    logits, prior = 2 * normal(seed, 8, G, C), torch.softmax(normal(seed + 1, C, G), dim=1)
    bounds = mixture_bounds(logits, prior_shift, prior)
    tilts = torch.stack([_tilts(seed + c, 2000, G, prior_shift) for c in range(C)], dim=1)
    # Every class keeps its share of the rows: its weights average to one.
    weights = tilts / (tilts * prior).sum(dim=2, keepdim=True)
    mass = torch.einsum("tcg,ngc->tnc", weights, logits.exp())
    p = mass / mass.sum(dim=2, keepdim=True)
    _check(bounds, p)
    assert torch.equal(bounds.decided, _leads_everywhere(p))


@given(seed=SEEDS, shift=st.floats(0, 5), more=st.floats(0, 5))
def test_a_larger_shift_of_the_prior_has_a_wider_interval(
    seed: int, shift: float, more: float
) -> None:
    logits, prior = normal(seed, 5, 3, 3), torch.softmax(normal(seed + 1, 3, 3), dim=1)
    for own in (None, prior):
        inner, outer, widest = (mixture_bounds(logits, b, own) for b in (shift, shift + more, None))
        for one, other in ((inner, outer), (outer, widest)):
            assert bool((other.lower <= one.lower + 1e-12).all())
            assert bool((other.upper >= one.upper - 1e-12).all())
            assert not bool((other.decided & ~one.decided).any())


def test_one_group_is_a_point() -> None:
    logits = normal(0, 5, 3)
    bounds = mixture_bounds(logits.unsqueeze(1), None)
    for end in (bounds.lower, bounds.upper):
        torch.testing.assert_close(end, torch.softmax(logits, dim=1))
    assert bool(bounds.decided.all())


def _hull(seed: int, K: int, C: int, rank: int | None = None) -> tuple[Hull, Tensor, Tensor]:
    """Return a hull, rows, and the logits (n, K, C) of its source heads on them."""
    Z = with_constant(normal(seed, 12, 4))
    hull = fit_hull(normal(seed + 1, K, C, 5), Z, torch.full((12,), 1 / 12).double(), rank)
    heads = torch.stack([hull.head(z) for z in hull.sources])
    return hull, Z, torch.einsum("kcd,nd->nkc", heads, Z)


def _conditionals(hull: Hull, Z: Tensor, z: Tensor) -> Tensor:
    heads = hull.center + torch.tensordot(z, hull.directions, dims=1)
    return torch.softmax(torch.einsum("tcd,nd->tnc", heads, Z), dim=2)


@pytest.mark.parametrize(
    "K, C, rank", [(2, 2, None), (4, 2, None), (2, 3, None), (3, 3, None), (6, 3, None), (4, 4, 2)]
)
@settings(max_examples=10)
@given(seed=SEEDS, radius=st.sampled_from([0.0, 0.5, 3.0]))
def test_no_head_of_the_hull_is_outside(
    K: int, C: int, rank: int | None, seed: int, radius: float
) -> None:
    hull, Z, logits = _hull(seed, K, C, rank)
    bounds = hull_bounds(logits, hull.mixing, radius)
    m = len(hull.directions)
    z = torch.nn.functional.normalize(normal(seed + 2, 1000, m), dim=1)
    z = radius * torch.cat([z, z * torch.linspace(0, 1, 1000).double().unsqueeze(1)])
    p = _conditionals(hull, Z, z)
    _check(bounds, p, tight=math.inf)
    assert not bool((bounds.decided & ~_leads_everywhere(p)).any())
    if m == 1:
        _check(bounds, p, tight=1e-2)


@given(seed=SEEDS, radius=st.floats(0, 6))
def test_two_classes_have_a_closed_form(seed: int, radius: float) -> None:
    hull, Z, logits = _hull(seed, 4, 2)
    bounds = hull_bounds(logits, hull.mixing, radius)
    odds = torch.einsum("cd,nd->nc", hull.center, Z).diff(dim=1).squeeze(1)
    reach = torch.einsum("mcd,nd->nmc", hull.directions, Z).diff(dim=2).squeeze(2).norm(dim=1)
    torch.testing.assert_close(bounds.lower[:, 1], torch.sigmoid(odds - radius * reach))
    torch.testing.assert_close(bounds.upper[:, 1], torch.sigmoid(odds + radius * reach))
    assert torch.equal(bounds.decided, odds.abs() > radius * reach)


@pytest.mark.parametrize("K, C", [(2, 2), (3, 3), (5, 5)])
@settings(max_examples=10)
@given(seed=SEEDS)
def test_a_ball_that_holds_the_sources_has_their_conditionals(K: int, C: int, seed: int) -> None:
    hull, _, logits = _hull(seed, K, C)
    farthest = float(hull.sources.norm(dim=1).max())
    bounds = hull_bounds(logits, hull.mixing, farthest)
    _check(bounds, torch.softmax(logits, dim=2).transpose(0, 1), tight=math.inf)


@settings(max_examples=10)
@given(seed=SEEDS, radius=st.floats(0, 4), more=st.floats(0, 4))
def test_a_larger_radius_has_a_wider_interval(seed: int, radius: float, more: float) -> None:
    hull, _, logits = _hull(seed, 3, 4)
    inner, outer = (hull_bounds(logits, hull.mixing, r) for r in (radius, radius + more))
    assert bool((outer.lower <= inner.lower + 1e-9).all())
    assert bool((outer.upper >= inner.upper - 1e-6).all())
    assert not bool((outer.decided & ~inner.decided).any())


def test_one_source_is_a_point() -> None:
    hull, _, logits = _hull(0, 1, 3)
    bounds = hull_bounds(logits, hull.mixing, 8.0)
    for end in (bounds.lower, bounds.upper):
        torch.testing.assert_close(end, torch.softmax(logits[:, 0], dim=1))


@pytest.mark.parametrize("G, C, K", [(2, 2, 2), (2, 3, 3), (3, 2, 3)])
@settings(max_examples=15)
@given(seed=SEEDS, radius=st.sampled_from([0.0, 0.5, 3.0]))
def test_factorized_by_brute_force(G: int, C: int, K: int, seed: int, radius: float) -> None:
    """Exact for two groups; no target lies outside, and decided rows are decided, for three."""
    Z = with_constant(normal(seed, 8, 2))
    abductions, deduction = normal(seed + 1, K, G, 3), 2 * normal(seed + 2, G, C, 3)
    hull = fit_hull(abductions, Z, torch.full((8,), 1 / 8, dtype=torch.float64))
    maps = torch.einsum("nk,sgk->nsg", Z, abductions), torch.einsum("nk,gck->ngc", Z, deduction)
    bounds = factorized_bounds(*maps, hull.mixing, radius)
    angles = torch.linspace(0, 2 * math.pi, 361, dtype=torch.float64)
    circle = torch.stack([angles.cos(), angles.sin()], dim=1)[:, : len(hull.directions)]
    inner = torch.linspace(0, radius, 5, dtype=torch.float64)[:, None, None]
    targets = torch.stack([hull.head(z) for z in (inner * circle).flatten(0, 1)])
    groups = torch.einsum("nk,tgk->tng", Z, targets).softmax(dim=2)
    p = torch.einsum("tng,ngc->tnc", groups, maps[1].softmax(dim=2))
    tight = 0.01 if G == 2 else 1.0
    _check(bounds, p, slack=1e-7, tight=tight)
    assert not bool((bounds.decided & ~_leads_everywhere(p)).any())
