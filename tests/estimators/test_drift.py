"""A stream of batches: shares that move, alarms, and memory that does not grow."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regraft import CROClassifier, ERMClassifier, adapt, place
from regraft.estimators.drift import (
    DriftBatch,
    DriftSummary,
    ThinnedBatches,
    batch_table,
    in_batches,
    watch,
)
from tests.helpers.streams import draw_rows, fit_stream_model


@pytest.fixture(scope="module")
def model() -> CROClassifier:
    return fit_stream_model()


def _batch(number: int, share: float, *alarms: str) -> DriftBatch:
    two = share, 1 - share
    return DriftBatch(number, 10 * number - 9, 10, two, two, two, 0.5, share, 0.01, alarms)


def test_shares_are_followed_and_mixtures_raise_no_alarm(model: CROClassifier) -> None:
    truth = (0.1, 0.3, 0.5, 0.7, 0.9)
    rows = [draw_rows(share, 1000, 100 + i) for i, share in enumerate(truth)]
    found = list(watch(model, (X for X, _ in rows)))
    assert [batch.alarms for batch in found] == [()] * len(truth)
    assert [batch.number for batch in found] == [1, 2, 3, 4, 5]
    assert [batch.first_row for batch in found] == [1, 1001, 2001, 3001, 4001]
    for batch, share, (X, y) in zip(found, truth, rows, strict=True):
        assert batch.shares[-1] == pytest.approx(share, abs=0.1)
        assert all(
            low <= own <= high
            for low, own, high in zip(batch.lower, batch.shares, batch.upper, strict=True)
        )
        assert abs(batch.accuracy - model.score(X, y)) < 4 * batch.accuracy_error


def test_a_batch_is_what_place_finds(model: CROClassifier) -> None:
    X, _ = draw_rows(0.4, 300, 7)
    placed = place(model, X)
    (batch,) = watch(model, [X])
    assert (batch.shares, batch.lower, batch.upper) == (placed.shares, placed.lower, placed.upper)
    assert (batch.p_value, batch.accuracy) == (placed.p_value, placed.expected_accuracy)


def test_rows_that_no_source_has_raise_the_alarm_of_closure(model: CROClassifier) -> None:
    X, _ = draw_rows(0.5, 600, 8)
    moved = X + np.array([0, 0, 0.6, 0, 0])
    fine, shifted = watch(model, [X, moved])
    assert fine.alarms == () and "closure" in shifted.alarms
    assert "is not a mixture of what the sources hold" in shifted.describe(0.7)
    strict = list(watch(model, [moved], level=shifted.p_value / 2))
    assert "closure" not in strict[0].alarms


def test_rows_that_the_head_cannot_tell_apart_raise_the_alarm_of_accuracy(
    model: CROClassifier,
) -> None:
    X, _ = draw_rows(0.5, 600, 9)
    X[:, 0] = 0.1 * X[:, 0]  # the cause is all but gone
    (batch,) = watch(model, [X])
    assert "accuracy" in batch.alarms
    certified = model.certificate_.accuracy_bound
    assert batch.accuracy + 1.645 * batch.accuracy_error < certified
    assert f"and {certified:.1%} is certified" in batch.describe(certified)


def test_without_a_hidden_factor_closure_is_tested_all_the_same() -> None:
    model = fit_stream_model((0.8, 0.8), 300)
    assert model.group_heads_.shape[0] == 1
    X, _ = draw_rows(0.8, 500, 10)
    fine, moved = watch(model, [X, X + 1])
    assert fine.shares == (1.0,) and fine.alarms == ()
    assert "closure" in moved.alarms
    summary = DriftSummary().add(fine).add(moved)
    assert summary.sentence().endswith("One group only.")
    assert "group 0" not in batch_table("", [fine, moved]).columns


@given(
    lengths=st.lists(st.integers(0, 60), max_size=12), size=st.integers(10, 50), one=st.booleans()
)
def test_batches_hold_all_rows_in_order(lengths: list[int], size: int, one: bool) -> None:
    rows = np.arange(sum(lengths), dtype=float).reshape(-1, 1)
    blocks = [rows] if one else np.split(rows, np.cumsum(lengths)[:-1]) if lengths else []
    batches = list(in_batches(blocks, size))
    if len(rows):
        np.testing.assert_array_equal(np.concatenate(batches), rows)
        *full, last = map(len, batches)
        assert set(full) <= {size}
        assert min(10, len(rows)) <= last < size + 10
    else:
        assert batches == []


@given(n=st.integers(1, 300), most=st.integers(1, 40))
def test_thinned_batches_are_few_and_evenly_spaced(n: int, most: int) -> None:
    thinned = ThinnedBatches(most)
    for number in range(1, n + 1):
        thinned.add(_batch(number, 0.5))
    numbers = [batch.number for batch in thinned.batches()]
    assert numbers[0] == 1 and len(numbers) <= most
    assert len(set(np.diff(numbers))) <= 1
    assert 2 * len(numbers) >= min(n, most) and n - numbers[-1] < n / len(numbers) + most
    assert len(thinned.batches(5)) <= 5


@given(shares=st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_a_summary_has_the_ends_of_all_batches(shares: list[float]) -> None:
    summary = DriftSummary()
    for number, share in enumerate(shares, 1):
        summary = summary.add(_batch(number, share, *(["closure"] if share > 0.5 else [])))
    raised = sum(share > 0.5 for share in shares)
    assert (summary.batches, summary.rows) == (len(shares), 10 * len(shares))
    assert (summary.alarms, summary.closure_alarms, summary.accuracy_alarms) == (raised, raised, 0)
    assert summary.least_shares == (min(shares), min(1 - share for share in shares))
    assert summary.largest_shares[0] == max(shares) and summary.least_accuracy == min(shares)
    assert summary.sentence().startswith(f"{raised} of {len(shares)} batches raised an alarm")


def test_a_batch_survives_json_and_its_table_marks_alarms() -> None:
    batches = [_batch(1, 0.25), _batch(2, 0.75, "closure", "accuracy")]
    assert [DriftBatch.from_dict(json.loads(json.dumps(b.to_dict()))) for b in batches] == batches
    table = batch_table("All", batches)
    assert table.marked == {1}
    assert table.columns[2:4] == ("group 0", "group 1")
    assert table.texts()[1][-1] == "closure, accuracy"


@pytest.mark.parametrize(
    ("batches", "level", "problem"),
    [
        ([np.zeros((20, 5))], 0.0, "level is 0: pass a number between 0 and 1"),
        ([np.zeros((9, 5))], 0.1, "batch 1 has 9 rows: pass 10 or more in each"),
        ([np.zeros((20, 4))], 0.1, "batch 1, which begins with row 1: X has 4 features"),
        ([np.full((20, 5), np.nan)], 0.1, "batch 1, which begins with row 1: X has 100 NaN"),
    ],
)
def test_bad_batches_are_refused(
    model: CROClassifier, batches: list[Any], level: float, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        list(watch(model, batches, level))


def test_rows_of_the_fit_are_warned_of(model: CROClassifier) -> None:
    rows = model.reference_.X.numpy()[:50].astype(float)
    with pytest.warns(UserWarning, match="50 rows of the first batch are rows that the model was"):
        next(watch(model, [rows]))
    for use in (place, adapt):
        with pytest.warns(UserWarning, match="50 rows of the target are rows that the model was"):
            use(model, rows)


def test_rows_that_are_often_alike_are_not_taken_for_those_of_the_fit() -> None:
    rng = np.random.default_rng(0)
    domain, X = np.repeat([0, 1], 500), rng.integers(0, 4, (1000, 2)).astype(float)
    y = rng.integers(0, 2, 1000)
    model = CROClassifier().fit(X, y, domain)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        place(model, rng.integers(0, 4, (200, 2)).astype(float))


def test_models_without_groups_are_refused_before_a_row_is_read(model: CROClassifier) -> None:
    X, y = draw_rows(0.8, 60, 1)
    domain = np.repeat([0, 1], 30)
    unread = (pytest.fail("a row was read") for _ in range(1))
    with pytest.raises(ValueError, match="the family hull learns nothing from unlabelled rows"):
        watch(CROClassifier("hull").fit(X, y, domain), unread)
    with pytest.raises(ValueError, match="ERMClassifier has no hidden groups"):
        watch(ERMClassifier().fit(X, y, domain), unread)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a batch of 9 rows is too small"):
        in_batches([], 9)
