"""Features with a label and a domain in every row: what all commands that learn or check read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from regraft.core.features import warn_of_numbering
from regraft.data.tables import FeatureTable, read_table


@dataclass(frozen=True)
class LabelledTable(FeatureTable):
    """The rows of one file, all of which have a label and a domain."""

    y: NDArray[Any]  # (n,)
    domain: NDArray[Any]  # (n,)

    def count_rows(self) -> dict[str, dict[str, int]]:
        """Count the rows of every domain by class."""
        cells = Counter(zip(self.domain.astype(str), self.y.astype(str), strict=True))
        rows: dict[str, dict[str, int]] = {}
        for (name, label), count in sorted(cells.items()):
            rows.setdefault(str(name), {})[str(label)] = count
        return rows

    def describe_features(self) -> str:
        """Count the features and, where they have names, name the first and the last."""
        names, d = self.features, self.X.shape[1]
        named = f" ({names[0]} to {names[-1]})" if len(names) > 1 else ""
        return f"{d} features{named}"

    def warn_of_doubts(self) -> None:
        """Warn of columns that number the rows; a fit warns of the rest."""
        warn_of_numbering(self.X, self.features)


def read_labelled(
    path: str | Path, label: str = "label", domain: str = "domain", group: str | None = None
) -> LabelledTable:
    """Read a file or a bank as :func:`read_table` does, and demand labels and domains."""
    table = read_table(path, label=label, domain=domain, group=group)
    return LabelledTable(**vars(table))
