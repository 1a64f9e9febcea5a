"""Metrics against scikit-learn's, and intervals against draws made by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import log_loss, roc_auc_score

from regraft.cli.names import METRICS as METRICS_OF_THE_COMMAND
from regraft.estimators.comparison_metrics import (
    DRAWS,
    METRICS,
    Measured,
    Predictions,
    average,
    clip,
    measure_metrics,
)


def make_predictions(
    seed: int, n: int = 60, classes: int = 2, digits: int = 1
) -> tuple[NDArray[np.intp], Predictions]:
    """Labels, and probabilities that often tie."""
    random = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), random.integers(classes, size=n - classes)])
    p = random.random((n, classes)).round(digits) + 0.05 + 0.3 * (y[:, None] == np.arange(classes))
    p /= p.sum(axis=1, keepdims=True)
    return y, Predictions(p.argmax(axis=1), p, p)


def scikit_learn(y: NDArray[np.intp], p: NDArray[np.float64]) -> dict[str, float]:
    classes = p.shape[1]
    if len(np.unique(y)) < classes:
        auc = float("nan")
    else:
        auc = roc_auc_score(y, p[:, 1] if classes == 2 else p, multi_class="ovr")
    loss = log_loss(y, p, labels=range(classes))
    return {"accuracy": float((p.argmax(axis=1) == y).mean()), "auc": auc, "log_loss": loss}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 4), st.integers(8, 80))
def test_values_and_draws_are_those_of_scikit_learn(seed: int, classes: int, n: int) -> None:
    y, said = make_predictions(seed, n, classes)
    found = measure_metrics(y, said, classes, seed=seed)
    assert said.probabilities is not None
    for name, value in scikit_learn(y, said.probabilities).items():
        assert found[name].value == pytest.approx(value, abs=1e-9)  # type: ignore[union-attr]
    random = np.random.default_rng(seed)
    for draw in range(3):
        rows = random.integers(n, size=n)
        for name, value in scikit_learn(y[rows], said.probabilities[rows]).items():
            drawn = found[name].draws[draw]  # type: ignore[union-attr]
            assert drawn == pytest.approx(value, abs=1e-6, nan_ok=True)


def test_calibration_error_by_hand() -> None:
    confidence = np.repeat([0.6, 0.9], 30)
    p = np.column_stack([1 - confidence, confidence])
    y = np.ones(60, np.intp)
    y[:12] = 0  # 18 of 30 right at 0.6, all right at 0.9
    found = measure_metrics(y, Predictions(p.argmax(axis=1), p, p), 2, seed=0)
    error = found["calibration_error"]
    assert error is not None and error.value == pytest.approx(0.5 * 0.0 + 0.5 * 0.1)
    estimate = clip("calibration_error", error.estimate())
    assert 0 <= estimate.low <= estimate.value <= estimate.high


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_the_order_of_rows_does_not_change_the_values(seed: int) -> None:
    y, said = make_predictions(seed, n=100)
    order = np.random.default_rng(seed).permutation(len(y))
    assert said.probabilities is not None
    moved = Predictions(said.label[order], said.probabilities[order], said.probabilities[order])
    one, other = measure_metrics(y, said, 2, 0), measure_metrics(y[order], moved, 2, 0)
    for name in METRICS:
        assert one[name].value == pytest.approx(other[name].value)  # type: ignore[union-attr]


def test_there_is_none_without_a_class_or_without_probabilities() -> None:
    y, said = make_predictions(0, classes=3)
    found = measure_metrics(np.minimum(y, 1), said, 3, seed=0)
    assert found["auc"] is None and found["accuracy"] is not None
    found = measure_metrics(y, Predictions(said.label, None, said.scores), 3, seed=0)
    assert found["log_loss"] is None and found["calibration_error"] is None
    assert found["auc"] is not None
    found = measure_metrics(y, Predictions(said.label, None, None), 3, seed=0)
    assert [name for name, each in found.items() if each is not None] == ["accuracy"]


def test_a_sure_mistake_has_a_finite_loss() -> None:
    p = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    found = measure_metrics(np.array([1, 1, 0]), Predictions(p.argmax(axis=1), p, p), 2, seed=0)
    assert found["log_loss"] is not None and 10 < found["log_loss"].value < 40


def test_intervals_are_as_wide_as_theory_says_and_differences_are_paired() -> None:
    random = np.random.default_rng(0)
    y = random.integers(2, size=4000)
    label = np.where(random.random(4000) < 0.8, y, 1 - y)
    accuracy = measure_metrics(y, Predictions(label, None, None), 2, seed=1)["accuracy"]
    assert accuracy is not None and len(accuracy.draws) == DRAWS
    found = accuracy.estimate()
    half = 1.96 * (accuracy.value * (1 - accuracy.value) / 4000) ** 0.5
    assert found.high - found.low == pytest.approx(2 * half, rel=0.2)
    label[:40] = 1 - label[:40]  # a head that differs in few rows
    other = measure_metrics(y, Predictions(label, None, None), 2, seed=1)["accuracy"]
    assert other is not None
    gain = other.minus(accuracy).estimate()
    assert gain.high - gain.low < half
    same = accuracy.minus(accuracy).estimate()
    assert (same.value, same.low, same.high) == (0, 0, 0)


def test_the_mean_over_domains_is_known_better_than_one() -> None:
    y, said = make_predictions(0, n=400)
    parts = [measure_metrics(y, said, 2, seed)["log_loss"] for seed in range(4)]
    one, mean = parts[0], average([part for part in parts if part is not None])
    assert one is not None and mean is not None and mean.value == pytest.approx(one.value)
    widths = [each.estimate().high - each.estimate().low for each in (one, mean)]
    assert widths[1] == pytest.approx(widths[0] / 2, rel=0.25)
    assert average([]) is None


def test_draws_without_the_metric_do_not_count() -> None:
    draws = np.array([np.nan, 0.4, 0.6])
    found = Measured(0.5, draws).estimate()
    assert 0.4 <= found.low < 0.5 < found.high <= 0.6
    assert Measured(0.5, np.full(3, np.nan)).estimate().low == 0.5


def test_the_command_knows_all_metrics() -> None:
    assert METRICS_OF_THE_COMMAND == METRICS
