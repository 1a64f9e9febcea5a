"""``regraft audit``: a predictor and a table in, its worst cases by radius out."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any

import typer

from regraft.cli.command import command
from regraft.cli.options import AUDIT_RADII, Data, Device, Domain, Label, Out, Radii, Rank, numbers
from regraft.cli.session import Session


@command("audit", html=True)
def audit_command(
    session: Session,
    predictor: Annotated[
        Path, typer.Argument(help="A saved model, or a file of probabilities.", readable=False)
    ],
    data: Data,
    label: Label = "label",
    domain: Domain = "domain",
    radii: Radii = AUDIT_RADII,
    rank: Rank = None,
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Measure a fixed predictor in the worst case, over how far domains may shift."""
    steps = numbers(radii)
    from regraft.cli.predict import load_for
    from regraft.data.labelled import read_labelled
    from regraft.data.tables import read_probabilities
    from regraft.estimators.audit import audit, warn_if_fitted_on
    from regraft.estimators.plots import plot_audit
    from regraft.support.pictures import write_result
    from regraft.support.table import percent

    with session.working(f"auditing {predictor} on {data}"):
        table = read_labelled(data, label, domain)
        judged: Any
        if predictor.is_dir():
            judged, X = load_for(table, predictor)
        else:
            judged, X = read_probabilities(predictor, table.y), table.X
        curve = audit(judged, X, table.y, table.domain, steps, rank=rank, device=device)
    warn_if_fitted_on(judged, X, table.domain)
    document = curve.to_dict()
    draw = functools.partial(plot_audit, {predictor.stem: curve})
    files = write_result(out, "audit.json", document, "audit.png", draw)
    columns = "radius (nats)", "effective rows", "worst-case risk", "worst-case accuracy"
    rows = [
        (f"{p.radius:g}", f"{p.sample_size:.0f}", f"{p.risk:.3f}", percent(p.accuracy))
        for p in curve.points
    ]
    session.table(columns, rows)
    session.finish(document, files, read=[predictor, data])
