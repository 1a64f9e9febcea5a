"""``regraft predict`` on a table or a bank: features as the model takes them, then labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regraft.cli.option_groups import ModelColumns
from regraft.cli.predicted import Predicted, describe_decided, predict_rows
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.data.tables import FeatureTable
    from regraft.estimators.pipelines import Model


def predict_table(
    session: Session,
    path: Path,
    model: Model,
    data: Path,
    columns: ModelColumns,
    id_column: str | None,
    *,
    interval: bool,
) -> None:
    """Predict the rows of a table, write and show them; ``path`` is where the model is from.

    Columns that are named must be there; those of fit may be absent.
    """
    from regraft.data.model_features import features_for, find_roles
    from regraft.data.scoring import score
    from regraft.data.tables import read_table
    from regraft.estimators.pipelines import split_model
    from regraft.estimators.unseen import has_seen
    from regraft.support.files import write_text
    from regraft.support.table import Table

    head = split_model(model)[1]
    with session.working(f"reading {data}"):
        roles = find_roles(model, columns.label, columns.domain, id_column)
        table = read_table(
            data,
            **roles._asdict(),
            need_label=columns.label is not None,
            need_domain=columns.domain is not None,
            need_id=id_column is not None,
            label_gaps=True,
        )
        X = features_for(model, table)
        truth = None if table.y is None else table.y.tolist()
    with session.working(f"predicting {len(X)} rows"):
        predicted = predict_rows(head, X, interval=interval)
    scored = score(predicted.labels, truth, table.domain, head.classes_)
    files = [] if session.stage is None else [session.stage / "predictions.csv"]
    for file in files:
        written = _columns(table, str(roles.id), predicted)
        rows = zip(*written.values(), strict=True)
        write_text(file, Table.from_sections("Predictions", list(written), rows).csv())
    counts = [(str(name), str((predicted.labels == name).sum())) for name in head.classes_]
    session.table(("predicted label", "rows"), counts)
    session.say(*scored.sentences(len(X)))
    if scored.accuracy is not None and table.domain is not None and has_seen(head, X, table.domain):
        session.say("The model was fitted on these very rows: expect less on new ones.")
    if predicted.bounds is not None:
        session.say(describe_decided(float(predicted.bounds.decided.mean())))
    if files:
        session.say(predicted.describe_columns())
    document: dict[str, Any] = {"classes": head.classes_.tolist(), **predicted.to_dict()}
    document |= {"ids": None if table.id is None else table.id.tolist()}
    document |= {"accuracy": scored.accuracy, "accuracy_by_domain": scored.by_domain}
    document |= {"labelled_rows": scored.n_labelled}
    session.finish(document, files, read=[path, data])


def _columns(table: FeatureTable, id_name: str, predicted: Predicted) -> dict[str, list[Any]]:
    """Return the columns of the file of predictions, by name."""
    answers = predicted.columns()
    columns: dict[str, list[Any]] = {"row": list(range(1, len(table) + 1))}
    if table.id is not None:
        is_taken = id_name in (*columns, "domain", *answers)
        columns["id" if is_taken else id_name] = table.id.tolist()
    if table.domain is not None:
        columns["domain"] = table.domain.tolist()
    return columns | answers
