"""Leave-one-domain-out comparison of heads, each measured in the domain it was fitted without."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from regraft._version import __version__
from regraft.core.domains import Domains, check_device, check_domains
from regraft.estimators.compared_heads import (
    CRO_DEFAULTS,
    ERM,
    ComparedHead,
    compared_heads,
    describe_settings,
)
from regraft.estimators.comparison_metrics import (
    DRAWS,
    METRICS,
    Estimate,
    Measured,
    average,
    clip,
    describe_gain,
)
from regraft.estimators.comparison_records import CellRecords, CellValues, fingerprint, make_key
from regraft.estimators.comparison_splits import leave_out, measure_heads
from regraft.estimators.raw_tables import choose_features
from regraft.estimators.table_features import TableFeatures
from regraft.support.plain_data import PlainData
from regraft.support.progress import Countdown, OnProgress, ignore_progress
from regraft.support.shown import ShownResult
from regraft.support.table import Table, percent

Estimates = dict[str, Estimate | None]  # by metric; None where there is no such number


@dataclass(frozen=True)
class ComparisonCell:
    """One head, fitted without one domain and measured in it."""

    target: str  # the domain left out
    head: str
    accuracy: float  # on all rows of the target
    source_accuracy: float  # on its training rows, mean over their domains
    seconds: float  # the first head of a target includes the time of the shared source heads
    rows: int = 0  # of the target
    metrics: Estimates = field(default_factory=dict)  # accuracy, auc, log_loss, calibration_error
    minus_erm: Estimates = field(default_factory=dict)  # of the same, paired by row; ERM: None


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
    metrics: Estimates = field(default_factory=dict)  # mean over the domains that have one
    minus_erm: Estimates = field(default_factory=dict)  # of the same, paired by row; ERM: None


@dataclass(frozen=True, repr=False)
class Comparison(ShownResult, PlainData):
    """Heads side by side, in domains that none of them was fitted on.

    Intervals have a confidence of 95 %, by a bootstrap over the rows of each domain: they say how
    well a number is known in these domains, not what it would be in others.
    """

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

    def paragraphs(self) -> tuple[str, ...]:
        """Compare ERM and CRO at its defaults in words, and say by how much they differ."""
        rows = self.row(ERM), self.row(CRO_DEFAULTS)
        said = "; ".join(
            f"{row.head} has {percent(row.average)} on average over the unseen domains, "
            f"{percent(row.worst)} in the worst ({row.worst_target}) and {percent(row.source)} on "
            "the rows it was fitted on"
            for row in rows
        )
        gain = rows[1].minus_erm.get("accuracy")
        if gain is None:
            return (f"{said}.",)
        return f"{said}.", describe_gain(gain, CRO_DEFAULTS, ERM)

    def table(self) -> Table:
        """Show accuracy by domain, and all metrics on average, with their intervals."""
        from regraft.estimators.comparison_tables import overview

        return overview(self)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each head and domain (extra ``frames``)."""
        from regraft.estimators.comparison_tables import cells_table

        return cells_table(self).frame()


