"""``regraft fit``: a table in, a certified head and how it was measured out."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from regraft.cli.command import command
from regraft.cli.options import (
    Data,
    Device,
    Domain,
    Folder,
    HoldoutSeed,
    Label,
    Objective,
    Radius,
    Rank,
    Ridge,
)
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.data.labelled import LabelledTable


@command(html=True)
def fit(
    session: Session,
    data: Data,
    out: Annotated[Path, Folder],
    label: Label = "label",
    domain: Domain = "domain",
    radius: Radius = 8.0,
    rank: Rank = None,
    objective: Objective = "risk",
    ridge: Ridge = None,
    seed: HoldoutSeed = None,
    device: Device = "cpu",
) -> None:
    """Fit the head that is best in the worst plausible unseen domain, and certify it."""
    import numpy as np

    from regraft.core.domains import check_device
    from regraft.core.heads import check_ridge
    from regraft.core.hull import check_objective, check_radius
    from regraft.data.labelled import read_labelled
    from regraft.data.tables import score
    from regraft.estimators.cro import CROClassifier
    from regraft.estimators.saving import check_destination, save
    from regraft.support.files import write_text
    from regraft.support.json_files import dumps
    from regraft.support.table import percent

    check_radius(radius)
    check_objective(objective)
    check_ridge(ridge)
    check_device(device)
    with session.working(f"reading {data}"):
        check_destination(out / "model")
        table = read_labelled(data, label, domain)
        table.warn_of_doubts()
    settings: dict[str, Any] = {
        "radius": radius,
        "rank": rank,
        "objective": objective,
        "ridge": ridge,
        "device": device,
    }
    model = CROClassifier(**settings)
    with session.working(f"fitting {len(table.y)} rows of {table.describe_features()}"):
        model.fit(table.X, table.y, table.domain, on_round=session.round)
        _, accuracy = score(table, model.predict(table.X))
    if table.features:
        model.feature_names_in_ = np.array(table.features, dtype=object)
    # What takes longest comes last, and costs nothing but itself if it is stopped.
    save(model, out / "model")
    certificate = model.certificate_.to_dict()
    write_text(out / "certificate.json", dumps(certificate))
    document = {"certificate": certificate, "source_accuracy": accuracy}
    details = {
        "n_features": table.X.shape[1],
        "classes": [str(name) for name in model.classes_],
        "rows": table.count_rows(),
        "stress": _stress(session, table, settings, seed),
    }
    write_text(out / "fit.json", dumps(document | details))
    session.table(("source", "training accuracy"), [(k, percent(v)) for k, v in accuracy.items()])
    session.say(*model.certificate_.summary())
    files = [out / "model", out / "certificate.json", out / "fit.json"]
    session.finish(document, files, read=[data])


def _stress(
    session: Session, table: LabelledTable, settings: dict[str, Any], seed: int | None
) -> dict[str, Any] | None:
    """Measure heads on rows held out; None with a warning where there cannot be one."""
    from regraft.estimators.stress import stress_test

    with session.working("putting the head under stress") as step:
        try:
            test = stress_test(
                table.X, table.y, table.domain, seed=seed, on_progress=step, **settings
            )
        except (ValueError, RuntimeError) as error:  # such as too few rows to hold some out
            warnings.warn(f"the report has no stress test: {error}", stacklevel=2)
            return None
    return test.to_dict()
