"""``regraft audit``: a predictor and a table in, its worst cases by family out."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from regraft.cli.command import command
from regraft.cli.large_tables import audit_large
from regraft.cli.option_groups import EngineSettings, Hulls, Mixtures, ModelColumns
from regraft.cli.options import (
    AUDIT_RADII,
    AuditFamily,
    Categorical,
    DataOrParts,
    Device,
    Drop,
    Features,
    HullRadii,
    ModelId,
    Out,
    choose_columns,
    numbers,
)
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.data.columns import ColumnChoice
    from regraft.estimators.audit import AuditCurve
    from regraft.estimators.column_roles import ColumnRoles
    from regraft.estimators.families import Family
    from regraft.estimators.free_audit import FreeAudit
    from regraft.estimators.group_audit import GroupAudit
    from regraft.estimators.pipelines import Model


@command("audit", html=True)
def audit_command(
    session: Session,
    predictor: Annotated[
        Path, typer.Argument(help="A saved model, or a file of probabilities.", readable=False)
    ],
    data: DataOrParts,
    *,
    named: ModelColumns,
    features: Features = None,
    drop: Drop = None,
    categorical: Categorical = None,
    id_column: ModelId = None,
    family: AuditFamily = "latent",
    mixtures: Mixtures,
    radii: HullRadii = None,
    hulls: Hulls,
    device: Device = "cpu",
    settings: EngineSettings,
    out: Out = None,
) -> None:
    """Measure a fixed predictor by hidden group and source, and in the worst plausible domain."""
    steps = None if radii is None else numbers(radii)
    from regraft.core.domains import check_device
    from regraft.core.group_targets import check_prior_shift
    from regraft.core.hull import check_rank
    from regraft.estimators.audit import audit, check_radii
    from regraft.estimators.families import check_settings
    from regraft.estimators.free_audit import audit_free
    from regraft.estimators.group_audit import audit_groups
    from regraft.estimators.unseen import judge_unseen

    check_settings(family, {**vars(mixtures), **vars(hulls), "radii": steps}, frozen=True)
    columns = choose_columns(features, drop, categorical, id_column)
    check_device(device)
    check_prior_shift(mixtures.prior_shift)
    steps = check_radii(steps or numbers(AUDIT_RADII))
    result: GroupAudit | FreeAudit | AuditCurve
    if settings.is_streamed:
        check_streamed_audit(predictor, family, mixtures.class_groups, device)
        model, roles = _load(predictor, named, columns)
        result = audit_large(
            session, model, data, roles, columns.id, settings, mixtures.prior_shift
        )
        return _finish(session, result, family, predictor, data)
    with session.working(f"auditing {predictor} on {data}"):
        judged, X, y, places = _read(predictor, data, named, columns)
        check_rank(hulls.rank, len(set(y.tolist())))
        rows = X, y, places
        if predictor.is_dir():
            judged = judge_unseen(judged, *rows)
        if family == "latent":
            result = audit_groups(judged, *rows, **vars(mixtures), device=device)
        elif family == "free":
            result = audit_free(judged, *rows, device=device)
        else:
            kind = cast("Family", family)
            result = audit(judged, *rows, steps, family=kind, **vars(hulls), device=device)
    _finish(session, result, family, predictor, data)


def check_streamed_audit(predictor: Path, family: str, class_groups: bool, device: str) -> None:
    """Raise ``ValueError`` unless rows that are not in memory can be audited so."""
    from regraft.estimators.streamed import refuse_in_parts

    if predictor.is_file():
        raise ValueError(
            f"{predictor} is a file of probabilities, which need all rows in memory: leave out "
            "--engine."
        )
    refuse_in_parts({"family": family, "class_groups": class_groups, "device": device})


def _finish(
    session: Session,
    result: GroupAudit | FreeAudit | AuditCurve,
    family: str,
    predictor: Path,
    data: Path,
) -> None:
    from regraft.support.pictures import write_result

    document = {"family": family, **result.to_dict()}
    _show(session, result)
    files = write_result(
        *(session.stage, "audit.json", document, "audit.png"),
        lambda path: result.plot(str(path), predictor.stem),
    )
    session.finish(document, files, read=[predictor, data])


def _read(
    predictor: Path, data: Path, named: ModelColumns, choice: ColumnChoice
) -> tuple[Any, Any, Any, Any]:
    """Read a model or probabilities, and the features, labels and domains to audit it on."""
    from regraft.data.labelled import read_labelled
    from regraft.data.model_features import USUAL_ID, features_for
    from regraft.data.probabilities import read_probabilities
    from regraft.data.tables import read_table
    from regraft.estimators.pipelines import split_model

    if not predictor.is_dir():
        names = named.label or "label", named.domain or "domain"
        table = read_labelled(data, *names, choice=choice, usual_id=USUAL_ID)
        judged = read_probabilities(predictor, table.y, table.id, choice.id or USUAL_ID, table.kept)
        return judged, table.X, table.y, table.domain
    model, roles = _load(predictor, named, choice)
    found = read_table(data, **roles._asdict(), need_id=choice.id is not None)
    X, y, places = features_for(model, found), found.y, found.domain
    assert y is not None and places is not None  # they are needed
    return split_model(model)[1], X, y, places


def _load(predictor: Path, named: ModelColumns, choice: ColumnChoice) -> tuple[Model, ColumnRoles]:
    """Read a model, and which columns of a table are no features."""
    from regraft.data.columns import ColumnChoice
    from regraft.data.model_features import find_roles
    from regraft.estimators.saving import load

    if choice != ColumnChoice(id=choice.id):
        raise ValueError(
            "the model knows its columns: leave out --features, --drop and --categorical, which "
            "are for files of probabilities."
        )
    # A feature of the model that does not vary among these rows is nothing to drop.
    warnings.filterwarnings("ignore", message=r".* constant and carr(y|ies) no information")
    model = load(predictor)
    return model, find_roles(model, named.label, named.domain, choice.id)


def _show(session: Session, audit: GroupAudit | FreeAudit | AuditCurve) -> None:
    from regraft.estimators.group_audit import GroupAudit

    session.tables([audit.table()])
    doubts = audit.abduction["warnings"] if isinstance(audit, GroupAudit) else ()
    session.say(audit.summary(), *doubts)
