"""What rows can show, by hand and against simulated heads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft.core.domains import check_domains
from regraft.premises.sample_size import SampleSize, measure_sample_size


def measure(cells: list[int], *accuracies: float) -> SampleSize:
    """Rows of two sources of two classes."""
    cell = np.repeat(np.arange(4), cells)
    X = np.random.default_rng(0).standard_normal((len(cell), 2))
    names = np.array(["Bern", "Chur"])[cell // 2]
    return measure_sample_size(check_domains(X, cell % 2, names), accuracies)


def test_smallest_parts_are_named() -> None:
    size = measure([40, 60, 20, 900], 0.9, 0.7)
    assert size.rows == {"Bern": {"0": 40, "1": 60}, "Chur": {"0": 20, "1": 900}}
    assert size.smallest_cell == ("Chur", "0", 20) and size.is_too_small
    assert size.smallest_source == size.coarsest_source == "Bern" and size.is_coarse
    assert size.margins["Bern"] == pytest.approx(2 * np.sqrt(0.9 * 0.1 / 100), rel=0.05)
    assert not measure([30, 30, 30, 30], 0.9, 0.7).is_too_small
    assert not measure([900, 900, 900, 900], 0.9, 0.7).is_coarse


@given(st.integers(10, 2000), st.floats(0, 1))
def test_rows_that_are_missing_make_the_margin_small_enough(n: int, accuracy: float) -> None:
    size = measure([n, n, n, n], accuracy, accuracy)
    assert 0 < size.margins["Bern"] < 1
    more = 2 * n + size.missing_rows("Bern")
    assert size.margins["Bern"] * np.sqrt(2 * n / more) <= 0.05 + 1e-12
    assert (size.missing_rows("Bern") > 0) == size.is_coarse


def test_margins_cover_as_two_standard_errors_should() -> None:
    rng = np.random.default_rng(0)
    truth, n = 0.85, 200
    measured = rng.binomial(n, truth, size=300) / n
    margins = [measure([n // 2] * 4, a, a).margins["Bern"] for a in measured[:100]]
    covered = np.abs(measured[:100] - truth) <= margins
    assert covered.mean() >= 0.9
