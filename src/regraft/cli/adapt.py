"""``regraft adapt``: a model and rows of a new domain in, a model for that domain out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli.command import command
from regraft.cli.option_groups import ModelColumns
from regraft.cli.options import Data, Folder, Model, Seed
from regraft.cli.place import read_target
from regraft.cli.session import Session, announce_replacement

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from regraft.estimators.learning_curve import LearningCurve

_MOST_DRAWS = 10_000


@command("adapt", html=True)
def adapt_command(
    session: Session,
    model: Model,
    target: Data,
    out: Annotated[Path, Folder],
    *,
    columns: ModelColumns,
    no_labels: Annotated[
        bool, typer.Option("--no-labels", help="Leave out the labels that the data have.")
    ] = False,
    draws: Annotated[
        int, typer.Option(help="Draws of labels for the learning curve; 0 leaves it out.")
    ] = 5,
    seed: Seed = 0,
) -> None:
    """Adapt a model to a new domain with its rows, of which none, some or all have labels."""
    from regraft.estimators.adapting import adapt
    from regraft.estimators.pipelines import join_model, split_model
    from regraft.estimators.saving import check_destination, load, save
    from regraft.estimators.target_tables import adapted_table, place_table

    if not 0 <= draws <= _MOST_DRAWS:
        raise ValueError(f"draws is {draws}: pass 0 to {_MOST_DRAWS:,}.")
    with session.working(f"reading {target}"):
        place = out / "model"
        if place.resolve() in (model.resolve(), (model / "model").resolve()):
            raise ValueError(f"{place} is the model to adapt: choose another folder with --out.")
        check_destination(place)
        announce_replacement(session, out)
        fitted = load(model)
        table, X = read_target(fitted, target, columns, label_gaps=not no_labels)
        before, head = split_model(fitted)
    y = None if no_labels else table.y
    with session.working(f"adapting to {len(X)} rows"):
        adapted = adapt(head, X, y)
    certificate, before_certificate = adapted.certificate_, head.certificate_
    curve = _draw_curve(session, head, X, y, draws, seed, certificate.labels)
    document: dict[str, Any] = {
        "certificate": certificate.to_dict(),
        "summary": certificate.paragraphs(),
        "classes": [str(name) for name in adapted.classes_],
        "curve": None if curve is None else curve.to_dict(),
        "model": before_certificate.to_dict(),
    }
    files = [(session.stage or out) / "model"]
    save(join_model(before, adapted), files[0])
    files += session.write_json("adapt.json", document)
    session.tables(
        each for each in (place_table(certificate), adapted_table(certificate)) if each is not None
    )
    session.say(certificate.summary())
    if curve is not None:
        session.say("")
        session.tables([curve.table()])
        session.say(curve.table().note)
    session.finish(document, files, read=[model, target])


def _draw_curve(
    session: Session,
    head: Any,
    X: NDArray[Any],
    y: NDArray[Any] | None,
    draws: int,
    seed: int,
    n_labels: int,
) -> LearningCurve | None:
    """Draw a learning curve if it is asked for and if there are labels enough."""
    from regraft.estimators.learning_curve import MIN_LABELS, learning_curve

    if y is None or not draws or n_labels < MIN_LABELS:
        return None
    with session.counting("measuring the learning curve", "heads") as count:
        return learning_curve(head, X, y, draws=draws, seed=seed, on_cell=count)
