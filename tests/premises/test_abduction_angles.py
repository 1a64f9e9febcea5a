"""Angles between abductions, by hand and on data."""

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import Tensor

from regraft.premises.abduction_angles import (
    AbductionAngles,
    abduction_test,
    check_angles,
    column_space,
    describe_angles,
    stable_rank,
)
from regraft.premises.factorization import GroupedRows, Penalties, fit_factorization
from regraft.support.json_files import dumps
from tests.helpers.factorized_domains import draw_domains

COS, SIN = math.cos(math.radians(30)), math.sin(math.radians(30))


def two_groups(*slopes: tuple[float, ...]) -> Tensor:
    """(K, d + 1, 2) abductions whose groups differ along these, with intercepts of no meaning."""
    half = torch.tensor([[*slope, 7.0 * s] for s, slope in enumerate(slopes)]).double() / 2
    return torch.stack([half, -half], dim=2)


def three_groups(one: tuple[float, ...], other: tuple[float, ...]) -> Tensor:
    """(d, 3) slopes in the gauge whose columns span these two."""
    differences = torch.tensor([one, other], dtype=torch.float64)
    return torch.cat([differences, -differences.sum(dim=0, keepdim=True)]).T


@pytest.mark.parametrize(
    ("other", "degrees"),
    [
        ((1.0, 0.0, 0.0), 0),
        ((-3.0, 0.0, 0.0), 0),
        ((0.0, 2.0, 0.0), 90),
        ((COS, SIN, 0.0), 30),
        ((-5 * COS, 0.0, 5 * SIN), 30),
        ((1.0, 1.0, 0.0), 45),
    ],
)
def test_angles_of_two_groups_by_hand(other: tuple[float, ...], degrees: float) -> None:
    found = describe_angles(two_groups((1.0, 0.0, 0.0), other), ["a", "b"])
    (pair,) = found.pairs
    assert (pair.first, pair.second) == ("a", "b")
    for angle in (pair.smallest, pair.median, pair.largest, found.median):
        assert angle == pytest.approx(degrees, abs=1e-5)
    assert found.stable_ranks == pytest.approx({"a": 1, "b": 1})


def test_angles_of_three_groups_by_hand() -> None:
    slopes = torch.stack(
        [
            three_groups((1, 0, 0, 0), (0, 1, 0, 0)),
            three_groups((2, 0, 0, 0), (0, COS, SIN, 0)),
            three_groups((0, 0, 1, 0), (0, 0, 0, 1)),
        ]
    )
    maps = torch.cat([slopes, slopes.new_zeros(3, 1, 3)], dim=1)
    found = describe_angles(maps, ["a", "b", "c"])
    assert [(p.first, p.second) for p in found.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    angles = [(p.smallest, p.median, p.largest) for p in found.pairs]
    assert angles[0] == pytest.approx((0, 15, 30), abs=1e-5)
    assert angles[1] == pytest.approx((90, 90, 90), abs=1e-5)
    assert angles[2] == pytest.approx((60, 75, 90), abs=1e-5)
    assert found.median == pytest.approx((15 + 90 + 75) / 3, abs=1e-5)
    assert found.verdict == "undecided" and "are 60° apart in the median" in found.sentence
    basis = column_space(three_groups((1, 0, 0, 0), (0, 3, 0, 0)))
    assert basis.shape == (4, 2)
    assert torch.allclose(basis.T @ basis, torch.eye(2, dtype=torch.float64))
    assert float(basis[2:].abs().max()) < 1e-12
    found = describe_angles(two_groups((0.0, 0.0), (1.0, 0.0)), ["a", "b"])
    assert found.median == 0 and found.stable_ranks == {"a": 0.0, "b": pytest.approx(1.0)}


@pytest.mark.parametrize(
    ("values", "rank"), [([2.0, 1.0], 1.25), ([3.0, 3.0, 3.0], 3.0), ([1.0, 0.0], 1.0), ([0.0], 0)]
)
def test_stable_rank_by_hand(values: list[float], rank: float) -> None:
    assert stable_rank(torch.diag(torch.tensor(values, dtype=torch.float64))) == pytest.approx(rank)


def check(rows: GroupedRows | None = None, draws: int = 199, **options: Any) -> AbductionAngles:
    rows = draw_domains(0, **options).rows() if rows is None else rows
    maps = fit_factorization(rows, Penalties(1.0, 1.0)).abductions
    names = [str(s) for s in range(rows.n_domains)]
    return check_angles(rows, maps, penalty=1.0, names=names, draws=draws)


def test_slopes_that_differ_are_further_apart_and_those_of_the_truth() -> None:
    found = check(n=3000, sources=3, shift="full")
    assert found.verdict == "consistent" and found.p_value == 1 / 200
    assert found.halves_apart > 3 * found.halves_together
    assert found.median == pytest.approx(found.halves_apart, abs=5)
    assert f"{found.halves_apart:.0f}° apart" in found.sentence
    assert found.stable_ranks == pytest.approx({"0": 1, "1": 1, "2": 1})
    assert dumps(found.to_dict())
    truth = draw_domains(4, n=20_000, groups=3, sources=3, shift="full")
    expected = describe_angles(truth.maps.abductions, truth.names)
    for ours, pair in zip(check(truth.rows(), 99).pairs, expected.pairs, strict=True):
        assert ours.smallest == pytest.approx(pair.smallest, abs=6)
        assert ours.largest == pytest.approx(pair.largest, abs=6)


def test_like_domains_are_not_said_to_differ_nor_are_priors() -> None:
    """P(u | x) depends on the domain by its intercept only."""
    found = check(n=3000, shift="prior")
    assert found.verdict == "consistent"
    assert found.median < 10 and abs(found.halves_apart - found.halves_together) < 5
    found = check(n=500, shift="none")
    assert found.verdict == "undecided" and found.p_value > 0.01
    assert found.sentence.startswith("No difference between the domains' abductions was found")
    assert abs(found.halves_apart - found.halves_together) < 15


def test_p_values_of_like_domains_are_valid() -> None:
    found = [
        abduction_test(draw_domains(s, n=75, d=3, shift="none").rows(), 1.0, draws=99, seed=s)
        for s in range(100)
    ]
    assert sum(test.p_value <= 0.1 for test in found) <= binom.ppf(0.999, 100, 0.1)
    assert np.mean([test.p_value for test in found]) < 0.6


@pytest.mark.parametrize(("n", "apart"), [(140, False), (1000, True)], ids=["few", "disjoint"])
def test_few_like_inputs_decide_nothing(n: int, apart: bool) -> None:
    """140 rows of each of two domains make 140 effective ones at most; disjoint ones make none."""
    truth = draw_domains(0, n=n, shift="full")
    found = check((truth.separated() if apart else truth).rows(), 99)
    assert found.verdict == "undecided"
    assert re.fullmatch(
        r"The domains share too few inputs to compare their abductions \(as many as \d+ rows "
        r"have inputs that other domains have too\)\.",
        found.sentence,
    )
