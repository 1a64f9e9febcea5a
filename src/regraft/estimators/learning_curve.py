"""Accuracy in a new domain over the number of its labels: adapted, refitted, and as it was."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regraft.support.plain_data import PlainData
from regraft.support.table import Number, Table

# Estimators are imported where they are used, so that a report need not wait for scikit-learn.
if TYPE_CHECKING:
    from regraft.estimators.cro import CROClassifier

MIN_LABELS = 40  # half of them are learnt from, and half are judged
ADAPTED, REFITTED, KEPT = "adapt", "refit", "no adaptation"
_STEPS = 1, 3  # times powers of ten


@dataclass(frozen=True)
class LearningCurve(PlainData):
    """Accuracies by the number of labels, means over draws; None where a head cannot be had."""

    labels: tuple[int, ...]  # how many were learnt from
    draws: int
    rows: int  # judged in each draw
    accuracy: dict[str, tuple[float | None, ...]]  # of each head
    error: dict[str, tuple[float | None, ...]]  # standard error over the draws

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> LearningCurve:
        """Read what ``to_dict`` returns, also after a round trip through JSON."""
        numbers = {
            name: {head: tuple(row) for head, row in document[name].items()}
            for name in ("accuracy", "error")
        }
        return cls(tuple(document["labels"]), document["draws"], document["rows"], **numbers)

    def lines(self) -> dict[str, dict[int, float]]:
        """Return the accuracies of each head by the number of labels."""
        return {
            head: {n: a for n, a in zip(self.labels, row, strict=True) if a is not None}
            for head, row in self.accuracy.items()
        }

    def table(self) -> Table:
        """Show accuracies in percent, with their standard errors over the draws."""

        def cell(head: str, i: int) -> Number | None:
            accuracy, error = self.accuracy[head][i], self.error[head][i]
            return None if accuracy is None else Number(100 * accuracy, error and 100 * error)

        many = f"Mean and standard error over {self.draws} draws"
        what = many if self.draws > 1 else "One draw"
        return Table(
            "Accuracy (%) by the number of labels of the domain",
            ("labels", *self.accuracy),
            tuple(
                (f"{n:,}", *(cell(head, i) for head in self.accuracy))
                for i, n in enumerate(self.labels)
            ),
            note=f"{what} of the labels, judged on {self.rows:,} other rows, whose own noise is "
            "not in it.",
        )


def learning_curve(
    model: CROClassifier,
    X: ArrayLike,
    y: ArrayLike,
    *,
    draws: int = 5,
    seed: int = 0,
    on_cell: Callable[[int, int], None] = lambda done, total: None,
) -> LearningCurve:
    """Measure what labels of a new domain are worth to a fitted model.

    In each draw, a random half of the labelled rows of ``X`` (n, d) is judged and neither learnt
    from nor placed. Of the other half, some labels are shown: two classes or more, and those of
    fewer labels are among those of more. All other rows serve without labels. Rows without labels
    have None, NaN or an empty text in ``y`` (n,). ``on_cell`` takes the numbers of heads that are
    done and of all. Raises ``ValueError`` with one sentence if there are too few labels.
    """
    from regraft.estimators.adapting import adapt, check_target_rows

    target = check_target_rows(model, X, y)
    if target.n_labels < MIN_LABELS:
        raise ValueError(
            f"the target has {target.n_labels} labels: a learning curve needs {MIN_LABELS} or more."
        )
    if draws < 1:
        raise ValueError(f"draws is {draws}: pass 1 or more.")
    labels = model.classes_[target.y.numpy()]
    features, others = np.split(target.features, [target.n_labels])
    half = target.n_labels // 2
    sizes = tuple(_sizes(half))
    generator = np.random.default_rng(seed)
    found = np.full((3, draws, len(sizes)), np.nan)
    for draw in range(draws):
        order = _draw(generator, labels)
        judged = features[order[half:]], labels[order[half:]]
        found[2, draw] = model.score(*judged)
        for i, n in enumerate(sizes):
            shown, hidden = order[:n], order[n:half]
            rows = np.concatenate([features[shown], features[hidden], others])
            given = np.full(len(rows), None, dtype=object)
            given[:n] = labels[shown]
            if n or model.family == "latent":  # the other families learn from labels alone
                with warnings.catch_warnings():
                    if draw or i:  # the first head has told of the rows
                        warnings.simplefilter("ignore")
                    found[0, draw, i] = adapt(model, rows, given).score(*judged)
            if n:
                found[1, draw, i] = _refit(features[shown], labels[shown], judged)
            on_cell(draw * len(sizes) + i + 1, draws * len(sizes))
    heads = dict(zip((ADAPTED, REFITTED, KEPT), found, strict=True))
    return LearningCurve(
        labels=sizes,
        draws=draws,
        rows=target.n_labels - half,
        accuracy={name: _plain(each.mean(axis=0)) for name, each in heads.items()},
        error={name: _errors(each) for name, each in heads.items()},
    )


def _sizes(most: int) -> Iterator[int]:
    """Yield 0, 10, 30, 100, 300 and so on, up to ``most``."""
    yield 0
    power = 10
    while power <= most:
        yield from (step * power for step in _STEPS if step * power <= most)
        power *= 10


def _draw(generator: np.random.Generator, labels: NDArray[Any]) -> NDArray[np.intp]:
    """Put the rows into a random order in which the first two have different labels."""
    order = generator.permutation(len(labels))
    other = int((labels[order] != labels[order[0]]).argmax())
    order[[1, other]] = order[[other, 1]]
    return order


def _refit(X: NDArray[Any], y: NDArray[Any], judged: tuple[NDArray[Any], NDArray[Any]]) -> float:
    """Return the accuracy of a head that is fitted on these rows alone."""
    from regraft.estimators.baselines import ERMClassifier

    names, index, counts = np.unique(y, return_inverse=True, return_counts=True)
    enough = counts > 1  # a ridge is not chosen with one row of a class
    if enough.sum() < 2:
        return float((judged[1] == names[counts.argmax()]).mean())
    kept = enough[index]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of few rows, which is what is measured
        return float(ERMClassifier().fit(X[kept], y[kept]).score(*judged))


def _errors(accuracies: NDArray[np.float64]) -> tuple[float | None, ...]:
    """Return the standard errors of means over draws (draws, n); none of a single draw."""
    draws, n = accuracies.shape
    return (None,) * n if draws == 1 else _plain(accuracies.std(axis=0, ddof=1) / draws**0.5)


def _plain(values: NDArray[np.float64]) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(value) else float(value) for value in values)
