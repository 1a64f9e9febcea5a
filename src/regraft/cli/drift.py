"""``regraft drift``: a model and a stream of rows in, shares over time and alarms out."""

from __future__ import annotations

import warnings
from bisect import bisect
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regraft.cli.command import command
from regraft.cli.option_groups import ModelColumns
from regraft.cli.options import Model, Out, path_argument
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.data.feature_blocks import Block
    from regraft.estimators.drift import DriftBatch

ALARMS = 3  # exit code with --fail-on-alarm
_LINES = "drift.jsonl"
_POINTS, _SHOWN_BATCHES = 400, 20  # on the page; in the table
_KEPT_ALARMS, _SHOWN_ALARMS = 200, 20  # on the page; in the terminal

_Targets = Annotated[
    list[Path],
    path_argument(
        "Tables (.csv, .jsonl, both also .gz, .parquet, .npz) or banks, one stream in this order."
    ),
]
_Batch = Annotated[int, typer.Option(help="Rows of a batch, 10 or more.")]
_Level = Annotated[
    float,
    typer.Option(
        help="P-value below which a batch is no mix of the sources' groups. If all batches are, "
        "1,000 of them raise about 1,000 times this many false alarms: 1 at 0.001."
    ),
]
_FailOnAlarm = Annotated[
    bool, typer.Option("--fail-on-alarm", help=f"Exit with code {ALARMS} if an alarm was raised.")
]


@command("drift", html=True)
def drift_command(
    session: Session,
    model: Model,
    targets: _Targets,
    batch: _Batch = 1000,
    level: _Level = 0.001,
    *,
    columns: ModelColumns,
    fail_on_alarm: _FailOnAlarm = False,
    out: Out = None,
) -> None:
    """Watch a stream of rows without labels: shares of the groups over time, and alarms.

    An alarm is raised where a batch is no mixture of what the sources hold, or where the expected
    accuracy is clearly below the certificate's. A folder --out that holds a drift.jsonl is refused.
    """
    from regraft.estimators.drift import DriftSummary, ThinnedBatches, in_batches, watch
    from regraft.estimators.pipelines import split_model
    from regraft.estimators.saving import load
    from regraft.support.json_files import make_line

    files = [] if out is None else [out / _LINES]
    if files and files[0].exists():
        raise ValueError(f"{files[0]} is there already: delete it, or choose another --out.")
    with session.working(f"reading {model}"):
        fitted = load(model)
        head: Any = split_model(fitted)[1]
        stream = _Stream(fitted, targets, columns)
        batches = watch(head, in_batches(stream.blocks(), batch), level)
        stream.check()
    certified = head.certificate_.accuracy_bound
    summary, thinned, alarms = DriftSummary(), ThinnedBatches(_POINTS), list[dict[str, Any]]()
    with ExitStack() as stack:
        count = stack.enter_context(session.counting("reading batches", "batches"))
        log = None
        for each in batches:
            summary = summary.add(each)
            thinned.add(each)
            record = each.to_dict() | stream.locate(each)
            if each.alarms:
                _tell(session, each, certified, summary.alarms)
                if summary.alarms <= _KEPT_ALARMS:
                    alarms.append(record)
            if files and log is None:  # nothing is written if the first batch is not usable
                files[0].parent.mkdir(parents=True, exist_ok=True)
                log = stack.enter_context(files[0].open("xb"))
            if log is not None:
                log.write(make_line(record))
                log.flush()
            count(each.number, None)
    document = {
        "summary": summary.to_dict(),
        "sentence": summary.sentence(),
        "targets": [str(path) for path in targets],
        "batch": batch,
        "level": level,
        "certified_accuracy": certified,
        "batches": [each.to_dict() for each in thinned.batches()],
        "alarms": alarms,
    }
    files += session.write_json("drift.json", document)
    _show(session, summary.sentence(), thinned.batches(_SHOWN_BATCHES), certified)
    session.finish(document, files, read=[model, *targets])
    if fail_on_alarm and summary.alarms:
        raise typer.Exit(ALARMS)


@dataclass(frozen=True)
class _Stream:
    """The rows of all targets, and where each of them began."""

    model: Any
    targets: list[Path]
    named: ModelColumns
    starts: list[int] = field(default_factory=list)  # first rows of the targets begun, from 1

    def check(self) -> None:
        """Read the first rows of each target; raise ``ValueError`` if it cannot be used."""
        with warnings.catch_warnings(action="ignore"):  # they come when all rows are read
            for path in self.targets:
                next(self._read(path), None)

    def blocks(self) -> Iterator[Block]:
        row = 1
        for path in self.targets:
            self.starts.append(row)
            for block in self._read(path):
                row += len(block)
                yield block

    def locate(self, batch: DriftBatch) -> dict[str, Any]:
        """Name the target that a batch begins in, and its first row there."""
        number = bisect(self.starts, batch.first_row) - 1
        first = batch.first_row - self.starts[number] + 1
        return {"target": str(self.targets[number]), "target_row": first}

    def _read(self, path: Path) -> Iterator[Block]:
        from regraft.data.columns import Role
        from regraft.data.feature_blocks import read_blocks
        from regraft.data.model_features import find_roles

        columns = find_roles(self.model, self.named.label, self.named.domain)._asdict()
        roles = [Role(name, option, needed=False) for option, name in columns.items() if name]
        return read_blocks(path, self.model, roles)


def _tell(session: Session, batch: DriftBatch, certified: float, alarms: int) -> None:
    if alarms <= _SHOWN_ALARMS:
        session.note(batch.describe(certified))
    elif alarms == _SHOWN_ALARMS + 1:
        session.note("Further alarms are counted, and written to --out only.")


def _show(
    session: Session, sentence: str, batches: tuple[DriftBatch, ...], certified: float
) -> None:
    from regraft.estimators.drift import batch_table

    session.tables([batch_table("Batches, evenly spaced", batches)])
    session.say(f"Certified accuracy: {certified:.1%}.", sentence)
