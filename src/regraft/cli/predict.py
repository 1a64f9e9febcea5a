"""What ``regraft predict`` does: a model and a table in, labels and their probabilities out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from regraft.cli.console import Screen
from regraft.cli.session import Run
from regraft.data.tables import Table, align, read_table, score
from regraft.estimators.linear import LinearHead
from regraft.estimators.model_files import is_model
from regraft.estimators.saving import load
from regraft.support.files import write_text
from regraft.support.table import Table as PrintedTable
from regraft.support.table import percent


def run_predict(
    screen: Screen, run: Run, model: Path, data: Path, *, label: str, domain: str
) -> None:
    """Predict the rows in ``data`` and score what has a label; ``ValueError`` with one sentence."""
    with screen.working(f"reading {data}"):
        table = read_table(data, label=label, domain=domain, need_label=False, need_domain=False)
        head, X = load_for(table, model)
    labels, probabilities = head.predict(X), head.predict_proba(X)
    files = [] if run.out is None else [run.out / "predictions.csv"]
    for file in files:
        names = ["label", *(f"probability_{name}" for name in head.classes_)]
        rows = zip(labels.tolist(), *probabilities.T.tolist(), strict=True)
        write_text(file, PrintedTable.from_sections("Predictions", names, rows).csv())
    counts = [(str(name), str((labels == name).sum())) for name in head.classes_]
    screen.table(("predicted label", "rows"), counts)
    accuracy, by_domain = score(table, labels)
    if accuracy is not None:
        screen.say(f"accuracy: {percent(accuracy)}")
    screen.say(*(f"accuracy on {name}: {percent(part)}" for name, part in by_domain.items()))
    document = {
        "classes": head.classes_.tolist(),
        "labels": labels.tolist(),
        "probabilities": probabilities.tolist(),
        "accuracy": accuracy,
        "accuracy_by_domain": by_domain,
    }
    run.finish(screen, document, files)


def load_for(table: Table, path: Path) -> tuple[LinearHead, NDArray[Any]]:
    """The model in ``path``, or in what ``regraft fit`` made there, and its features (n, d)."""
    head = load(path / "model" if is_model(path / "model") else path)
    return head, align(table, getattr(head, "feature_names_in_", ()), head.n_features_in_)
