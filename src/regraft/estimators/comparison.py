"""Leave-one-domain-out comparison of heads, each measured in the domain it was fitted without."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regraft._version import __version__
from regraft.core.domains import Domains, check_device, check_domains
from regraft.core.heads import fit_source_heads
from regraft.core.whitening import row_chunks
from regraft.estimators.compared_heads import (
    CRO_DEFAULTS,
    ERM,
    RADII,
    ComparedHead,
    compared_heads,
    solve_on_sources,
)
from regraft.support.digests import digest_parts
from regraft.support.plain_data import PlainData
from regraft.support.progress import Countdown, OnProgress, ignore_progress
from regraft.support.records import Records
from regraft.support.table import percent


@dataclass(frozen=True)
class ComparisonCell:
    """One head, fitted without one domain and measured in it."""

    target: str  # the domain left out
    head: str
    accuracy: float  # on all rows of the target
    source_accuracy: float  # on its training rows, mean over their domains
    seconds: float  # the first head of a target includes the time of the shared source heads


@dataclass(frozen=True)
class ComparisonRow:
    """One head over all domains left out."""

    head: str
    radius: float | None  # for heads of the sweep over the radius, None for the others
    accuracy: dict[str, float]  # in each unseen domain
    average: float
    worst: float
    worst_target: str
    source: float  # mean of the cells' source accuracies
    average_gain: float  # average minus ERM's
    worst_gain: float  # worst minus ERM's worst
    seconds: float  # total


@dataclass(frozen=True)
class Comparison(PlainData):
    """Heads side by side, in domains that none of them was fitted on."""

    targets: tuple[str, ...]  # each domain, left out in turn
    rows: tuple[ComparisonRow, ...]  # ERM first
    cells: tuple[ComparisonCell, ...]

    def row(self, head: str) -> ComparisonRow:
        """Return the row of a head, or raise ``ValueError`` with the names of the heads."""
        for row in self.rows:
            if row.head == head:
                return row
        known = ", ".join(row.head for row in self.rows)
        raise ValueError(f"there is no head {head!r}: the comparison has {known}.")

    def verdict(self) -> str:
        """Compare ERM and CRO at its defaults in one sentence."""
        return "; ".join(
            f"{row.head} has {percent(row.average)} on average over the unseen domains, "
            f"{percent(row.worst)} in the worst ({row.worst_target}) and {percent(row.source)} on "
            "the rows it was fitted on"
            for row in (self.row(ERM), self.row(CRO_DEFAULTS))
        )


def compare(
    X: ArrayLike,
    y: ArrayLike,
    sample_domain: ArrayLike,
    *,
    radii: Sequence[float] = RADII,
    device: str = "cpu",
    records: Path | None = None,
    on_progress: OnProgress = ignore_progress,
) -> Comparison:
    """Leave each domain out in turn, fit all heads on the others, and measure them in it.

    Every head is what its classifier's ``fit`` gives on all rows of the other domains: ERM,
    GroupDRO, V-REx, IRM, JTT, EIIL, XRM and CRO at their defaults, CRO's hull at its default radius
    and at each of ``radii``.

    Parameters
    ----------
    X, y, sample_domain : array-like (n, d), (n,), (n,)
        Features, labels and the domain of each row, three domains or more.
    radii : sequence of float
        Radii of CRO's hull, in nats.
    device : str
        Where torch computes, such as "cpu" or "cuda".
    records : Path, optional
        File that keeps finished cells, so that an interrupted comparison can continue.
        One process at a time may write it.
    on_progress : callable, optional
        Called after each cell with its result and the estimated time left.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If the data or an argument is not usable; the message says how to fix it.
    """
    heads = compared_heads(radii, device)
    check_device(device)
    domains = check_domains(X, y, sample_domain)
    _check_enough(domains)
    targets = [str(name) for name in domains.names]
    common = {"data": _fingerprint(domains), "device": device, "regraft": __version__}
    keys = {
        (t, head.name): _key({**common, "target": target, **head.settings()})
        for t, target in enumerate(targets)
        for head in heads
    }
    memory = _Memory(records)
    known = len(set(keys.values()) & memory.cells.keys())
    countdown = Countdown("heads", len(set(keys.values())), known)
    for t, target in enumerate(targets):
        missing: dict[str, ComparedHead] = {}
        for head in heads:
            # Keyed, because the sweep at the default radius is the same head as the hull.
            if keys[t, head.name] not in memory.cells:
                missing.setdefault(keys[t, head.name], head)
        measured = _measure(domains, t, list(missing.values()), device)
        for (key, head), values in zip(missing.items(), measured, strict=True):
            memory.keep(key, values)
            result = f"{head.name} without {target}: {percent(values['accuracy'])} there"
            on_progress(f"{result}; {countdown.next()}")
    cells = tuple(
        ComparisonCell(target, head.name, **memory.cells[keys[t, head.name]])
        for t, target in enumerate(targets)
        for head in heads
    )
    return Comparison(tuple(targets), _rows(cells, heads), cells)


class _Memory:
    """Results of cells by their key, also kept in a file if one is given."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else Records(path)
        kept = [] if self._file is None else self._file.read()
        self.cells: dict[str, dict[str, float]] = {
            _key(record["args"]): {name: record[name] for name in record if name != "args"}
            for record in kept
        }

    def keep(self, key: str, values: dict[str, float]) -> None:
        """Add the result of a cell."""
        if self._file is not None:
            self._file.append({"args": json.loads(key), **values})
        self.cells[key] = values


