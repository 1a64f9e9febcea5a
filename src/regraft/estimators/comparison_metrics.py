"""Accuracy, AUC, log-loss and calibration error of predictions, with confidence intervals.

Intervals are those of a bootstrap: rows of a domain are drawn again with replacement, and every
head is measured on the same draws, so that differences of heads are paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from regraft.core.evidence import CONFIDENCE

METRICS = ("accuracy", "auc", "log_loss", "calibration_error")
DRAWS = 300
_BINS = 15
_FEWEST = 20  # rows of a bin
_PROBABILITY_FLOOR = 1e-12  # so that one confident error has a finite loss
_CELLS = 2_000_000  # of draws and rows at a time, which bounds the memory

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Predictions:
    """What a head says about n rows, in the order of all C classes."""

    label: NDArray[np.intp]  # (n,)
    probabilities: _Floats | None  # (n, C)
    scores: _Floats | None  # (n, C), higher where a class is more likely

    def take(self, rows: NDArray[np.bool_]) -> Predictions:
        """Return the predictions of some rows."""
        rest = (None if each is None else each[rows] for each in (self.probabilities, self.scores))
        return Predictions(self.label[rows], *rest)


@dataclass(frozen=True)
class Estimate:
    """A number, and the ends of its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Measured:
    """A metric as it is, and as it would have been on other draws of the rows."""

    value: float
    draws: _Floats = field(repr=False)  # (DRAWS,), NaN where a draw has no such number

    def minus(self, other: Measured) -> Measured:
        """Return the difference, paired by draw."""
        return Measured(self.value - other.value, self.draws - other.draws)

    def estimate(self) -> Estimate:
        """Return the interval: the quantiles of the draws, moved so that their mean is the value.

        Without the move, an error that noise makes larger, as that of calibration, would be
        outside of its own interval.
        """
        tail = (1 - CONFIDENCE) / 2
        if np.isnan(self.draws).all():
            return Estimate(self.value, self.value, self.value)
        low, high = np.nanquantile(self.draws, (tail, 1 - tail)) - np.nanmean(self.draws)
        return Estimate(self.value, self.value + float(low), self.value + float(high))


def average(parts: Sequence[Measured]) -> Measured | None:
    """Return the mean over domains, whose draws are independent; None of no domain."""
    if not parts:
        return None
    values = float(np.mean([part.value for part in parts]))
    return Measured(values, np.mean([part.draws for part in parts], axis=0))


def clip(name: str, found: Estimate) -> Estimate:
    """Keep the interval of a metric within what the metric can be."""
    top = np.inf if name == "log_loss" else 1.0
    return Estimate(found.value, max(found.low, 0.0), min(found.high, top))


def measure_metrics(
    y: NDArray[np.intp], predictions: Predictions, n_classes: int, seed: int
) -> dict[str, Measured | None]:
    """Measure predictions of rows with labels ``y`` (n,); None where there is no such number.

    The same seed draws the same rows.
    """
    parts: Mapping[str, _RowMeans | _Ranking | _Calibration | None] = {
        "accuracy": _RowMeans((predictions.label == y).astype(np.float64)),
        "auc": _rank(y, predictions.scores, n_classes),
        "log_loss": None,
        "calibration_error": None,
    }
    if predictions.probabilities is not None:
        p = predictions.probabilities
        own = p[np.arange(len(y)), y]
        parts = {
            **parts,
            "log_loss": _RowMeans(-np.log(np.maximum(own, _PROBABILITY_FLOOR))),
            "calibration_error": _calibrate(y, p),
        }
    draws: dict[str, list[_Floats]] = {name: [] for name in METRICS}
    for weight in _draw_weights(len(y), seed):
        for name, part in parts.items():
            if part is not None:
                draws[name].append(part.measure(weight))
    found: dict[str, Measured | None] = dict.fromkeys(METRICS)
    for name, blocks in draws.items():
        if blocks:
            values = np.concatenate(blocks)
            # Seven digits are enough for an interval, and make small records.
            found[name] = Measured(float(values[0]), values[1:].round(7))
    return found


