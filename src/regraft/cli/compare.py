"""What ``regraft compare`` does: data or a ready benchmark in, tables and a picture out."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from regraft.cli.console import Screen
from regraft.cli.session import Run
from regraft.encoders.known_datasets import READY, read_bank, read_ready
from regraft.estimators.comparison import Comparison, compare
from regraft.estimators.comparison_tables import write_tables
from regraft.estimators.contenders import contenders
from regraft.estimators.plots import plot_comparison
from regraft.support.files import claim
from regraft.support.json_files import write_result
from regraft.support.table import percent

RECORDS = "cells.jsonl"  # in --out: the cells finished so far


def run_compare(
    screen: Screen,
    run: Run,
    data: Path,
    *,
    folder: Path | None,
    label: str,
    domain: str,
    radii: Sequence[float],
    device: str,
    out: Path,
) -> None:
    """Compare all heads on ``data``, which names a table, or a ready benchmark in ``folder``.

    Writes the tables, the picture and the finished cells to ``out``. Raises ``ValueError`` with
    one sentence.
    """
    contenders(radii)  # refuses a wrong radius before anything is read
    with screen.working(f"reading {data}") as step:
        if _is_ready(data, folder):
            assert folder is not None  # what makes it ready
            table = read_ready(str(data), folder, out, device=device, on_progress=step)
        else:
            table = read_bank(data, label, domain)
    assert table.y is not None and table.domain is not None  # needed by default
    n, d = table.X.shape
    with (
        claim(out) as is_ours,
        screen.working(f"comparing heads on {n} rows of {d} features") as step,
    ):
        if not is_ours:
            raise ValueError(
                f"another comparison is at work in {out}: wait for it, or choose another folder "
                "with --out."
            )
        comparison = compare(
            table.X,
            table.y,
            table.domain,
            radii=radii,
            device=device,
            records=out / RECORDS,
            on_progress=step,
        )
        document = comparison.to_dict()
        draw = functools.partial(plot_comparison, comparison)
        files = write_result(out, "comparison.json", document, "comparison.png", draw)
        files += write_tables(out, comparison)
    _show(screen, comparison)
    run.finish(screen, document, files)


def _is_ready(data: Path, folder: Path | None) -> bool:
    """Whether a ready benchmark is meant; ``ValueError`` if neither that nor a path is."""
    known = ", ".join(READY)
    if str(data) in READY:
        if folder is None and not data.exists():
            raise ValueError(
                f"{data} is a ready benchmark: say where its files are with --data, or pass the "
                "path of a file or bank."
            )
        return folder is not None
    if folder is not None:
        raise ValueError(f"--data goes with the name of a ready benchmark ({known}), not {data}.")
    if not data.exists():
        raise ValueError(
            f"{data} does not exist: pass a file, a bank, or a ready benchmark ({known}) with "
            "--data."
        )
    return False


def _show(screen: Screen, comparison: Comparison) -> None:
    columns = "unseen domain", *comparison.targets, "sources", "average", "worst"
    sections: tuple[list[tuple[str, ...]], list[tuple[str, ...]]] = ([], [])
    for row in comparison.rows:
        numbers = (*row.accuracy.values(), row.source, row.average, row.worst)
        sections[row.radius is not None].append((row.head, *map(percent, numbers)))
    screen.table(columns, *sections)
    screen.say(f"{comparison.verdict()}.")
