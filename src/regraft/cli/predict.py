"""``regraft predict``: a model and a table in, labels and their probabilities out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from regraft.cli.command import command
from regraft.cli.options import Data, Domain, Label, Out, path_argument
from regraft.cli.session import Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regraft.data.tables import FeatureTable
    from regraft.estimators.linear import LinearHead


@command()
def predict(
    session: Session,
    model: Annotated[Path, path_argument("Folder of a saved model.")],
    data: Data,
    label: Label = "label",
    domain: Domain = "domain",
    out: Out = None,
) -> None:
    """Predict labels and probabilities; score them if the data has a label column."""
    from regraft.data.tables import read_table, score
    from regraft.support.files import write_text
    from regraft.support.table import Table, percent

    with session.working(f"reading {data}"):
        table = read_table(data, label=label, domain=domain, need_label=False, need_domain=False)
        head, X = load_for(table, model)
    labels, probabilities = head.predict(X), head.predict_proba(X)
    files = [] if out is None else [out / "predictions.csv"]
    for file in files:
        names = ["label", *(f"probability_{name}" for name in head.classes_)]
        rows = zip(labels.tolist(), *probabilities.T.tolist(), strict=True)
        write_text(file, Table.from_sections("Predictions", names, rows).csv())
    counts = [(str(name), str((labels == name).sum())) for name in head.classes_]
    session.table(("predicted label", "rows"), counts)
    accuracy, by_domain = score(table, labels)
    if accuracy is not None:
        session.say(f"accuracy: {percent(accuracy)}")
    session.say(*(f"accuracy on {name}: {percent(part)}" for name, part in by_domain.items()))
    document = {
        "classes": head.classes_.tolist(),
        "labels": labels.tolist(),
        "probabilities": probabilities.tolist(),
        "accuracy": accuracy,
        "accuracy_by_domain": by_domain,
    }
    session.finish(document, files, read=[model, data])


def load_for(table: FeatureTable, path: Path) -> tuple[LinearHead, NDArray[Any]]:
    """Load the model in ``path``, or in its folder model, and the features (n, d) in its order."""
    from regraft.data.tables import align
    from regraft.estimators.model_files import is_model
    from regraft.estimators.saving import load

    head = load(path / "model" if is_model(path / "model") else path)
    return head, align(table, getattr(head, "feature_names_in_", ()), head.n_features_in_)
