"""Charts and pictures of audits, frontiers and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regraft.core.evidence import Evidence, accuracy_interval
from regraft.estimators.audit import AuditCurve
from regraft.estimators.free_audit import FreeAudit
from regraft.estimators.frontier import Frontier
from regraft.estimators.group_audit import GroupAudit
from regraft.support import charts
from regraft.support.chart_parts import Spec
from regraft.support.looks import head_looks, look
from regraft.support.measured import MeasuredShare
from regraft.support.measured_charts import accuracy_chart
from regraft.support.pictures import panels, picture, write_picture

# Reports draw charts without scikit-learn, which a comparison takes along.
if TYPE_CHECKING:
    from regraft.estimators.comparison import Comparison, Estimates

_SWEPT = "CRO over the radius"
_SWEPT_LOOK = look(6)  # CRO's colour, with a shape and dashes that no known head has together
_PANELS = {
    "average": "Unseen domains, average",
    "worst": "Worst unseen domain",
    "source": "Sources (rows fitted on)",
}
_BOUNDS = "bars: 95 % intervals; ticks: below the true accuracy with 95 % confidence"


def stress_chart(curves: Mapping[str, AuditCurve]) -> Spec:
    """Draw the lowest accuracy of each predictor over the radius, with its interval."""
    lines = {
        name: {
            p.radius: MeasuredShare(p.accuracy, *accuracy_interval(p.accuracy, p.sample_size))
            for p in curve.points
        }
        for name, curve in curves.items()
    }
    return charts.radius_chart(lines, "lowest accuracy (%)", head_looks(lines))


def frontier_chart(frontier: Frontier) -> Spec:
    """Draw accuracy on the sources against that in the worst domain, a point per head."""
    points = [(p.label, p.source, p.worst_case) for p in frontier.points]
    return charts.frontier_chart(points, frontier.trained, frontier.scope)


def group_chart(audits: Mapping[str, GroupAudit]) -> Spec:
    """Draw the accuracy of each predictor in each group, mixture and source, with its bound."""
    return evidence_chart({name: (*a.mixtures, *a.sources) for name, a in audits.items()})


def evidence_chart(measured: Mapping[str, Sequence[Evidence]]) -> Spec:
    """Draw the accuracy of each predictor wherever it was measured, with interval and bound."""
    return accuracy_chart(
        {
            name: {each.name: each.measured for each in evidence}
            for name, evidence in measured.items()
        }
    )


def comparison_chart(swept: charts.Line, others: Mapping[str, float], title: str) -> Spec:
    """Draw CRO's accuracy over the radius, and the other heads' as horizontal lines."""
    lines = {name: dict.fromkeys(swept, accuracy) for name, accuracy in others.items()}
    looks = {**head_looks(others), _SWEPT: _SWEPT_LOOK}
    return charts.radius_chart({**lines, _SWEPT: dict(swept)}, title, looks)


def plot_audit(curves: Mapping[str, AuditCurve], path: str | Path) -> None:
    """Write the lowest accuracy over the radius, one line per predictor."""
    title = "Accuracy in the worst plausible unseen domain"
    subtitle = "within the radius: how far that domain may lie from the sources"
    write_picture(picture(stress_chart(curves), title, subtitle), path)


def plot_group_audit(audits: Mapping[str, GroupAudit], path: str | Path) -> None:
    """Write the accuracy of each predictor by group and source, with one-sided 95 % bounds."""
    title = "Accuracy in each hidden group and each source"
    write_picture(picture(group_chart(audits), title, _BOUNDS), path)


def plot_free_audit(audit: FreeAudit, path: str | Path, name: str) -> None:
    """Write the accuracy of a head in the worst domain found and each source, with the bounds."""
    title = "Accuracy in the worst domain that the free adversary found, and in each source"
    chart = evidence_chart({name: (audit.target, *audit.sources)})
    write_picture(picture(chart, title, _BOUNDS), path)


def plot_frontier(frontier: Frontier, path: str | Path) -> None:
    """Write accuracy on the sources against that in the worst domain, one point per head."""
    title = f"The price of robustness (labels: {frontier.trained})"
    write_picture(picture(frontier_chart(frontier), title), path)


def plot_comparison(comparison: Comparison, path: str | Path) -> None:
    """Write the accuracy of all heads, on average and in the worst unseen domain.

    If radii were tried, write CRO's accuracy over the radius, there and on the sources. The other
    heads are then horizontal lines; each panel has its own scale.
    """
    if all(row.radius is None for row in comparison.rows):
        title, subtitle = "Accuracy in domains left out", "bars: 95 % intervals over rows"
        write_picture(picture(accuracy_chart(_summed_up(comparison)), title, subtitle), path)
        return
    shown = {
        title: comparison_chart(
            {row.radius: getattr(row, field) for row in comparison.rows if row.radius is not None},
            {row.head: getattr(row, field) for row in comparison.rows if row.radius is None},
            "accuracy (%)",
        )
        for field, title in _PANELS.items()
    }
    write_picture(panels(shown, (270, 270, 270)), path)


def _summed_up(comparison: Comparison) -> dict[str, dict[str, MeasuredShare]]:
    """Return the accuracy of each head on average, and in its worst unseen domain."""
    cells = {(cell.head, cell.target): cell.metrics for cell in comparison.cells}
    worst = [cells.get((row.head, row.worst_target), {}) for row in comparison.rows]
    return {
        _PANELS["average"]: {row.head: _share(row.average, row.metrics) for row in comparison.rows},
        _PANELS["worst"]: {
            row.head: _share(row.worst, metrics)
            for row, metrics in zip(comparison.rows, worst, strict=True)
        },
    }


def _share(accuracy: float, metrics: Estimates) -> MeasuredShare:
    found = metrics.get("accuracy")
    return MeasuredShare(accuracy, *((accuracy,) * 2 if found is None else (found.low, found.high)))