def _key(args: dict[str, Any]) -> str:
    return json.dumps(args, sort_keys=True)


def _fingerprint(domains: Domains) -> str:
    """Return the sha256 of the rows, their labels and their domains."""
    X, y, domain = domains.X.numpy(), domains.y.numpy(), domains.domain.numpy()
    names = [[str(name) for name in column] for column in (domains.classes, domains.names)]
    head = json.dumps([str(X.dtype), X.shape, names]).encode()
    chunks = (np.ascontiguousarray(X[rows]).data for rows in row_chunks(len(X)))
    return digest_parts(chain([head, y.tobytes(), domain.tobytes()], chunks))


def _check_enough(domains: Domains) -> None:
    if len(domains.names) == 1:
        raise ValueError(
            f"all rows belong to one domain ({domains.names[0]!s}), so none can be left out: add "
            "rows of other domains, three or more in all."
        )
    if len(domains.names) == 2:
        warnings.warn(
            "with one of two domains left out a single source remains, which tells nothing about "
            "how domains differ, so every head is ERM's, but for those that look for groups (JTT, "
            "EIIL, XRM): add rows of a third domain.",
            stacklevel=3,
        )


def _measure(
    domains: Domains, target: int, heads: Sequence[ComparedHead], device: str
) -> Iterator[dict[str, float]]:
    """Yield accuracies and seconds of each head, fitted without the domain of this index."""
    if not heads:
        return
    X, y, domain = domains.X.numpy(), domains.y.numpy(), domains.domain.numpy()
    kept = domain != target
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # given for all rows before
            rest = check_domains(X[kept], domains.classes[y[kept]], domain[kept], device=device)
    except ValueError as error:
        raise ValueError(f"without domain {domains.names[target]!s}, {error}") from None
    sources = fit_source_heads(rest)
    known = np.isin(domains.classes, rest.classes)
    for head in heads:
        # Of a class that only the target has, nothing is known: it is never predicted.
        coefficients = np.zeros((len(known), X.shape[1] + 1))
        coefficients[known] = solve_on_sources(head.model, sources).cpu().numpy()
        coefficients[~known, -1] = -np.inf
        accuracy = _accuracies(X, y, domain, coefficients)
        now = time.perf_counter()
        yield {
            "accuracy": float(accuracy[target]),
            "source_accuracy": float(np.delete(accuracy, target).mean()),
            "seconds": round(now - start, 3),
        }
        start = time.perf_counter()


def _accuracies(
    X: NDArray[Any], y: NDArray[np.int64], domain: NDArray[np.int64], head: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the accuracy (K,) of a head (C, d + 1) in each domain."""
    correct = np.empty(len(y), bool)
    for rows in row_chunks(len(y)):
        logits = X[rows] @ head[:, :-1].T + head[:, -1]
        correct[rows] = logits.argmax(axis=1) == y[rows]
    accuracy: NDArray[np.float64] = np.bincount(domain, weights=correct) / np.bincount(domain)
    return accuracy


def _rows(
    cells: Sequence[ComparisonCell], heads: Sequence[ComparedHead]
) -> tuple[ComparisonRow, ...]:
    rows: list[ComparisonRow] = []
    for head in heads:
        mine = [cell for cell in cells if cell.head == head.name]
        worst = min(mine, key=lambda cell: cell.accuracy)
        average = float(np.mean([cell.accuracy for cell in mine]))
        erm = rows[0] if rows else None
        row = ComparisonRow(
            head=head.name,
            radius=head.radius,
            accuracy={cell.target: cell.accuracy for cell in mine},
            average=average,
            worst=worst.accuracy,
            worst_target=worst.target,
            source=float(np.mean([cell.source_accuracy for cell in mine])),
            average_gain=average - erm.average if erm else 0.0,
            worst_gain=worst.accuracy - erm.worst if erm else 0.0,
            seconds=round(sum(cell.seconds for cell in mine), 3),
        )
        rows.append(row)
    return tuple(rows)
