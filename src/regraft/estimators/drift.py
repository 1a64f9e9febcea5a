"""A stream of batches: the shares of the groups over time, and where the certificate ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regraft.core.reference import Reference
from regraft.estimators.placing import (
    MIN_ROWS,
    check_target,
    find_known,
    locate,
    predicted_classes,
    reference_of,
    warn_of_known,
)
from regraft.support.plain_data import PlainData
from regraft.support.table import Table, write_p_value

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from regraft.estimators.cro import CROClassifier

LEVEL = 0.001  # one false alarm of closure in 1,000 batches
CLOSURE, ACCURACY = "closure", "accuracy"
_BELOW = 1.645  # standard errors: one-sided 95 %


@dataclass(frozen=True)
class DriftBatch(PlainData):
    """Where a batch of rows lies among the mixtures of the groups, and what is wrong with it.

    Shares have 95 % confidence intervals. Alarms are "closure", if the rows are no mixture of the
    groups, and "accuracy", if the head is expected to be worse than its certificate says.
    """

    number: int  # from 1
    first_row: int  # of the stream, from 1
    rows: int
    shares: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    p_value: float  # of "the batch is a mixture of the groups"
    accuracy: float  # that the model's head is expected to have, if it is one
    accuracy_error: float  # its standard error
    alarms: tuple[str, ...]

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> DriftBatch:
        """Read what ``to_dict`` returns, also after a round trip through JSON."""
        plain: dict[str, Any] = {field.name: document[field.name] for field in fields(cls)}
        plain |= {name: tuple(each) for name, each in plain.items() if isinstance(each, list)}
        return cls(**plain)

    def describe(self, certified: float) -> str:
        """Say what is wrong, for a model whose certificate states the accuracy ``certified``."""
        last = self.first_row + self.rows - 1
        said = {
            CLOSURE: f"is not a mixture of what the sources hold ({write_p_value(self.p_value)})",
            ACCURACY: f"has an expected accuracy of {self.accuracy:.1%}, and {certified:.1%} is "
            "certified",
        }
        what = " and ".join(said[alarm] for alarm in self.alarms) or "raises no alarm"
        return f"Batch {self.number} (rows {self.first_row:,} to {last:,}) {what}."


@dataclass(frozen=True)
class DriftSummary(PlainData):
    """What all batches so far had in common; its size does not depend on their number."""

    batches: int = 0
    rows: int = 0
    alarms: int = 0  # batches with one or more
    closure_alarms: int = 0
    accuracy_alarms: int = 0
    least_shares: tuple[float, ...] = ()
    largest_shares: tuple[float, ...] = ()
    least_accuracy: float = 1.0

    def add(self, batch: DriftBatch) -> DriftSummary:
        """Return the summary with one batch more."""
        return DriftSummary(
            self.batches + 1,
            self.rows + batch.rows,
            self.alarms + bool(batch.alarms),
            self.closure_alarms + (CLOSURE in batch.alarms),
            self.accuracy_alarms + (ACCURACY in batch.alarms),
            tuple(map(min, self.least_shares or batch.shares, batch.shares)),
            tuple(map(max, self.largest_shares or batch.shares, batch.shares)),
            min(self.least_accuracy, batch.accuracy),
        )

    def sentence(self) -> str:
        """Say how many batches raised an alarm, and between which ends the shares moved."""
        moved = ", ".join(
            f"group {u} "
            + (f"between {low:.0%} and {high:.0%}" if self.batches > 1 else f"{low:.0%}")
            for u, (low, high) in enumerate(
                zip(self.least_shares, self.largest_shares, strict=True)
            )
        )
        return (
            f"{self.alarms:,} of {self.batches:,} batches raised an alarm ({self.closure_alarms:,} "
            f"of closure, {self.accuracy_alarms:,} of accuracy). "
            + (f"Estimated shares: {moved}." if len(self.least_shares) > 1 else "One group only.")
        )


def batch_table(title: str, batches: Sequence[DriftBatch]) -> Table:
    """Make a table with a line for each batch; those with alarms are marked."""
    groups = range(len(batches[0].shares)) if batches and len(batches[0].shares) > 1 else ()
    rows = tuple(
        (
            f"{batch.number:,}",
            f"{batch.first_row:,}",
            *(f"{batch.shares[u]:.0%} ({batch.lower[u]:.0%}–{batch.upper[u]:.0%})" for u in groups),
            f"{batch.p_value:.3f}" if batch.p_value >= LEVEL else f"< {LEVEL:g}",
            f"{batch.accuracy:.1%} ± {batch.accuracy_error:.1%}",
            ", ".join(batch.alarms) or "–",
        )
        for batch in batches
    )
    columns = (
        *("batch", "first row"),
        *(f"group {u}" for u in groups),
        *("closure p", "expected accuracy", "alarms"),
    )
    marked = frozenset(i for i, batch in enumerate(batches) if batch.alarms)
    note = (
        "In brackets: 95 % confidence intervals. After ±: standard errors. The accuracy is "
        "expected if the batch is a mixture of the groups; no alarm does not prove that it is."
    )
    return Table(title, columns, rows, marked, note=note, align="rr")


class ThinnedBatches:
    """Batches that are evenly spaced over a stream of unknown length, at most ``most`` of them."""

    def __init__(self, most: int) -> None:
        self._most, self._step = most, 1
        self._kept: list[DriftBatch] = []

    def add(self, batch: DriftBatch) -> None:
        """Take the next batch in."""
        if (batch.number - 1) % self._step == 0:
            self._kept.append(batch)
        if len(self._kept) > self._most:
            self._step, self._kept = 2 * self._step, self._kept[::2]

    def batches(self, most: int | None = None) -> tuple[DriftBatch, ...]:
        """Return those that are kept, in their order, or at most so many of them."""
        step = 1 if most is None else -(-len(self._kept) // most)
        return tuple(self._kept[:: max(step, 1)])


def watch(
    model: CROClassifier | Pipeline, batches: Iterable[ArrayLike], level: float = LEVEL
) -> Iterator[DriftBatch]:
    """Place each batch of a stream among the mixtures of the groups, and raise alarms.

    One batch is in memory at a time. Batches are tested one by one: if all of them are mixtures of
    the groups, a share ``level`` of them is expected to raise a false alarm of closure.

    Parameters
    ----------
    model : CROClassifier or Pipeline
        Fitted with ``family="latent"``, the default; or a pipeline that ends in such a head, and
        takes the batches.
    batches : iterable of array-like (n, d)
        Rows without labels, 10 or more in each; :func:`in_batches` cuts blocks of any length.
    level : float
        The alarm of closure is raised where the p-value is below it.

    Yields
    ------
    DriftBatch

    Raises
    ------
    ValueError
        If the model, the level or a batch is not usable; the message says how to fix it.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level:g}: pass a number between 0 and 1, such as {LEVEL}.")
    # Reports read batches, and need not wait for scikit-learn.
    from regraft.estimators.pipelines import split_model

    before, head = split_model(model)
    seen = batches if before is None else map(before.transform, batches)
    return _watch(head, reference_of(head), seen, level)


