"""Sections on heads under stress: curves over the radius, accuracies by domain, the price."""

from __future__ import annotations

from collections.abc import Mapping

from regraft.estimators.audit import AuditCurve, Frontier
from regraft.report.charts import accuracies_chart, frontier_chart, stress_chart
from regraft.report.elements import Chart, Section, Text
from regraft.support.table import Table, percent


def stress_section(curves: Mapping[str, AuditCurve], rows: str) -> Section:
    """Worst-case accuracy over the radius; ``rows`` says on which it was measured."""
    radii = [point.radius for point in next(iter(curves.values())).points]
    lines = tuple(
        (f"{radius:g}", *(percent(curve.points[i].accuracy) for curve in curves.values()))
        for i, radius in enumerate(radii)
    )
    sizes = min(point.sample_size for curve in curves.values() for point in curve.points)
    ends = ", ".join(f"{name} {percent(c.points[-1].accuracy)}" for name, c in curves.items())
    description = f"Worst-case accuracy within {radii[-1]:g} nats: {ends}."
    return Section(
        "Under stress: the worst plausible domain",
        (
            Text(
                "Each point is the lowest accuracy over all plausible unseen domains within that "
                f"radius of the sources, measured on {rows}. Radius 0 is the sources' own mixture."
            ),
            Chart("Worst-case accuracy over the radius", stress_chart(curves), description),
            Table(
                "Worst-case accuracy by radius (nats)",
                ("radius", *curves),
                lines,
                note=f"The least certain of these stands on {sizes:.0f} effective rows.",
            ),
        ),
    )


def frontier_section(frontier: Frontier) -> Section:
    """What robustness costs on the sources and buys in the worst case."""
    rows = tuple(
        (f"{p.radius:g}", percent(p.source_accuracy), percent(p.worst_case_accuracy))
        for p in frontier.points
    )
    first, last = frontier.points[0], frontier.points[-1]
    description = (
        f"From training radius {first.radius:g} to {last.radius:g}, source accuracy goes from "
        f"{percent(first.source_accuracy)} to {percent(last.source_accuracy)} and the worst case "
        f"from {percent(first.worst_case_accuracy)} to {percent(last.worst_case_accuracy)}."
    )
    return Section(
        "The price of robustness",
        (
            Text(
                "One head for each training radius: what it has where domains look like the "
                "sources (to the right is better), and in the worst plausible domain (up is "
                f"better).{' Radius 0 is plain ERM.' if first.radius == 0 else ''}"
            ),
            Chart("Labels: training radius", frontier_chart(frontier), description),
            Table(
                f"Held-out rows; worst case within {frontier.audit_radius:g} nats",
                ("training radius", "sources", "worst case"),
                rows,
            ),
        ),
    )


def accuracies_section(
    accuracies: Mapping[str, Mapping[str, float]], rows: str, head: str = "CRO"
) -> Section:
    """Accuracy of each head in each domain on ``rows``; the worst of ``head`` stands out."""
    domains = list(dict.fromkeys(name for row in accuracies.values() for name in row))
    lines = tuple((name, *(_cell(row, name) for row in accuracies.values())) for name in domains)
    ours = accuracies[head]
    worst = min(ours, key=ours.__getitem__)
    marked = frozenset({domains.index(worst)} if len(domains) > 1 else ())
    described = "; ".join(
        f"{name}'s worst domain is {min(row, key=row.__getitem__)} with "
        f"{percent(min(row.values()))}"
        for name, row in accuracies.items()
    )
    return Section(
        "Domain by domain",
        (
            Chart(
                f"Accuracy on {rows}; a ring marks each head's worst domain",
                accuracies_chart(accuracies),
                f"{described}.",
            ),
            Table(
                "Accuracy by domain",
                ("domain", *accuracies),
                lines,
                marked,
                note=f"▼ worst domain of a head; the row marked is {head}'s.",
            ),
        ),
    )


def _cell(row: Mapping[str, float], domain: str) -> str:
    if domain not in row:
        return "–"
    is_worst = len(row) > 1 and row[domain] == min(row.values())
    return f"▼ {percent(row[domain])}" if is_worst else percent(row[domain])
