"""Sample size: what rows of each source and class can show, and which of them are too few."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regraft.core.domains import Domains
from regraft.support.plain_data import PlainData

LEAST_CELL_ROWS = 30  # of a source and class, below which neither head nor test is to be trusted
COARSE = 0.05  # of an accuracy; a margin above this hides differences that matter


@dataclass(frozen=True)
class SampleSize(PlainData):
    """Rows of each source and class, and how well they can show an accuracy."""

    rows: dict[str, dict[str, int]]  # by source and class
    accuracies: dict[str, float]  # of pooled heads, on rows they have not seen
    margins: dict[str, float]  # two standard errors of these

    @property
    def smallest_cell(self) -> tuple[str, str, int]:
        """The source and class of the fewest rows, of those with any, and their number."""
        cells = [(s, c, n) for s, row in self.rows.items() for c, n in row.items() if n]
        return min(cells, key=lambda cell: cell[2])

    @property
    def smallest_source(self) -> str:
        """The source of the fewest rows."""
        return min(self.rows, key=self.n_rows)

    @property
    def coarsest_source(self) -> str:
        """The source whose accuracy is known worst."""
        return max(self.margins, key=self.margins.__getitem__)

    @property
    def is_too_small(self) -> bool:
        """Whether a class of a source has too few rows."""
        return self.smallest_cell[2] < LEAST_CELL_ROWS

    @property
    def is_coarse(self) -> bool:
        """Whether an accuracy is known too coarsely."""
        return self.margins[self.coarsest_source] > COARSE

    def n_rows(self, source: str) -> int:
        """Return the number of rows of a source."""
        return sum(self.rows[source].values())

    def missing_rows(self, source: str) -> int:
        """Return how many more rows of a source bring its margin down to five points."""
        needed = self.n_rows(source) * (self.margins[source] / COARSE) ** 2
        return max(0, math.ceil(needed) - self.n_rows(source))


def measure_sample_size(domains: Domains, accuracies: Sequence[float]) -> SampleSize:
    """Count the rows of ``domains``, and measure how well they can show ``accuracies`` (K,)."""
    counts = domains.counts
    sizes = counts.sum(dim=1).tolist()
    names, classes = (
        [str(label) for label in labels] for labels in (domains.names, domains.classes)
    )
    return SampleSize(
        rows={
            name: dict(zip(classes, row, strict=True))
            for name, row in zip(names, counts.tolist(), strict=True)
        },
        accuracies=dict(zip(names, accuracies, strict=True)),
        margins=dict(zip(names, map(_margin, accuracies, sizes), strict=True)),
    )


def describe_small_cells(rows: Mapping[str, Mapping[str, int]]) -> str:
    """Warn of the smallest class of a source if it has fewer rows than the method needs.

    ``rows`` are counted by source and class. Return one sentence, or "" if there are enough.
    """
    cells = [(n, label, name) for name, counts in rows.items() for label, n in counts.items() if n]
    small = sorted(cell for cell in cells if cell[0] < LEAST_CELL_ROWS)
    if not small:
        return ""
    n, label, name = small[0]
    others = len(small) - 1
    too = f", and {others} more {'has' if others == 1 else 'have'} fewer than {LEAST_CELL_ROWS}"
    return (
        f"class {label} of source {name} has {n} row{'s' * (n > 1)}{too if others else ''}: with "
        f"fewer than {LEAST_CELL_ROWS} rows in each class of a source, what is found is mostly "
        "noise, and plain logistic regression is safer."
    )


def _margin(accuracy: float, n: int) -> float:
    """Return two standard errors of an accuracy on n rows, one more right and one more wrong."""
    smoothed = (accuracy * n + 1) / (n + 2)
    return 2 * math.sqrt(smoothed * (1 - smoothed) / n)
