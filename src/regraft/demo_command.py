"""What ``regraft demo`` does: heads on Colored MNIST, told and drawn."""

from __future__ import annotations

import functools
from pathlib import Path

from regraft.datasets import load_demo
from regraft.demo import describe_demo, run_demo
from regraft.diagnostics.command import write_diagnosis
from regraft.diagnostics.diagnose import diagnose
from regraft.persistence import write_result
from regraft.plots import plot_audit
from regraft.runs import Run
from regraft.screen import Screen, percent


def run_demo_command(screen: Screen, run: Run, cell: str, *, seed: int, device: str) -> None:
    """Compare the heads and show what they do where none has been."""
    screen.say(describe_demo(cell), "")
    with screen.working("comparing heads") as step:
        result = run_demo(
            cell, seed=seed, device=device, price=run.html, on_step=step, on_round=screen.round
        )
    draw = functools.partial(plot_audit, result.curves)
    document = result.to_dict()
    files = _diagnose(screen, run, cell, device) if run.html else []
    files += write_result(run.out, "demo.json", document, "stress_curve.png", draw)
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


def _diagnose(screen: Screen, run: Run, cell: str, device: str) -> list[Path]:
    """Check the premises on the sources, for the report; the files written."""
    assert run.out is not None  # where the report goes
    bank = load_demo(cell)
    with screen.working("checking the premises") as step:
        diagnosis = diagnose(bank.X, bank.y, bank.sample_domain, device=device, on_step=step)
    return write_diagnosis(run.out, diagnosis)
