"""Planted domains are disjoint, balanced, of the stated strength, and as large as they can be."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from regraft.data.planting import PlantedDomains, plant_confounder

seeds = st.integers(0, 2**32 - 1)
shares = st.floats(0.1, 0.9)


def rows_of_cells(*sizes: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Mixed rows with so many of (y, factor) = (0, 0), (0, 1), (1, 0), (1, 1)."""
    order = np.random.default_rng(0).permutation(sum(sizes))
    y = np.repeat([0, 0, 1, 1], sizes)[order]
    factor = np.repeat([0, 1, 0, 1], sizes)[order]
    return np.arange(len(y), dtype=float)[:, None], y, factor


def domains_of(data: PlantedDomains) -> list[NDArray[Any]]:
    """The rows of each domain, the target last."""
    names = sorted(set(data.sample_domain))
    return [*(data.rows[data.sample_domain == name] for name in names), data.rows_target]


@settings(deadline=None, max_examples=50)
@given(
    seeds,
    st.lists(st.integers(60, 300), min_size=4, max_size=4),
    st.lists(shares, min_size=1, max_size=4),
    shares,
)
def test_domains_are_disjoint_balanced_and_of_the_stated_strength(
    seed: int, sizes: list[int], strengths: list[float], target: float
) -> None:
    X, y, factor = rows_of_cells(*sizes)
    data = plant_confounder(X, y, factor, strengths, target, random_state=seed)
    parts = domains_of(data)
    everything = np.concatenate(parts)
    assert len(set(everything)) == len(everything)
    assert len(parts) == len(strengths) + 1
    assert len({len(part) for part in parts}) == 1
    for part, share in zip(parts, [*strengths, target], strict=True):
        assert y[part].mean() == 0.5
        half = len(part) // 2
        for label in (0, 1):
            agrees = factor[part][y[part] == label] == label
            assert abs(agrees.mean() - share) <= 0.5 / half + 1e-9
    # One more row of each label in each domain would not fit into the smallest cells.
    more = np.floor((half + 1) * np.array([*strengths, target]) + 0.5).sum()
    agreeing, opposing = min(sizes[0], sizes[3]), min(sizes[1], sizes[2])
    assert more > agreeing or (half + 1) * len(parts) - more > opposing


@settings(deadline=None, max_examples=20)
@given(seeds)
def test_the_seed_decides_and_the_columns_are_those_of_the_rows(seed: int) -> None:
    X, y, factor = rows_of_cells(80, 50, 60, 70)
    first, again = (
        plant_confounder(X, y, factor, (0.9, 0.7), 0.1, random_state=seed) for _ in range(2)
    )
    for field in fields(first):
        assert np.array_equal(getattr(first, field.name), getattr(again, field.name))
    other = plant_confounder(X, y, factor, (0.9, 0.7), 0.1, random_state=(seed + 1) % 2**32)
    assert not np.array_equal(first.rows, other.rows)
    for column, name in ((X, "X"), (y, "y"), (factor, "factor")):
        assert np.array_equal(getattr(first, name), column[first.rows])
        assert np.array_equal(getattr(first, f"{name}_target"), column[first.rows_target])


def test_names_and_numbers_give_the_same_rows() -> None:
    X, y, factor = rows_of_cells(80, 50, 60, 70)
    numbers = plant_confounder(X, y, factor, (0.9, 0.7), 0.1, random_state=0)
    names = plant_confounder(
        X, np.array(["ant", "bee"])[y], factor[:, None] == 1, (0.9, 0.7), 0.1, random_state=0
    )
    assert np.array_equal(numbers.rows, names.rows)
    assert set(names.y) == {"ant", "bee"}
    assert names.factor.dtype == bool and names.factor.shape == numbers.factor.shape


def test_shares_of_nothing_and_of_everything_need_no_other_rows() -> None:
    X, y, factor = rows_of_cells(40, 20, 20, 40)
    data = plant_confounder(X, y, factor, (1.0,), 0.0, random_state=0)
    assert len(data.y) == len(data.y_target) == 40
    assert (data.y == data.factor).all() and (data.y_target != data.factor_target).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.zeros(260)}, "y has 1 different values: pass a column with two"),
        ({"factor": np.arange(260) % 3}, "factor has 3 different values"),
        ({"factor": np.zeros(3)}, "X has 260 rows but factor has 3"),
        ({"strengths": ()}, "strengths is empty: pass one share per source"),
        ({"strengths": (0.9, 1.2)}, "strengths holds 1.2: pass shares from 0 to 1"),
        ({"target": -0.1}, "target holds -0.1"),
        ({"target": float("nan")}, "target holds nan"),
        ({"strengths": (0.99, 0.98)}, "only 50 rows have the smaller label and the larger factor"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(changes: dict[str, Any], message: str) -> None:
    X, y, factor = rows_of_cells(80, 50, 60, 70)
    arguments = {"y": y, "factor": factor, "strengths": (0.9, 0.7), "target": 0.1, **changes}
    with pytest.raises(ValueError, match=message) as caught:
        plant_confounder(X, **arguments)
    assert str(caught.value).endswith(".")


def test_an_empty_cell_is_told() -> None:
    X, y, factor = rows_of_cells(80, 0, 60, 70)
    with pytest.raises(ValueError, match="only 0 rows have the smaller label and the larger"):
        plant_confounder(X, y, factor, (0.9, 0.7), 0.1)
