"""``regraft demo``: heads on Colored MNIST, explained and drawn."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any

from regraft.cli.abduct import show_abduction
from regraft.cli.command import command
from regraft.cli.names import CELLS
from regraft.cli.options import Device, Folder, Seed, choice, one_of
from regraft.cli.session import Session
from regraft.cli.shown_rows import SHOWN_ROWS


@command(html=True, loading="loading the embeddings")
def demo(
    session: Session,
    cell: Annotated[str, choice(f"The unseen domain: {one_of(*CELLS)}.", *CELLS)] = "-90%",
    seed: Seed = 0,
    device: Device = "cpu",
    out: Annotated[Path, Folder] = Path("regraft-demo"),
) -> None:
    """See on Colored MNIST what an unseen domain does to ERM, and what CRO does about it."""
    from regraft.bench.demo import describe_demo, run_demo
    from regraft.core.domains import check_device
    from regraft.data.examples import load_demo_pixels
    from regraft.estimators.plots import plot_group_audit
    from regraft.support.pictures import write_result
    from regraft.support.table import percent

    check_device(device)  # which only the last of the heads asks for
    session.say(describe_demo(cell), "")
    with session.working("comparing heads") as step:
        result = run_demo(cell, seed=seed, device=device, on_progress=step, on_round=session.round)
    draw = functools.partial(plot_group_audit, result.audits)
    document = result.to_dict()
    document["diagnosis"] = _diagnose(session, cell, seed, device)
    files = write_result(session.stage, "demo.json", document, "accuracy_by_group.png", draw)
    pixels = load_demo_pixels(cell)
    pictures = dict(zip((pixels.row + 1).tolist(), pixels.images, strict=True))
    # The numbers of the rows would say nothing: these are pictures, or nothing.
    show_abduction(session, result.abduction, pictures, SHOWN_ROWS if session.draws else 0)
    columns = "accuracy", "seen domains (held-out rows)", f"unseen {result.target}"
    rows = [
        (row.name, percent(row.source_accuracy), percent(row.target_accuracy))
        for row in (*result.rows, result.ceiling)
    ]
    session.table(columns, rows[:-1], rows[-1:])
    session.say(result.verdict(), "", result.certificate.summary(), "")
    session.finish(document, files)
    other = "+90%" if cell == "-90%" else "-90%"
    session.say(
        f'Next: regraft demo --cell "{other}", or your own table: '
        "regraft fit data.csv --label label --domain domain --out model --html"
    )


def _diagnose(session: Session, cell: str, seed: int, device: str) -> dict[str, Any]:
    """Check the premises on the sources."""
    from regraft.core.domains import check_domains
    from regraft.data.examples import load_demo
    from regraft.premises.diagnose import diagnose_domains
    from regraft.premises.diagnosis_tables import diagnosis_document
    from regraft.support.threads import threads_for

    bank = load_demo(cell)
    with session.working("checking the premises") as step:
        domains = check_domains(bank.X, bank.y, bank.sample_domain, device=device)
        with threads_for(domains.X.numel()):
            diagnosis = diagnose_domains(domains, seed=seed, on_progress=step)
    return diagnosis_document(diagnosis)
