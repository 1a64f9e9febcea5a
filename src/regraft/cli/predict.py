"""``regraft predict``: a model and a table in, labels and their probabilities out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli.command import command
from regraft.cli.options import Device, Domain, Label, Model, Out, Weights
from regraft.cli.predict_inputs import (
    NewData,
    NewEncoder,
    NewPath,
    NewText,
    OnBroken,
    predict_inputs,
)
from regraft.cli.predicted import predict_rows
from regraft.cli.session import Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regraft.data.tables import FeatureTable
    from regraft.estimators.linear import SoftmaxHead

_ID = "id"  # the column that is carried over, unless the model was fitted on it
_Interval = Annotated[
    bool,
    typer.Option(
        "--interval",
        help="Add the least and largest probability of each class over all plausible domains, and "
        "whether the row is decided in all of them.",
    ),
]


@command()
def predict(
    session: Session,
    model: Model,
    data: NewData,
    label: Label = "label",
    domain: Domain = "domain",
    interval: _Interval = False,
    out: Out = None,
    text: NewText = "text",
    path: NewPath = "path",
    encoder: NewEncoder = None,
    weights: Weights = None,
    on_broken: OnBroken = "stop",
    device: Device = "cpu",
) -> None:
    """Predict labels and probabilities; score them if the data has a label column.

    New images and texts are encoded first, as the model's bank was. Stopped at any moment, this
    goes on from there when the same command is run again with --out.
    """
    from regraft.data.tables import read_table, score
    from regraft.encoders.new_inputs import NewInputs
    from regraft.support.files import write_text
    from regraft.support.table import Table, percent

    head = load_head(model)
    source = NewInputs(data, text, path, encoder, weights, device, on_broken)
    if kind := source.find_kind(head):
        carried = {_ID: _ID, "domain": domain, "label": label}
        predict_inputs(
            session, model, head, source, kind, carried=carried, interval=interval, out=out
        )
        return
    with session.working(f"reading {data}"):
        taken = {label, domain, *getattr(head, "feature_names_in_", ())}
        row_id = None if _ID in taken else _ID
        table = read_table(
            data, label=label, domain=domain, id=row_id, need_label=False, need_domain=False
        )
        X = features_for(head, table)
    with session.working(f"predicting {len(X)} rows"):
        predicted = predict_rows(head, X, interval=interval)
    labels, bounds = predicted.labels, predicted.bounds
    columns: dict[str, Any] = {"row": range(1, len(X) + 1), _ID: table.id, "domain": table.domain}
    columns |= predicted.columns()
    document = {"classes": head.classes_.tolist(), **predicted.to_dict()}
    files = [] if out is None else [out / "predictions.csv"]
    for file in files:
        kept = {name: list(column) for name, column in columns.items() if column is not None}
        rows = zip(*kept.values(), strict=True)
        write_text(file, Table.from_sections("Predictions", list(kept), rows).csv())
    counts = [(str(name), str((labels == name).sum())) for name in head.classes_]
    session.table(("predicted label", "rows"), counts)
    accuracy, by_domain = score(table, labels)
    if accuracy is not None and len(by_domain) != 1:
        session.say(f"accuracy: {percent(accuracy)}")
    session.say(*(f"accuracy on {name}: {percent(part)}" for name, part in by_domain.items()))
    if bounds is not None:
        session.say(
            f"decided whatever the target: {percent(bounds.decided.mean())} of the rows, which "
            "have the same most probable class in every plausible domain"
        )
    document |= {"accuracy": accuracy, "accuracy_by_domain": by_domain}
    session.finish(document, files, read=[model, data])


def load_head(path: Path) -> SoftmaxHead:
    """Load the model in ``path``, or in its folder model."""
    from regraft.estimators.model_files import is_model
    from regraft.estimators.saving import load

    return load(path / "model" if is_model(path / "model") else path)


def features_for(head: SoftmaxHead, table: FeatureTable) -> NDArray[Any]:
    """Return the features (n, d) of ``table`` in the order of the model.

    Raises ``ValueError`` with one sentence if they are not those that it was fitted on.
    """
    from regraft.data.tables import align

    fitted, found = getattr(head, "encoder_", None), table.encoder
    if fitted and found and fitted[1] != found[1]:
        name = f"other weights of {found[0]}" if found[0] == fitted[0] else found[0]
        raise ValueError(
            f"the data are features of {name}, but the model was fitted on those of {fitted[0]}: "
            "embed them in the same way."
        )
    return align(table, getattr(head, "feature_names_in_", ()), head.n_features_in_)
