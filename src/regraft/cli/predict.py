"""``regraft predict``: a model and a table in, labels and their probabilities out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli.command import command
from regraft.cli.options import Data, Domain, Label, Model, Out
from regraft.cli.session import Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regraft.core.intervals import Interval
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
    data: Data,
    label: Label = "label",
    domain: Domain = "domain",
    interval: _Interval = False,
    out: Out = None,
) -> None:
    """Predict labels and probabilities; score them if the data has a label column."""
    from regraft.data.tables import read_table, score
    from regraft.support.files import write_text
    from regraft.support.table import Table, percent

    with session.working(f"reading {data}"):
        head = load_head(model)
        taken = {label, domain, *getattr(head, "feature_names_in_", ())}
        row_id = None if _ID in taken else _ID
        table = read_table(
            data, label=label, domain=domain, id=row_id, need_label=False, need_domain=False
        )
        X = features_for(head, table)
    labels, probabilities = head.predict(X), head.predict_proba(X)
    columns = {"row": range(1, len(X) + 1), _ID: table.id, "domain": table.domain, "label": labels}
    columns |= _by_class("probability", head, probabilities)
    document = {
        "classes": head.classes_.tolist(),
        "labels": labels.tolist(),
        "probabilities": probabilities.tolist(),
    }
    bounds = None
    if interval:
        with session.working("finding the interval of each row"):
            bounds = _interval_of(head, X)
        columns |= _by_class("least", head, bounds.lower)
        columns |= _by_class("largest", head, bounds.upper)
        columns["decided"] = bounds.decided.astype(int)
        document["least"], document["largest"] = bounds.lower.tolist(), bounds.upper.tolist()
        document["decided"] = bounds.decided.tolist()
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


def _by_class(what: str, head: SoftmaxHead, values: NDArray[Any]) -> dict[str, Any]:
    """Return the columns of ``values`` (n, C) with their names."""
    names = (f"{what}_{name}" for name in head.classes_)
    return dict(zip(names, values.T.tolist(), strict=True))


def _interval_of(head: SoftmaxHead, X: NDArray[Any]) -> Interval:
    from regraft.estimators.adapted import AdaptedClassifier
    from regraft.estimators.cro import CROClassifier

    if isinstance(head, AdaptedClassifier):
        raise ValueError(
            "an adapted model speaks of one domain, so it has no interval: leave out --interval, "
            "or pass the model that it was made from."
        )
    if not isinstance(head, CROClassifier):
        raise ValueError(
            f"{type(head).__name__} has no family of plausible domains: leave out --interval, or "
            "pass a model made by regraft fit."
        )
    return head.predict_interval(X)
