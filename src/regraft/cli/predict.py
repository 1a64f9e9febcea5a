"""``regraft predict``: a model and a table in, labels and their probabilities out."""

from __future__ import annotations

from typing import Annotated

import typer

from regraft.cli.command import command
from regraft.cli.option_groups import ModelColumns, NewInputOptions
from regraft.cli.options import Model, ModelId, Out
from regraft.cli.predict_inputs import NewData, predict_inputs
from regraft.cli.predict_table import predict_table
from regraft.cli.session import Session

_Interval = Annotated[
    bool,
    typer.Option(
        "--interval",
        help="Add the smallest and the largest probability that each class has in a plausible "
        "domain (least_, largest_), and whether the most probable class is the same in all of them "
        "(decided).",
    ),
]


@command()
def predict(
    session: Session,
    model: Model,
    data: NewData,
    *,
    columns: ModelColumns,
    id_column: ModelId = None,
    interval: _Interval = False,
    out: Out = None,
    new: NewInputOptions,
) -> None:
    """Predict labels and probabilities; score them if the data has a label column.

    In predictions.csv, label is the predicted class, probability_<class> its probabilities, and
    group_<number> the probability that the row is of that hidden group.

    New images and texts are encoded first, as the model's bank was. Stopped at any moment, this
    goes on from there when the same command is run again with --out.
    """
    from regraft.data.model_features import find_roles
    from regraft.estimators.pipelines import split_model
    from regraft.estimators.saving import load

    fitted = load(model)
    head = split_model(fitted)[1]
    source = new.open(data)
    if kind := source.find_kind(head):
        roles = find_roles(fitted, columns.label, columns.domain, id_column)
        carried = {role: name for role, name in roles._asdict().items() if name is not None}
        predict_inputs(
            session, model, head, source, kind, carried=carried, interval=interval, out=out
        )
        return
    predict_table(session, model, fitted, data, columns, id_column, interval=interval)
