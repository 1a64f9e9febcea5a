"""The hidden factor of a diagnosis, on data whose factor is known."""

import math
from functools import cache

import numpy as np
import pytest

from regraft.core.domains import check_domains
from regraft.premises.hidden_factor import HiddenFactor, find_hidden_factor
from regraft.support.json_files import dumps


def find(shares: tuple[float, ...], n: int, seed: int = 0, d: int = 5) -> HiddenFactor:
    """Sources of n rows, whose hidden group is a clear cluster and has these shares."""
    rng = np.random.default_rng(seed)
    domain = np.repeat(np.arange(len(shares)), n)
    group = rng.random(len(domain)) < np.array(shares)[domain]
    X = rng.standard_normal((len(domain), d))
    X[:, 0] += 6 * group
    names = np.array(["Aarau", "Bern", "Chur"])[domain]
    return find_hidden_factor(check_domains(X, np.arange(len(domain)) % 2, names))


@cache
def clear() -> HiddenFactor:
    return find((0.2, 0.5, 0.8), 300)


def test_a_clear_factor_is_found_with_its_shares() -> None:
    found = clear()
    assert found.found and found.is_shared and found.n_groups == 2
    assert found.chance == "p ≤ 0.01"
    u = found.shares["Chur"].index(max(found.shares["Chur"]))
    rising = [shares[u] for shares in found.shares.values()]
    assert rising == pytest.approx([0.2, 0.5, 0.8], abs=0.08)
    assert found.gain > found.noise_gain > 0 and found.separation > 3
    assert dumps(found.to_dict())


def test_a_group_that_one_source_has_is_not_shared() -> None:
    found = find((0.0, 0.6), 400)
    assert found.found and not found.is_shared
    u, source = found.lone_holder
    assert source == "Bern" and found.shares["Aarau"][u] < 0.02 < found.shares["Bern"][u]


def test_like_sources_have_none() -> None:
    found = find((0.5, 0.5), 300)
    assert not found.found and not found.is_shared and found.lone_holders == {}
    assert found.p_value > 0.05 and found.chance.startswith("p = ")


def test_one_source_tells_nothing() -> None:
    found = find((0.5,), 100)
    assert not found.found and found.lone_holders == {}
    assert math.isnan(found.p_value) and math.isnan(found.least_difference)


def test_the_least_difference_is_where_factors_come_to_be_seen() -> None:
    """Half of it is mostly lost in noise, and three times as much is mostly seen."""
    least = find((0.5, 0.5), 300).least_difference
    assert 0.02 < least < 0.3
    seen = {
        factor: np.mean(
            [
                find((0.5 - factor * least / 2, 0.5 + factor * least / 2), 300, seed).p_value
                <= 0.05
                for seed in range(10)
            ]
        )
        for factor in (0.5, 3.0)
    }
    assert seen[0.5] <= 0.5 and seen[3.0] >= 0.9
    assert find((0.5, 0.5), 1200).least_difference < 0.7 * least
