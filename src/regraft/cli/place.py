"""``regraft place``: a model and unlabelled rows in, where their domain lies out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regraft.cli.command import command
from regraft.cli.large_tables import place_large, warn_of_domains
from regraft.cli.option_groups import EngineSettings, ModelColumns, NewInputOptions
from regraft.cli.options import Inputs, Model, ModelId, Out
from regraft.cli.predict_inputs import NewDataOrParts, encode_target
from regraft.cli.session import Session
from regraft.cli.shown_rows import (
    Described,
    announce_pictures,
    describe_rows,
    show_rows,
    tell_columns,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regraft.data.tables import FeatureTable
    from regraft.estimators.abduction_ends import ShownRow
    from regraft.estimators.pipelines import Model as FittedModel
    from regraft.estimators.placing import Placement


@command("place", html=True)
def place_command(
    session: Session,
    model: Model,
    target: NewDataOrParts,
    *,
    columns: ModelColumns,
    id_column: ModelId = None,
    inputs: Inputs = None,
    out: Out = None,
    new: NewInputOptions,
    settings: EngineSettings,
) -> None:
    """Place a new domain among the sources, without labels, and show what is alien to them."""
    from regraft.estimators.evidence_tables import name_domains
    from regraft.estimators.pipelines import name_features, split_model
    from regraft.estimators.placing import place
    from regraft.estimators.saving import load
    from regraft.estimators.target_tables import expect_accuracy

    fitted = load(model)
    before, head = split_model(fitted)
    if settings.is_streamed:
        where = columns.domain, id_column
        placement, table, X = place_large(session, fitted, target, *where, settings)
        at = list(range(len(X)))
    else:
        target = encode_target(session, head, new.open(target), out)
        with session.working(f"reading {target}"):
            table, X = read_target(fitted, target, columns, id_column)
        with session.working(f"placing {len(X)} rows"):
            placement = place(head, X)
        at = list(placement.alien_rows)
    with session.working("reading the rows that are least alike"):
        rows = _alien_rows(placement, table, at)
        usual = head.reference_.X.numpy()
        rows = tell_columns(rows, table, X, usual, name_features(before, head), at)
        shown = describe_rows(rows, target, inputs)
        rows = tuple(shown.rows.get(row.number, row) for row in rows)
    certificate = head.certificate_
    certified, scope = certificate.accuracy_bound, name_domains(certificate)
    document: dict[str, Any] = placement.to_dict() | {
        "summary": [*placement.paragraphs(), expect_accuracy(placement, certified, scope)],
        "certified_accuracy": certified,
        "model": certificate.to_dict(),
        "alien": [dict(vars(row)) for row in rows],
    }
    files = session.write_json("place.json", document)
    _show(session, placement, document["summary"], rows, shown)
    session.finish(document, files, read=[model, target])


def read_target(
    model: FittedModel,
    target: Path,
    columns: ModelColumns,
    id_column: str | None = None,
    *,
    label_gaps: bool = False,
) -> tuple[FeatureTable, NDArray[Any]]:
    """Read the table of a new domain, and the features that the model's head takes.

    Columns that are named must be there; those of fit may be absent. With ``label_gaps``, some or
    all rows may have no label. Warns of several domains.
    """
    from regraft.data.model_features import features_for, find_roles
    from regraft.data.tables import read_table

    table = read_table(
        target,
        **find_roles(model, columns.label, columns.domain, id_column)._asdict(),
        need_label=label_gaps and columns.label is not None,
        need_domain=columns.domain is not None,
        need_id=id_column is not None,
        label_gaps=label_gaps,
    )
    domains = [] if table.domain is None else table.domain.tolist()
    warn_of_domains(sorted(set(domains), key=str))  # a file may mix texts and numbers
    return table, features_for(model, table)


def _alien_rows(
    placement: Placement, table: FeatureTable, at: Sequence[int]
) -> tuple[ShownRow, ...]:
    """Return the least alike rows, which stand in the table ``at`` these places."""
    from regraft.estimators.abduction_ends import ShownRow

    domain, ids = table.domain, table.id
    return tuple(
        ShownRow(
            number + 1,
            "" if domain is None else str(domain[i]),
            "" if ids is None else str(ids[i]),
        )
        for number, i in zip(placement.alien_rows, at, strict=True)
    )


def _show(
    session: Session,
    placement: Placement,
    summary: Sequence[str],
    rows: Sequence[ShownRow],
    shown: Described,
) -> None:
    from regraft.estimators.target_tables import placement_table

    session.say(*summary)
    if len(placement.shares) > 1:
        session.say("")
        session.tables([placement_table(placement)])
    announce_pictures(session, shown.pictures)
    show_rows(
        session, "Rows that look least like the mixture, the least first:", rows, shown.pictures
    )
