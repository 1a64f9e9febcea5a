"""``regraft frontier``: a table in, the price of robustness by training radius out."""

from __future__ import annotations

import functools
from typing import cast

from regraft.cli import options
from regraft.cli.command import command
from regraft.cli.options import AUDIT_RADII, Data, Device, Domain, HoldoutSeed, Label, Out
from regraft.cli.session import Session


@command("frontier", html=True)
def frontier_command(
    session: Session,
    data: Data,
    label: Label = "label",
    domain: Domain = "domain",
    radii: options.Radii = AUDIT_RADII,
    rank: options.Rank = None,
    objective: options.Objective = "risk",
    seed: HoldoutSeed = None,
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Measure what robustness costs on the sources, and what it buys in the worst case."""
    steps = options.numbers(radii)
    from regraft.core.hull import Objective
    from regraft.data.labelled import read_labelled
    from regraft.estimators.frontier import frontier
    from regraft.estimators.plots import plot_frontier
    from regraft.support.pictures import write_result
    from regraft.support.table import percent

    with session.working(f"fitting {len(steps)} heads on {data}") as step:
        table = read_labelled(data, label, domain)
        result = frontier(
            table.X,
            table.y,
            table.domain,
            steps,
            objective=cast("Objective", objective),
            rank=rank,
            seed=seed,
            device=device,
            on_progress=step,
        )
    document = result.to_dict()
    draw = functools.partial(plot_frontier, result)
    files = write_result(out, "frontier.json", document, "frontier.png", draw)
    worst = f"worst-case accuracy within {result.audit_radius:g} nats"
    rows = [
        (f"{p.radius:g}", percent(p.source_accuracy), percent(p.worst_case_accuracy))
        for p in result.points
    ]
    session.table(("training radius", "source accuracy", worst), rows)
    session.finish(document, files, read=[data])