def _watch(
    model: CROClassifier, reference: Reference, batches: Iterable[ArrayLike], level: float
) -> Iterator[DriftBatch]:
    known = predicted_classes(model, reference.X.numpy())
    certified = model.certificate_.accuracy_bound
    first = 1
    for number, rows in enumerate(batches, 1):
        X = _check_batch(model, rows, number, first)
        if number == 1:
            warn_of_known(reference, find_known(reference, X), len(X), "the first batch")
        located = locate(model, reference, X, known)
        region, p_value = located.region, located.closure.p_value
        accuracy, error = located.accuracy, located.accuracy_error
        low, high = region.bounds.tolist()
        alarms = {CLOSURE: p_value < level, ACCURACY: accuracy + _BELOW * error < certified}
        yield DriftBatch(
            number=number,
            first_row=first,
            rows=len(X),
            shares=tuple(region.shares.tolist()),
            lower=tuple(low),
            upper=tuple(high),
            p_value=p_value,
            accuracy=accuracy,
            accuracy_error=error,
            alarms=tuple(name for name, is_raised in alarms.items() if is_raised),
        )
        first += len(X)


def _check_batch(
    model: CROClassifier, rows: ArrayLike, number: int, first: int
) -> NDArray[np.floating[Any]]:
    try:
        X = check_target(model, rows)
    except ValueError as error:
        raise ValueError(f"batch {number}, which begins with row {first:,}: {error}") from None
    if len(X) < MIN_ROWS:
        raise ValueError(f"batch {number} has {len(X)} rows: pass {MIN_ROWS} or more in each.")
    return X


def in_batches(blocks: Iterable[ArrayLike], size: int) -> Iterator[NDArray[np.floating[Any]]]:
    """Cut blocks (b, d) of any length into batches of ``size`` rows, one at a time in memory.

    A last batch of fewer than 10 rows is joined with the one before it.

    Parameters
    ----------
    blocks : iterable of array-like (b, d)
        The rows in their order.
    size : int
        Rows of a batch, 10 or more.

    Yields
    ------
    ndarray (n, d)

    Raises
    ------
    ValueError
        If the size is too small.
    """
    if size < MIN_ROWS:
        raise ValueError(f"a batch of {size} rows is too small: pass {MIN_ROWS} or more.")
    return _cut(blocks, size)


def _cut(blocks: Iterable[ArrayLike], size: int) -> Iterator[NDArray[np.floating[Any]]]:
    rest: NDArray[np.floating[Any]] | None = None
    for block in blocks:
        # A copy in any case, since the caller may use the memory again.
        rows = np.array(block) if rest is None else np.concatenate([rest, np.asarray(block)])
        start = 0
        while len(rows) - start >= size + MIN_ROWS:  # enough must stay for a last batch
            yield rows[start : start + size]
            start += size
        rest = rows[start:]
    if rest is not None and len(rest):
        yield rest
