"""``regraft compare``: data or a known dataset in, tables and a picture out."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regraft.cli.command import command
from regraft.cli.names import METRICS
from regraft.cli.option_groups import TableColumns
from regraft.cli.options import (
    FEATURES,
    Device,
    Folder,
    choice,
    numbers,
    one_of,
    path_option,
    words,
)
from regraft.cli.session import Session

if TYPE_CHECKING:
    from regraft.estimators.comparison import Comparison

RECORDS = "cells.jsonl"  # in --out: the cells finished so far


@command("compare", html=True, resumes=True)
def compare_command(
    session: Session,
    data: Annotated[
        Path,
        typer.Argument(
            help=f"{FEATURES}, a bank, or a known dataset: amazon, office-caltech10 or pacs.",
            readable=False,
        ),
    ],
    columns: TableColumns,
    folder: Annotated[Path | None, path_option("Files of a known dataset.", "--data")] = None,
    radii: Annotated[
        str | None,
        typer.Option(
            help="Also compare CRO's hull at these radii in nats, separated by commas. Each takes "
            "about as long as the hull at the radius that the sources support."
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Also compare this classifier, by the import path of its class, with parameters "
            "if need be: sklearn.ensemble.RandomForestClassifier(n_estimators=100). NAME=PATH "
            "names it. Its module is imported. May be given several times."
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        choice(f"Also show by domain, with commas between: {one_of(*METRICS)}.", *METRICS),
    ] = None,
    device: Device = "cpu",
    out: Annotated[Path, Folder] = Path("regraft-compare"),
) -> None:
    """Leave each domain out in turn: CRO, ERM and six other heads where none has been.

    Finished cells are kept in --out: the same command goes on where it stopped.
    """
    steps = [] if radii is None else numbers(radii)
    from regraft.encoders.known_datasets import check_choice, read_known_dataset
    from regraft.estimators.compared_heads import compared_heads
    from regraft.estimators.comparison import compare
    from regraft.estimators.comparison_tables import write_tables
    from regraft.estimators.given_estimators import read_estimators
    from regraft.estimators.plots import plot_comparison
    from regraft.support.files import own
    from regraft.support.pictures import write_result

    shown = words(metrics)
    unknown = [each for each in shown if each not in METRICS]
    if unknown:
        raise ValueError(f"metrics has {unknown[0]!r}: choose among {', '.join(METRICS)}.")
    estimators = read_estimators(model or [])
    compared_heads(steps, device, estimators)  # refuses what is wrong before anything is read
    with session.working(f"reading {data}") as step:
        check_choice(data, folder)
        if folder is not None:
            table = read_known_dataset(str(data), folder, out, device=device, on_progress=step)
        else:
            table = columns.read(data)
    n, d = table.X.shape
    refusal = (
        f"another comparison is at work in {out}: wait for it, or choose another folder with --out."
    )
    working = session.working(f"comparing heads on {n} rows of {d} features")
    with own(out, refusal), working as step:
        comparison = compare(
            table.X if table.columns is None else table.columns,
            table.y,
            table.domain,
            radii=steps,
            estimators=estimators,
            features=table.preprocessing,
            device=device,
            records=out / RECORDS,
            on_progress=step,
        )
        document = comparison.to_dict()
        draw = functools.partial(plot_comparison, comparison)
        stage = session.stage or out
        files = write_result(stage, "comparison.json", document, "comparison.png", draw)
        files += write_tables(stage, comparison)
        _show(session, comparison, shown)
        session.finish(document, files, read=[folder or data])


def _show(session: Session, comparison: Comparison, metrics: list[str]) -> None:
    from regraft.estimators.comparison_tables import (
        MEANING,
        accuracy_table,
        means_table,
        metric_table,
        narrow,
    )

    others = (metric_table(comparison, each) for each in metrics)
    narrowed = map(narrow, (means_table(comparison), *others))
    session.tables([accuracy_table(comparison), *narrowed])
    session.say(MEANING, "", comparison.summary())
