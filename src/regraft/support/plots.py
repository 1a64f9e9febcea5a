"""Pictures of audits, frontiers and comparisons. Needs matplotlib (the extra ``plots``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regraft.support.drawing import (
    WIDE,
    head_looks,
    legend_below,
    look,
    new_figure,
    style,
    write_picture,
)

if TYPE_CHECKING:
    from regraft.estimators.audit import AuditCurve, Frontier, FrontierPoint
    from regraft.estimators.comparison import Comparison

_TOUCHING = 0.07  # shares of an axis: points nearer than this have one label


@style()
def plot_audit(curves: Mapping[str, AuditCurve], path: str | Path) -> None:
    """Write the stress curves, worst-case accuracy over the radius, one line per predictor."""
    figure = new_figure()
    axes = figure.subplots()
    looks = head_looks(curves)
    for name, curve in curves.items():
        radii = [point.radius for point in curve.points]
        accuracy = [100 * point.accuracy for point in curve.points]
        kind = looks[name]
        axes.plot(radii, accuracy, kind.marker, color=kind.colour, ls=kind.dashes, label=name)
    _scale_radii(axes, {point.radius for curve in curves.values() for point in curve.points})
    axes.set_xlabel("radius: how far the unseen domain may lie from the sources (nats)")
    axes.set_ylabel("worst-case accuracy (%)")
    axes.set_ylim(0, 100)
    axes.set_title("Accuracy in the worst plausible unseen domain")
    legend_below(figure, axes)
    write_picture(figure, path)


@style()
def plot_frontier(frontier: Frontier, path: str | Path) -> None:
    """Write source accuracy against worst-case accuracy, one point per training radius.

    Points that nearly touch share a label, with the radii of all of them.
    """
    figure = new_figure()
    axes = figure.subplots()
    source = [100 * point.source_accuracy for point in frontier.points]
    worst = [100 * point.worst_case_accuracy for point in frontier.points]
    kind = look(0)
    axes.plot(source, worst, kind.marker, color=kind.colour, ls=kind.dashes)
    axes.margins(0.08)
    for place, label in _labels(frontier.points, axes):
        axes.annotate(label, place, textcoords="offset points", xytext=(6, 5))
    axes.set_xlabel("accuracy on held-out source rows (%)")
    axes.set_ylabel(f"worst-case accuracy within radius {frontier.audit_radius:g} (%)")
    axes.set_title("The price of robustness (labels: training radius)")
    write_picture(figure, path)


@style()
def plot_comparison(comparison: Comparison, path: str | Path) -> None:
    """Write CRO's accuracy over the radius: average and worst unseen domain, and the sources.

    The other heads are horizontal lines; each panel has its own scale.
    """
    figure = new_figure(WIDE)
    panels = figure.subplots(1, 3)
    sweep = [row for row in comparison.rows if row.radius is not None]
    others = [row for row in comparison.rows if row.radius is None]
    radii = [row.radius for row in comparison.rows if row.radius is not None]
    looks = head_looks(row.head for row in others)
    titles = {
        "average": "Unseen domains, average",
        "worst": "Worst unseen domain",
        "source": "Sources (rows fitted on)",
    }
    swept = look(0)
    for axes, (field, title) in zip(panels, titles.items(), strict=True):
        for row in others:
            kind, height = looks[row.head], 100 * getattr(row, field)
            axes.axhline(height, color=kind.colour, ls=kind.dashes, label=row.head)
        accuracy = [100 * getattr(row, field) for row in sweep]
        label = "CRO over the radius"
        axes.plot(radii, accuracy, swept.marker, color=swept.colour, ls=swept.dashes, label=label)
        _scale_radii(axes, radii)
        axes.set_xlabel("radius (nats)")
        axes.set_title(title)
    panels[0].set_ylabel("accuracy (%)")
    legend_below(figure, panels[0])
    write_picture(figure, path)


def _labels(points: Sequence[FrontierPoint], axes: Any) -> list[tuple[tuple[float, float], str]]:
    """Where labels stand, in percent, and what they say."""
    spans = np.ptp([axes.get_xlim(), axes.get_ylim()], axis=1)
    labels: dict[tuple[float, float], list[str]] = {}
    for point in points:
        place = 100 * point.source_accuracy, 100 * point.worst_case_accuracy
        near = [p for p in labels if np.abs(np.subtract(place, p) / spans).max() < _TOUCHING]
        labels.setdefault(near[0] if near else place, []).append(f"{point.radius:g}")
    return [(place, ", ".join(radii)) for place, radii in labels.items()]


def _scale_radii(axes: Any, radii: Iterable[float]) -> None:
    """An axis on which radii that double are evenly spaced and 0 has a place."""
    axes.set_xscale("symlog", linthresh=0.5, linscale=0.4)
    axes.minorticks_off()
    ticks = sorted(set(radii))
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
