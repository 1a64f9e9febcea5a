"""``regraft audit``: a predictor and a table in, its worst cases by group or by radius out."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli.command import command
from regraft.cli.options import (
    AUDIT_RADII,
    ClassGroups,
    Data,
    Device,
    Domain,
    Family,
    HullRadii,
    Label,
    Out,
    PriorShift,
    Rank,
    numbers,
)
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.estimators.audit import AuditCurve
    from regraft.estimators.group_audit import GroupAudit


@command("audit", html=True)
def audit_command(
    session: Session,
    predictor: Annotated[
        Path, typer.Argument(help="A saved model, or a file of probabilities.", readable=False)
    ],
    data: Data,
    label: Label = "label",
    domain: Domain = "domain",
    family: Family = "latent",
    prior_shift: PriorShift = None,
    class_groups: ClassGroups = False,
    radii: HullRadii = None,
    rank: Rank = None,
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Measure a fixed predictor by hidden group and source, and in the worst plausible domain."""
    steps = None if radii is None else numbers(radii)
    from regraft.cli.predict import features_for, load_head
    from regraft.core.domains import check_device
    from regraft.core.group_targets import check_prior_shift
    from regraft.core.hull import check_rank
    from regraft.data.labelled import read_labelled
    from regraft.data.tables import read_probabilities
    from regraft.estimators.audit import audit, check_radii
    from regraft.estimators.families import check_settings
    from regraft.estimators.group_audit import audit_groups
    from regraft.estimators.plots import plot_audit, plot_group_audit
    from regraft.estimators.unseen import judge_unseen
    from regraft.support.pictures import write_result

    mixtures: dict[str, Any] = {"prior_shift": prior_shift, "class_groups": class_groups}
    check_settings(family, {**mixtures, "radii": steps, "rank": rank})
    check_device(device)
    check_prior_shift(prior_shift)
    steps = check_radii(steps or numbers(AUDIT_RADII))
    with session.working(f"auditing {predictor} on {data}"):
        table = read_labelled(data, label, domain)
        check_rank(rank, len(set(table.y.tolist())))
        judged: Any
        if predictor.is_dir():
            judged = load_head(predictor)
            X = features_for(judged, table)
            judged = judge_unseen(judged, X, table.y, table.domain)
        else:
            judged, X = read_probabilities(predictor, table.y), table.X
        rows = X, table.y, table.domain
        if family == "latent":
            groups = audit_groups(judged, *rows, **mixtures, device=device)
        else:
            curve = audit(judged, *rows, steps, rank=rank, device=device)
    if family == "latent":
        document = groups.to_dict()
        draw = functools.partial(plot_group_audit, {predictor.stem: groups})
        _show_groups(session, groups)
    else:
        document = {"family": "hull", **curve.to_dict()}
        draw = functools.partial(plot_audit, {predictor.stem: curve})
        _show_curve(session, curve)
    files = write_result(out, "audit.json", document, "audit.png", draw)
    session.finish(document, files, read=[predictor, data])


def _show_groups(session: Session, audit: GroupAudit) -> None:
    from regraft.estimators.group_audit import COLUMNS, evidence_rows

    session.table(COLUMNS, evidence_rows(audit.mixtures), evidence_rows(audit.sources))
    session.say(audit.summary(), *audit.abduction["warnings"])


def _show_curve(session: Session, curve: AuditCurve) -> None:
    from regraft.support.table import percent

    columns = "radius (nats)", "effective rows", "largest risk", "lowest accuracy"
    rows = [
        (f"{p.radius:g}", f"{p.sample_size:.0f}", f"{p.risk:.3f}", percent(p.accuracy))
        for p in curve.points
    ]
    session.table(columns, rows)
    session.say("Measured on the rows audited, in the worst plausible domain within each radius.")