def _draw_weights(n: int, seed: int) -> Iterator[_Floats]:
    """Yield how often each row counts (b, n): once at first, then as it is drawn."""
    random = np.random.default_rng(seed)
    step = max(1, _CELLS // n)
    for start in range(0, DRAWS + 1, step):
        block = [
            np.bincount(random.integers(n, size=n), minlength=n) if i else np.ones(n, np.int64)
            for i in range(start, min(start + step, DRAWS + 1))
        ]
        yield np.array(block, np.float64)


@dataclass(frozen=True)
class _RowMeans:
    """A mean over rows."""

    values: _Floats  # (n,)

    def measure(self, weight: _Floats) -> _Floats:
        mean: _Floats = weight @ self.values / len(self.values)
        return mean


@dataclass(frozen=True)
class _Ranking:
    """AUC of one class against the others, mean over the classes (of two, the second)."""

    orders: tuple[NDArray[np.intp], ...]  # (n,) rows by rising score, for each class
    starts: tuple[NDArray[np.intp], ...]  # where each run of equal scores begins
    positive: tuple[NDArray[np.bool_], ...]  # (n,) in that order

    def measure(self, weight: _Floats) -> _Floats:
        areas = []
        for order, starts, positive in zip(self.orders, self.starts, self.positive, strict=True):
            sorted_weight = weight[:, order]
            up = np.add.reduceat(sorted_weight * positive, starts, axis=1)
            down = np.add.reduceat(sorted_weight * ~positive, starts, axis=1)
            below = np.cumsum(down, axis=1) - down / 2
            pairs = up.sum(axis=1) * down.sum(axis=1)
            area = np.full(len(weight), np.nan)  # of a draw without one of the two
            np.divide((up * below).sum(axis=1), pairs, out=area, where=pairs > 0)
            areas.append(area)
        mean: _Floats = np.mean(areas, axis=0)
        return mean


def _rank(y: NDArray[np.intp], scores: _Floats | None, n_classes: int) -> _Ranking | None:
    """Sort rows by the score of each class; None if a class has no row, or there are no scores."""
    if scores is None or len(np.unique(y)) < n_classes:
        return None
    classes = (1,) if n_classes == 2 else range(n_classes)
    orders = tuple(np.argsort(scores[:, c], kind="stable") for c in classes)
    steps = (np.diff(scores[order, c]) > 0 for c, order in zip(classes, orders, strict=True))
    starts = tuple(np.flatnonzero(np.concatenate([[True], step])) for step in steps)
    positive = tuple(y[order] == c for c, order in zip(classes, orders, strict=True))
    return _Ranking(orders, starts, positive)


@dataclass(frozen=True)
class _Calibration:
    """Expected calibration error: mean distance of confidence and accuracy over bins of rows."""

    order: NDArray[np.intp]  # (n,) rows by rising confidence
    starts: NDArray[np.intp]  # where each bin begins
    excess: _Floats  # (n,) confidence minus success, in that order

    def measure(self, weight: _Floats) -> _Floats:
        by_bin = np.add.reduceat(weight[:, self.order] * self.excess, self.starts, axis=1)
        error: _Floats = np.abs(by_bin).sum(axis=1) / len(self.order)
        return error


def _calibrate(y: NDArray[np.intp], probabilities: _Floats) -> _Calibration:
    """Deal rows to bins of equal size by the probability of the predicted class.

    Rows of equal confidence stay together, so that the order of the rows does not matter.
    """
    confidence = probabilities.max(axis=1)
    order = np.argsort(confidence, kind="stable")
    n_bins = min(_BINS, max(1, len(y) // _FEWEST))
    rising = confidence[order]
    firsts = rising[np.arange(n_bins) * len(y) // n_bins]
    starts = np.unique(np.searchsorted(rising, firsts, side="left"))
    success = probabilities.argmax(axis=1) == y
    return _Calibration(order, starts, (confidence - success)[order])


def describe_gain(gain: Estimate, head: str, other: str) -> str:
    """Say by how much a head's mean accuracy differs from another's, and if chance explains it."""
    where = "On average over the unseen domains,"
    if gain.low == gain.high == 0:
        return f"{where} {head} and {other} are equally accurate."
    side = "above" if gain.value >= 0 else "below"
    by = "which chance explains" if gain.low <= 0 <= gain.high else "more than chance explains"
    return (
        f"{where} {head} is {abs(100 * gain.value):.1f} points {side} {other}, {by} (95 % interval "
        f"over rows: {100 * gain.low:+.1f} to {100 * gain.high:+.1f})."
    )
