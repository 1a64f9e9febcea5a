"""What ``regraft audit`` and ``regraft frontier`` do: a table in, worst cases by radius out."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from regraft.cli.console import Screen
from regraft.cli.predict import load_for
from regraft.cli.session import Run
from regraft.core.hull import Objective
from regraft.data.tables import read_labelled, read_probabilities
from regraft.estimators.audit import FrontierPoint, audit, frontier, warn_if_fitted_on
from regraft.estimators.plots import plot_audit, plot_frontier
from regraft.support.json_files import write_result
from regraft.support.table import percent


def run_audit(
    screen: Screen,
    run: Run,
    predictor: Path,
    data: Path,
    *,
    label: str,
    domain: str,
    radii: Sequence[float],
    rank: int | None,
    device: str,
) -> None:
    """Audit a saved model, or a file of probabilities; raises ``ValueError`` with one sentence."""
    with screen.working(f"auditing {predictor} on {data}"):
        table, y, groups = read_labelled(data, label, domain)
        judged: Any
        if predictor.is_dir():
            judged, X = load_for(table, predictor)
        else:
            judged, X = read_probabilities(predictor, y), table.X
        curve = audit(judged, X, y, groups, radii, rank=rank, device=device)
    warn_if_fitted_on(judged, X, groups)
    document = curve.to_dict()
    draw = functools.partial(plot_audit, {predictor.stem: curve})
    files = write_result(run.out, "audit.json", document, "audit.png", draw)
    columns = "radius (nats)", "effective rows", "worst-case risk", "worst-case accuracy"
    rows = [
        (f"{p.radius:g}", f"{p.sample_size:.0f}", f"{p.risk:.3f}", percent(p.accuracy))
        for p in curve.points
    ]
    screen.table(columns, rows)
    run.finish(screen, document, files)


def run_frontier(
    screen: Screen,
    run: Run,
    data: Path,
    *,
    label: str,
    domain: str,
    radii: Sequence[float],
    rank: int | None,
    objective: str,
    seed: int | None,
    device: str,
) -> None:
    """Fit a head at each of the ``radii`` and measure it; ``ValueError`` with one sentence."""
    with screen.working(f"fitting {len(radii)} heads on {data}") as step:
        table, y, groups = read_labelled(data, label, domain)

        def tell(point: FrontierPoint) -> None:
            step(f"fitted at radius {point.radius:g}")

        result = frontier(
            table.X,
            y,
            groups,
            radii,
            objective=cast("Objective", objective),
            rank=rank,
            seed=seed,
            device=device,
            on_point=tell,
        )
    document = result.to_dict()
    draw = functools.partial(plot_frontier, result)
    files = write_result(run.out, "frontier.json", document, "frontier.png", draw)
    worst = f"worst-case accuracy within {result.audit_radius:g} nats"
    rows = [
        (f"{p.radius:g}", percent(p.source_accuracy), percent(p.worst_case_accuracy))
        for p in result.points
    ]
    screen.table(("training radius", "source accuracy", worst), rows)
    run.finish(screen, document, files)
