"""Predicted labels compared with those that a file has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.data.columns import TableError, quoted
from regraft.estimators.column_kinds import parse_cell


@dataclass(frozen=True)
class Score:
    """Accuracy over the rows that have labels; None if there are none."""

    accuracy: float | None
    by_domain: dict[str, float]
    n_labelled: int

    def sentences(self, n_rows: int) -> list[str]:
        """Say the accuracy, over which rows, and in each domain."""
        if self.accuracy is None:
            return []
        few = self.n_labelled < n_rows
        where = f" over the {self.n_labelled:,} of {n_rows:,} rows with labels" if few else ""
        said = [f"accuracy{where}: {self.accuracy:.1%}"] if few or len(self.by_domain) != 1 else []
        return said + [f"accuracy on {name}: {part:.1%}" for name, part in self.by_domain.items()]


def score(
    predicted: NDArray[Any],
    truth: Sequence[Any] | None,
    domain: NDArray[Any] | None,
    classes: NDArray[Any],
) -> Score:
    """Compare predicted labels (n,) with those of a file (n,), over all rows and in each domain.

    Files write labels in their own ways: 1, "1" and "1.0" are one label. What is missing is left
    out. Raises ``TableError`` with one sentence for labels that are no class of the model.
    """
    if truth is None:
        return Score(None, {}, 0)
    numbers = _number_labels(truth, classes)
    known = numbers >= 0
    if not known.any():
        return Score(None, {}, 0)
    correct = classes[numbers[known]] == predicted[known]
    places = None if domain is None else domain[known]
    names = [] if places is None else sorted(set(places.tolist()))
    by_domain = {str(name): float(correct[places == name].mean()) for name in names}
    return Score(float(correct.mean()), by_domain, int(known.sum()))


def _number_labels(labels: Sequence[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the number of each label among the classes, -1 where it is missing."""
    by_text = {str(name): number for number, name in enumerate(classes.tolist())}
    by_value = {parse_cell(name): number for number, name in enumerate(classes.tolist())}
    by_value[None] = -1  # what counts as missing, unless a class is written so
    cells = np.asarray(labels, object).tolist()
    numbers = [by_text.get(str(cell), by_value.get(parse_cell(cell))) for cell in cells]
    strange = [str(cell) for cell, number in zip(cells, numbers, strict=True) if number is None]
    if strange:
        shown = quoted(list(dict.fromkeys(strange)))
        raise TableError(
            f"{len(strange):,} of {len(cells):,} rows have a label that is no class of the model "
            f"({shown} instead of {quoted(list(by_text))}): name the column of labels with "
            "--label, or empty these cells."
        )
    return np.array(numbers, np.intp)
