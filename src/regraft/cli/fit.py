"""``regraft fit``: a table in, a certified head and how it was measured out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from regraft.cli.command import command
from regraft.cli.large_tables import fit_large, warn_of_small_cells
from regraft.cli.option_groups import EngineSettings, Hulls, Mixtures, TableColumns
from regraft.cli.options import DataOrParts, Device, Family, Folder, HullRadius, Objective, Ridge
from regraft.cli.session import Session, announce_replacement
from regraft.cli.shown_rows import SHOWN_ROWS, describe_ends

if TYPE_CHECKING:
    from regraft.core.certificate import Certificate


@command(html=True)
def fit(
    session: Session,
    data: DataOrParts,
    out: Annotated[Path, Folder],
    *,
    columns: TableColumns,
    family: Family = "latent",
    mixtures: Mixtures,
    radius: HullRadius = None,
    hulls: Hulls,
    objective: Objective = "risk",
    ridge: Ridge = None,
    device: Device = "cpu",
    settings: EngineSettings,
) -> None:
    """Fit the head that is best in the worst plausible unseen domain, and certify it."""
    from sklearn.pipeline import make_pipeline

    from regraft.core.domains import check_device
    from regraft.estimators.abduction_ends import abduction_document
    from regraft.estimators.card import describe_reference
    from regraft.estimators.column_roles import ColumnRoles
    from regraft.estimators.cro import CROClassifier
    from regraft.estimators.expected_time import describe_wait
    from regraft.estimators.saving import check_destination, save

    parameters: dict[str, Any] = {
        "family": family,
        **vars(mixtures),
        "radius": radius,
        **vars(hulls),
        "objective": objective,
        "ridge": ridge,
        "device": device,
    }
    model = CROClassifier(**parameters)
    model.check_parameters()
    if device == "cpu" or settings.address is None:  # the GPUs of a cluster are not here
        check_device(device)
    check_destination(out / "model")
    announce_replacement(session, out)
    cells: Mapping[str, Mapping[str, int]]
    numbers: list[int] | None = None
    if settings.is_streamed:
        sampled = fit_large(session, model, data, columns, settings)
        table, cells, numbers = sampled.table, sampled.cells, sampled.numbers
    else:
        with session.working(f"reading {data}"):
            table = columns.read(data)
            cells = table.count_rows()
            warn_of_small_cells(cells)
        if wait := describe_wait(len(table.X), table.X.shape[1], len(set(table.y.tolist()))):
            session.note(wait)
        with session.working(f"fitting {len(table.y)} rows of {table.describe_features()}"):
            model.fit(
                table.X, table.y, table.domain, on_round=partial(session.round, kind=objective)
            )
    model.column_roles_ = ColumnRoles(columns.label, columns.domain, columns.id_column)
    if table.encoder is not None:
        model.encoder_ = table.encoder
    before = table.preprocessing
    files = [(session.stage or out) / "model"]
    save(model if before is None else make_pipeline(before, model), files[0])
    certificate = model.certificate_
    files += session.write_json("certificate.json", certificate.to_dict())
    details: dict[str, Any] = {
        "n_features": table.X.shape[1],
        "classes": [str(name) for name in model.classes_],
        "rows": cells,
    }
    if family == "latent":
        ends, _ = describe_ends(model.abduction_, table, data, SHOWN_ROWS, numbers=numbers)
        details["abduction"] = abduction_document(model.abduction_, ends)
    accuracy = {each.name: each.accuracy for each in certificate.sources}
    document = {"certificate": certificate.to_dict(), "source_accuracy": accuracy}
    files += session.write_json("fit.json", document | details)
    _show_sources(session, certificate, cells)
    session.say(certificate.summary())
    if notice := describe_reference(model):
        session.say(notice.replace("`", ""))
    session.finish(document, files, read=[data])


def _show_sources(
    session: Session, certificate: Certificate, cells: Mapping[str, Mapping[str, int]]
) -> None:
    """Print the answer, the accuracies on rows held out, and what was found about the factor."""
    from regraft.core.group_certificate import GroupCertificate
    from regraft.estimators.abduction import summarize_factor
    from regraft.estimators.fit_answer import answer_fit
    from regraft.estimators.source_mixtures import check_sources
    from regraft.support.table import percent

    session.say(*answer_fit(certificate, cells).lines())
    rows: list[tuple[str, ...]] = [
        (ours.name, percent(erm.accuracy), percent(ours.accuracy))
        for ours, erm in zip(certificate.sources, certificate.pooled_sources, strict=True)
    ]
    columns: tuple[str, ...] = "source (held-out rows)", "ERM", "this model"
    if checks := check_sources(certificate):
        columns = *columns, "its groups predict"
        marks = ("" if each.is_mixture else "≠ " for each in checks)
        predicted = [f"{mark}{each.predicted}" for mark, each in zip(marks, checks, strict=True)]
        rows = [(*row, text) for row, text in zip(rows, predicted, strict=True)]
    session.table(columns, rows)
    if isinstance(certificate, GroupCertificate):
        session.say(summarize_factor(certificate.abduction))
