"""Finished cells of a comparison, kept so that an interrupted one can continue."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from regraft.core.domains import Domains
from regraft.core.whitening import row_chunks
from regraft.estimators.comparison_metrics import Measured
from regraft.support.digests import digest_parts
from regraft.support.records import Records
from regraft.support.schema import (
    COUNT,
    NUMBER,
    OBJECT,
    SECONDS,
    SHARE,
    check_fields,
    list_of,
    or_null,
)


@dataclass(frozen=True)
class CellValues:
    """What was measured of one head, fitted without one domain."""

    accuracy: float  # in that domain
    source_accuracy: float
    seconds: float
    rows: int
    metrics: dict[str, Measured | None]  # in that domain

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, with all draws."""
        metrics = {
            name: None if m is None else {"value": m.value, "draws": m.draws.tolist()}
            for name, m in self.metrics.items()
        }
        return {**vars(self), "metrics": metrics}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CellValues:
        """Rebuild what ``to_dict`` returns, also after a round trip through JSON."""
        metrics = {
            # In JSON, a draw without the metric is null.
            name: None if m is None else Measured(m["value"], np.array(m["draws"], np.float64))
            for name, m in data["metrics"].items()
        }
        return cls(**{**data, "metrics": metrics})


class CellRecords:
    """Values of cells by their key, also kept in a file if one is given."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else Records(path, _check_cell)
        kept = [] if self._file is None else self._file.read()
        self.cells: dict[str, CellValues] = {
            make_key(record["args"]): CellValues.from_dict(
                {name: record[name] for name in record if name != "args"}
            )
            for record in kept
        }

    def keep(self, key: str, values: CellValues) -> None:
        """Add the values of a cell."""
        if self._file is not None:
            self._file.append({"args": json.loads(key), **values.to_dict()})
        self.cells[key] = values


_CELL = {
    "args": OBJECT,
    "accuracy": SHARE,
    "source_accuracy": SHARE,
    "seconds": SECONDS,
    "rows": COUNT,
    "metrics": OBJECT,
}
_METRIC = {"value": NUMBER, "draws": list_of(or_null(NUMBER))}


def _check_cell(record: dict[str, Any]) -> None:
    """Raise ``ValueError`` with the reason unless this is what ``keep`` writes."""
    check_fields(record, _CELL)
    for name, metric in record["metrics"].items():
        if metric is not None:
            check_fields(metric, _METRIC, where=f"metrics.{name}")


def make_key(args: dict[str, Any]) -> str:
    """Return one text for equal arguments, in whatever order they are."""
    return json.dumps(args, sort_keys=True)


def fingerprint(domains: Domains) -> str:
    """Return the sha256 of the rows, their labels and their domains."""
    X, y, domain = domains.X.numpy(), domains.y.numpy(), domains.domain.numpy()
    names = [[str(name) for name in column] for column in (domains.classes, domains.names)]
    head = json.dumps([str(X.dtype), X.shape, names]).encode()
    chunks = (np.ascontiguousarray(X[rows]).data for rows in row_chunks(len(X)))
    return digest_parts(chain([head, y.tobytes(), domain.tobytes()], chunks))
