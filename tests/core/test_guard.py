"""The comparison of two worst cases on the same rows."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regraft.core.guard import Advantage, WorstCase, compare_worst_cases


def _draw(seed: int, n: int = 60) -> tuple[Tensor, Tensor, Tensor]:
    """Return weights (n,) and two vectors of losses (n,)."""
    rng = np.random.default_rng(seed)
    weight, *loss = (torch.from_numpy(rng.exponential(size=n)) for _ in range(3))
    return weight / weight.sum(), loss[0], loss[1]


@pytest.mark.parametrize(("value", "is_clear"), [(0.79, True), (0.81, False), (1.2, False)])
def test_a_clear_advantage_is_more_than_two_standard_errors(value: float, is_clear: bool) -> None:
    assert Advantage(1.0, value, standard_error=0.1).is_clear == is_clear


def test_equal_heads_have_no_clear_advantage() -> None:
    weight, loss, _ = _draw(0)
    same = compare_worst_cases(WorstCase(weight, loss), WorstCase(weight, loss))
    assert same.gain == same.standard_error == 0 and not same.is_clear


@given(st.integers(0, 100), st.floats(-1, 1))
def test_noise_that_both_heads_share_does_not_count(seed: int, shift: float) -> None:
    weight, loss, _ = _draw(seed)
    found = compare_worst_cases(WorstCase(weight, loss), WorstCase(weight, loss - shift))
    assert found.gain == pytest.approx(shift, abs=1e-12)
    assert found.standard_error < 1e-12


@given(st.integers(0, 100))
def test_in_one_target_the_error_is_that_of_the_differences(seed: int) -> None:
    weight, first, second = _draw(seed)
    found = compare_worst_cases(WorstCase(weight, first), WorstCase(weight, second))
    difference = first - second
    assert found.gain == pytest.approx(float(weight @ difference))
    spread = weight * (difference - weight @ difference)
    assert found.standard_error == pytest.approx(float(spread.norm()))


@given(st.integers(0, 100))
def test_the_other_way_round_the_advantage_is_the_opposite(seed: int) -> None:
    weight, first, second = _draw(seed)
    worst = WorstCase(weight, first), WorstCase(weight.flip(0), second)
    there, back = compare_worst_cases(*worst), compare_worst_cases(*worst[::-1])
    assert there.gain == -back.gain
    assert there.standard_error == back.standard_error


def test_the_standard_error_is_that_of_drawing_rows_again() -> None:
    rng = np.random.default_rng(0)
    weight, first, second = _draw(1, 400)
    found = compare_worst_cases(WorstCase(weight, first), WorstCase(weight.flip(0), second))
    gains = []
    for _ in range(400):
        rows = torch.from_numpy(rng.integers(400, size=400))
        own, other = weight[rows], weight.flip(0)[rows]
        gains.append(own @ first[rows] / own.sum() - other @ second[rows] / other.sum())
    assert found.standard_error == pytest.approx(float(torch.stack(gains).std()), rel=0.15)