def compare(
    X: Any,
    y: ArrayLike,
    sample_domain: ArrayLike,
    *,
    radii: Sequence[float] = (),
    estimators: Mapping[str, Any] | None = None,
    features: TableFeatures | None = None,
    device: str = "cpu",
    records: Path | None = None,
    on_progress: OnProgress = ignore_progress,
) -> Comparison:
    """Leave each domain out in turn, fit all heads on the others, and measure them in it.

    Every head is what its classifier's ``fit`` gives on all rows of the other domains: ERM,
    GroupDRO, V-REx, IRM, JTT, EIIL, XRM and CRO at their defaults, CRO's hull at its default radius
    and at each of ``radii``, and each of ``estimators``. What a head chooses, such as a ridge, it
    chooses inside of its ``fit``, so that the domain left out has no say.

    Parameters
    ----------
    X, y, sample_domain : array-like (n, d), (n,), (n,)
        Features, labels and the domain of each row, three domains or more. ``X`` may be a table:
        a data frame, or a mapping of names to columns.
    radii : sequence of float
        Further radii of CRO's hull, in nats. Each takes about as long as the hull at its default.
    estimators : mapping of str to classifier, optional
        Classifiers to compare as well, by name, such as scikit-learn's trees or a ``GridSearchCV``.
        Copies are fitted; the domains are passed to those that ask for ``sample_domain`` or
        ``groups``. Without ``predict_proba`` there is no log-loss and no calibration error.
    features : TableFeatures, optional
        Turns a table into numbers for all heads. A copy is fitted on the sources of each split.
        By default, ``TableFeatures()`` for a table with texts or gaps.
    device : str
        Where torch computes, such as "cpu" or "cuda".
    records : Path, optional
        File that keeps finished cells, so that an interrupted comparison can continue.
        One process at a time may write it.
    on_progress : callable, optional
        Called after each cell with its result, the number of cells left and their estimated time.
        If ``records`` has cells of this comparison, it is told first how many.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If the data or an argument is not usable; the message says how to fix it.
    """
    heads = compared_heads(radii, device, estimators)
    check_device(device)
    features = features or choose_features(X)
    matrix = X if features is None else _to_numbers(features, X)
    domains = check_domains(matrix, y, sample_domain)
    _check_enough(domains)
    targets = domains.texts
    common: dict[str, Any] = {"data": fingerprint(domains), "device": device}
    common |= {"regraft": __version__, "bootstrap": DRAWS}
    if features is not None:
        common["features"] = describe_settings(features)
    keys = {
        (t, head.name): make_key({**common, "target": target, **head.settings()})
        for t, target in enumerate(targets)
        for head in heads
    }
    memory = CellRecords(records)
    known = len(set(keys.values()) & memory.cells.keys())
    total = len(set(keys.values()))
    countdown = Countdown("heads", total, known)
    if known:
        on_progress(f"resuming: {known} of {total} heads are known from before")
    for t, target in enumerate(targets):
        missing: dict[str, ComparedHead] = {}
        for head in heads:
            # Keyed, because the sweep at the default radius is the same head as the hull.
            if keys[t, head.name] not in memory.cells:
                missing.setdefault(keys[t, head.name], head)
        if not missing:
            continue
        split = leave_out(domains, t, device, X, features)
        measured = measure_heads(split, list(missing.values()))
        for (key, head), values in zip(missing.items(), measured, strict=True):
            memory.keep(key, values)
            result = f"{head.name} without {target}: {percent(values.accuracy)} there"
            on_progress(f"{result}; {countdown.next()}")
    found = {place: memory.cells[key] for place, key in keys.items()}
    cells = tuple(
        _cell(target, head.name, found[t, head.name], found[t, ERM])
        for t, target in enumerate(targets)
        for head in heads
    )
    rows: list[ComparisonRow] = []
    for head in heads:
        mine = [cell for cell in cells if cell.head == head.name]
        pairs = [(found[t, head.name], found[t, ERM]) for t in range(len(targets))]
        rows.append(_row(head, mine, pairs, rows[0] if rows else None))
    return Comparison(tuple(targets), tuple(rows), cells)


def _to_numbers(features: TableFeatures, X: Any) -> Any:
    """Return all rows as numbers, to check them; what was fitted on them already is not again."""
    if hasattr(features, "columns_"):
        return features.transform(X)
    return clone(features).fit_transform(X)


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


def _cell(target: str, head: str, own: CellValues, erm: CellValues) -> ComparisonCell:
    """Return what was measured of a head, with intervals, and its differences to ERM."""
    values = vars(own) | {"metrics": _estimates(own.metrics)}
    gains = _differences(head, own.metrics, erm.metrics)
    return ComparisonCell(target, head, **values, minus_erm=gains)


def _row(
    head: ComparedHead,
    cells: Sequence[ComparisonCell],
    measured: Sequence[tuple[CellValues, CellValues]],
    erm: ComparisonRow | None,
) -> ComparisonRow:
    """Sum up the cells of a head; ``measured`` has its values and ERM's in each domain."""
    worst = min(cells, key=lambda cell: cell.accuracy)
    mean = float(np.mean([cell.accuracy for cell in cells]))
    own, base = (
        {
            name: average([m for each in values if (m := each.metrics[name]) is not None])
            for name in METRICS
        }
        for values in zip(*measured, strict=True)
    )
    return ComparisonRow(
        head=head.name,
        radius=head.radius,
        accuracy={cell.target: cell.accuracy for cell in cells},
        average=mean,
        worst=worst.accuracy,
        worst_target=worst.target,
        source=float(np.mean([cell.source_accuracy for cell in cells])),
        average_gain=mean - erm.average if erm else 0.0,
        worst_gain=worst.accuracy - erm.worst if erm else 0.0,
        seconds=round(sum(cell.seconds for cell in cells), 3),
        metrics=_estimates(own),
        minus_erm=_differences(head.name, own, base),
    )


def _estimates(measured: Mapping[str, Measured | None]) -> Estimates:
    return {
        name: None if each is None else clip(name, each.estimate())
        for name, each in measured.items()
    }


def _differences(
    head: str, own: Mapping[str, Measured | None], erm: Mapping[str, Measured | None]
) -> Estimates:
    """Return what a head has more than ERM, paired by row; nothing for ERM itself."""
    found: Estimates = dict.fromkeys(own)
    for name, each in own.items():
        base = erm[name]
        if head != ERM and each is not None and base is not None:
            found[name] = each.minus(base).estimate()
    return found
