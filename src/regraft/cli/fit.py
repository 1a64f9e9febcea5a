"""What ``regraft fit`` does: a table in, a certified head and what it was measured by out."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.cli.console import Screen
from regraft.cli.session import Run
from regraft.core.domains import check_device
from regraft.core.heads import check_ridge
from regraft.core.hull import check_objective, check_radius
from regraft.data.tables import Table, read_labelled, score
from regraft.estimators.cro import CROClassifier
from regraft.estimators.saving import check_destination, save
from regraft.estimators.stress import stress_test
from regraft.support.files import write_text
from regraft.support.json_files import dumps
from regraft.support.table import percent

_FEW = 30  # rows of a domain


def run_fit(
    screen: Screen,
    run: Run,
    data: Path,
    *,
    label: str,
    domain: str,
    radius: float,
    rank: int | None,
    objective: str,
    ridge: float | None,
    seed: int | None,
    device: str,
) -> None:
    """Fit and certify a head on the rows in ``data``; for a report, put it under stress as well.

    ``seed`` shuffles the rows before some are held out for the latter. Raises ``ValueError`` with
    one sentence.
    """
    out = run.out
    assert out is not None  # the command demands it
    check_radius(radius)
    check_objective(objective)
    check_ridge(ridge)
    check_device(device)
    with screen.working(f"reading {data}"):
        check_destination(out / "model")
        table, y, groups = read_labelled(data, label, domain)
        X = table.X
        _doubt(table, groups)
    settings: dict[str, Any] = {
        "radius": radius,
        "rank": rank,
        "objective": objective,
        "ridge": ridge,
        "device": device,
    }
    model = CROClassifier(**settings)
    with screen.working(f"fitting {len(y)} rows of {_count_features(table)}"):
        model.fit(X, y, groups, on_round=screen.round)
        _, accuracy = score(table, model.predict(X))
    if table.features:
        model.feature_names_in_ = np.array(table.features, dtype=object)
    # What takes longest comes last, and costs nothing but itself if it is stopped.
    save(model, out / "model")
    certificate = model.certificate_.to_dict()
    write_text(out / "certificate.json", dumps(certificate))
    document = {"certificate": certificate, "source_accuracy": accuracy}
    details = {
        "n_features": X.shape[1],
        "classes": [str(name) for name in model.classes_],
        "rows": _count(y, groups),
        "stress": _stress(screen, table, settings, seed) if run.html else None,
    }
    write_text(out / "fit.json", dumps(document | details))
    screen.table(("source", "training accuracy"), [(k, percent(v)) for k, v in accuracy.items()])
    screen.say(*model.certificate_.summary())
    files = [out / "model", out / "certificate.json", out / "fit.json"]
    run.finish(screen, document, files)


def _stress(
    screen: Screen, table: Table, settings: dict[str, Any], seed: int | None
) -> dict[str, Any] | None:
    """The stress test for the report, None with a warning where there cannot be one."""
    assert table.y is not None and table.domain is not None
    with screen.working("putting the head under stress") as step:
        try:
            test = stress_test(table.X, table.y, table.domain, seed=seed, on_step=step, **settings)
        except (ValueError, RuntimeError) as error:  # such as too few rows to hold some out
            warnings.warn(f"the report has no stress test: {error}", stacklevel=2)
            return None
    return test.to_dict()


def _count_features(table: Table) -> str:
    """So many features and, where they have names, the first and the last."""
    names, d = table.features, table.X.shape[1]
    named = f" ({names[0]} to {names[-1]})" if len(names) > 1 else ""
    return f"{d} features{named}"


def _doubt(table: Table, domain: NDArray[Any]) -> None:
    """Warn of what can be fitted and makes little sense."""
    for name, rows in zip(*np.unique(domain, return_counts=True), strict=True):
        if rows < _FEW:
            warnings.warn(
                f"domain {name!s} has {rows} rows: what is said about so few is mostly noise.",
                stacklevel=3,
            )
    for name, column in zip(table.features, table.X.T, strict=False):
        if len(column) > 1 and np.all(np.diff(column) == 1):
            warnings.warn(
                f"column {name!r} numbers the rows and is taken as a feature: drop it from the "
                "file.",
                stacklevel=3,
            )


def _count(y: NDArray[Any], domain: NDArray[Any]) -> dict[str, dict[str, int]]:
    """Rows by domain and class."""
    cells = Counter(zip(domain.astype(str).tolist(), y.astype(str).tolist(), strict=True))
    rows: dict[str, dict[str, int]] = {}
    for (name, label), count in sorted(cells.items()):
        rows.setdefault(name, {})[label] = count
    return rows
