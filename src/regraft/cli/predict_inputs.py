"""``regraft predict`` on new images and texts: features by the model's encoder, then labels."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from regraft.cli.command import RESUMES
from regraft.cli.options import PARTS, TABLES, path_argument
from regraft.cli.predicted import Predicted, predict_rows
from regraft.cli.prediction_tally import PredictionTally
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.data.bank_inputs import RowInput
    from regraft.data.banks import Bank
    from regraft.encoders.new_inputs import NewInputs
    from regraft.estimators.linear import SoftmaxHead

FEATURES = "features"  # the folder of the bank of new inputs, beside the predictions
_MOST_NAMED = 5  # inputs that were left out
_KEYS = {"images": "path", "texts": "row"}  # the columns that name inputs

_NEW_DATA = (
    f"{TABLES} For a model of a bank also what its encoder takes: a folder of images, an "
    "image, a table with a column of texts or paths, or a .txt file of one text a line."
)
NewData = Annotated[Path, path_argument(_NEW_DATA)]
NewDataOrParts = Annotated[Path, path_argument(f"{_NEW_DATA} {PARTS}")]


def predict_inputs(
    session: Session,
    path: Path,
    model: SoftmaxHead,
    inputs: NewInputs,
    kind: str,
    *,
    carried: Mapping[str, str],
    interval: bool,
    out: Path | None,
) -> None:
    """Encode new images or texts, predict their labels, write and show them.

    ``path`` is where the model was read from. ``carried`` maps id, domain and label to columns of a
    table, which it may have.
    """
    with embedded(session, model, inputs, kind, out) as bank:
        files = [] if session.stage is None else [session.stage / "predictions.csv"]
        tally = PredictionTally(keeps_rows=session.as_json)
        with session.counting("predicting", "predictions") as meter, _writing(files) as write:
            for rows, predicted in _predict_blocks(model, bank, inputs, carried, interval):
                columns = _describe(rows, kind) | predicted.columns()
                write(columns)
                tally.add(columns, predicted, [row.cells for row in rows])
                meter(tally.n_rows, len(bank.X))
        document = tally.show(session) | {
            "classes": model.classes_.tolist(),
            "encoder": bank.encoder,
            "rows": tally.n_rows,
            "skipped": bank.n_skipped,
            "first_skipped": [list(each) for each in bank.skipped],
        }
        if files:
            session.say(predicted.describe_columns())
        session.finish(document, files, read=[path, bank.folder])
        if bank.n_skipped:
            session.say(f"Without a prediction: {_name_skipped(bank)}.")


@contextmanager
def embedded(
    session: Session, model: SoftmaxHead, inputs: NewInputs, kind: str, out: Path | None
) -> Iterator[Bank]:
    """Make a bank of new inputs in ``out`` with the encoder of the model, or go on with it.

    Without ``out`` the bank is gone at the end.
    """
    record = model.encoder_
    with session.working(f"loading {inputs.encoder or record.name}"):
        encoder = inputs.load_encoder(record, kind)
    with TemporaryDirectory() if out is None else nullcontext(out) as place:
        folder = Path(place) / FEATURES
        try:
            with session.counting(f"listing the {kind}", kind) as meter:
                embedding = inputs.embed(encoder, folder, meter)
            if embedding.was_there:
                session.say(f"The features of these {kind} are in {folder} already.")
            if embedding.bank.n_skipped:
                session.say(f"Left out as broken: {_name_skipped(embedding.bank)}.")
            yield embedding.bank
        except KeyboardInterrupt:
            raise KeyboardInterrupt("" if out is None else RESUMES) from None


def encode_target(
    session: Session, model: SoftmaxHead, inputs: NewInputs, out: Path | None
) -> Path:
    """Return the bank in ``out`` of new images or texts for a model; what holds features as it is.

    Raises ``ValueError`` with one sentence if there is no ``out`` to keep the bank in.
    """
    kind = inputs.find_kind(model)
    if kind is None:
        return inputs.source
    if out is None:
        raise ValueError(
            f"the features of new {kind} are kept in the folder of results: add --out."
        )
    with embedded(session, model, inputs, kind, out) as bank:
        return bank.folder


def _predict_blocks(
    model: SoftmaxHead, bank: Bank, inputs: NewInputs, carried: Mapping[str, str], interval: bool
) -> Iterator[tuple[list[RowInput], Predicted]]:
    """Yield the rows of a bank with what they were made from, a few thousand at a time."""
    from regraft.data.bank_inputs import iterate_inputs
    from regraft.data.feature_blocks import read_blocks

    rows = iterate_inputs(bank, inputs.source, inputs.column(bank.kind), carried)
    for X in read_blocks(bank.folder, model):
        yield list(islice(rows, len(X))), predict_rows(model, X, interval=interval)


def _name_skipped(bank: Bank) -> str:
    """Name the first inputs that were left out, and count the others."""
    names = [str(name) for name, *_ in bank.skipped[:_MOST_NAMED]]
    more = bank.n_skipped - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _describe(rows: Sequence[RowInput], kind: str) -> dict[str, list[Any]]:
    """Return the columns that say which rows these are."""
    from regraft.estimators.abduction_ends import shorten

    columns: dict[str, list[Any]] = {_KEYS[kind]: [row.key for row in rows]}
    columns |= {
        role: [row.cells[role] for row in rows]
        for role in ("id", "domain")
        if role in rows[0].cells
    }
    if kind == "texts":
        columns["text"] = [shorten(row.text) for row in rows]
    return columns


@contextmanager
def _writing(files: Sequence[Path]) -> Iterator[Callable[[Mapping[str, list[Any]]], None]]:
    """Yield what adds rows to a .csv file, which appears whole at the end; nothing without file."""
    from regraft.support.files import replacing

    if not files:
        yield lambda columns: None
        return
    with replacing(files[0]) as file:

        def write(columns: Mapping[str, list[Any]]) -> None:
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            if not file.tell():
                writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
            file.write(text.getvalue().encode(errors="backslashreplace"))

        yield write
