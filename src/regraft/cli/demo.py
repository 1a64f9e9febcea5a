"""What ``regraft demo`` does: heads on Colored MNIST, told and drawn."""

from __future__ import annotations

import functools
from typing import Any

from regraft.bench.demo import describe_demo, run_demo
from regraft.cli.console import Screen
from regraft.cli.diagnose import diagnosis_document
from regraft.cli.session import Run
from regraft.data.examples import load_demo
from regraft.estimators.plots import plot_audit
from regraft.premises.diagnose import diagnose
from regraft.support.json_files import write_result
from regraft.support.table import percent


def run_demo_command(screen: Screen, run: Run, cell: str, *, seed: int, device: str) -> None:
    """Compare the heads and show what they do where none has been."""
    screen.say(describe_demo(cell), "")
    with screen.working("comparing heads") as step:
        result = run_demo(
            cell, seed=seed, device=device, price=run.html, on_step=step, on_round=screen.round
        )
    draw = functools.partial(plot_audit, result.curves)
    document = result.to_dict()
    document["diagnosis"] = _diagnose(screen, cell, seed, device) if run.html else None
    files = write_result(run.out, "demo.json", document, "stress_curve.png", draw)
    columns = "accuracy", "seen domains (held-out rows)", f"unseen {result.target}"
    rows = [
        (row.name, percent(row.source_accuracy), percent(row.target_accuracy))
        for row in (*result.rows, result.ceiling)
    ]
    screen.table(columns, rows[:-1], rows[-1:])
    screen.say(result.verdict(), "", *result.certificate.summary(), "")
    run.finish(screen, document, files)
    other = "+90%" if cell == "-90%" else "-90%"
    screen.say(
        f'Next: regraft demo --cell "{other}", or your own table: '
        "regraft fit data.csv --label label --domain domain --out model --html"
    )


def _diagnose(screen: Screen, cell: str, seed: int, device: str) -> dict[str, Any]:
    """What the sources say about the premises, for the report."""
    bank = load_demo(cell)
    with screen.working("checking the premises") as step:
        diagnosis = diagnose(
            bank.X, bank.y, bank.sample_domain, seed=seed, device=device, on_step=step
        )
    return diagnosis_document(diagnosis)
