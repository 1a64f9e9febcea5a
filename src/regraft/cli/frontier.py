"""``regraft frontier``: a table in, the price of robustness by size of the shift out."""

from __future__ import annotations

import functools
from typing import Annotated, cast

import typer

from regraft.cli import options
from regraft.cli.command import command
from regraft.cli.option_groups import TableColumns
from regraft.cli.options import Data, Device, Out
from regraft.cli.session import Session


@command("frontier", html=True)
def frontier_command(
    session: Session,
    data: Data,
    columns: TableColumns,
    family: options.Family = "latent",
    prior_shifts: Annotated[
        str | None,
        typer.Option(
            help="Latent: how far the mix of groups may move (nats), separated by commas; inf "
            "allows every mix. Default: 0,0.5,1,2,4,inf."
        ),
    ] = None,
    class_groups: options.ClassGroups = False,
    radii: options.HullRadii = None,
    rank: options.Rank = None,
    n_groups: options.NGroups = 2,
    objective: options.Objective = "risk",
    device: Device = "cpu",
    out: Out = None,
) -> None:
    """Measure what robustness costs on the sources, and what it buys in the worst domain."""
    steps = None if radii is None else options.numbers(radii)
    shifts = None if prior_shifts is None else options.numbers(prior_shifts, "prior shifts")
    from regraft.core.hull import Objective
    from regraft.estimators.families import Family
    from regraft.estimators.frontier import frontier
    from regraft.estimators.plots import plot_frontier
    from regraft.support.pictures import write_result

    with session.working(f"fitting heads on {data}") as step:
        table = columns.read(data)
        result = frontier(
            table.X,
            table.y,
            table.domain,
            steps,
            family=cast("Family", family),
            prior_shifts=shifts,
            class_groups=class_groups,
            objective=cast("Objective", objective),
            rank=rank,
            n_groups=n_groups,
            device=device,
            on_progress=step,
        )
    document = result.to_dict()
    draw = functools.partial(plot_frontier, result)
    files = write_result(session.stage, "frontier.json", document, "frontier.png", draw)
    if result.has_factor:
        session.tables([result.table()])
    session.say(result.summary())
    session.finish(document, files, read=[data])
