"""``regraft audit``: a predictor and a table in, its worst cases by family out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from regraft.cli.command import command
from regraft.cli.options import (
    AUDIT_RADII,
    AuditFamily,
    ClassGroups,
    Data,
    Device,
    Domain,
    HullRadii,
    Label,
    NGroups,
    Out,
    PriorShift,
    Rank,
    numbers,
)
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.estimators.audit import AuditCurve
    from regraft.estimators.families import Family
    from regraft.estimators.free_audit import FreeAudit
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
    family: AuditFamily = "latent",
    prior_shift: PriorShift = None,
    class_groups: ClassGroups = False,
    radii: HullRadii = None,
    rank: Rank = None,
    n_groups: NGroups = 2,
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
    from regraft.estimators.free_audit import audit_free
    from regraft.estimators.group_audit import audit_groups
    from regraft.estimators.unseen import judge_unseen
    from regraft.support.pictures import write_result

    mixtures: dict[str, Any] = {"prior_shift": prior_shift, "class_groups": class_groups}
    chosen: dict[str, Any] = {"rank": rank, "n_groups": n_groups}
    check_settings(family, {**mixtures, **chosen, "radii": steps}, frozen=True)
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
        result: GroupAudit | FreeAudit | AuditCurve
        if family == "latent":
            result = audit_groups(judged, *rows, **mixtures, device=device)
        elif family == "free":
            result = audit_free(judged, *rows, device=device)
        else:
            kind = cast("Family", family)
            result = audit(judged, *rows, steps, family=kind, **chosen, device=device)
    document = {"family": family, **result.to_dict()}
    _show(session, result)
    files = write_result(
        *(out, "audit.json", document, "audit.png"),
        lambda path: result.plot(str(path), predictor.stem),
    )
    session.finish(document, files, read=[predictor, data])


def _show(session: Session, audit: GroupAudit | FreeAudit | AuditCurve) -> None:
    from regraft.estimators.group_audit import GroupAudit

    session.tables([audit.table()])
    doubts = audit.abduction["warnings"] if isinstance(audit, GroupAudit) else ()
    session.say(audit.summary(), *doubts)
