"""Pictures of audits and frontiers. Needs matplotlib (the extra ``plots``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regraft.extras import require

if TYPE_CHECKING:
    from regraft.auditing import AuditCurve, Frontier

# Okabe and Ito's colours, told apart by every kind of sight.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P")


def plot_audit(curves: Mapping[str, AuditCurve], path: str | Path) -> None:
    """Write the stress curves, worst-case accuracy over the radius, one line per predictor."""
    figure, axes = new_axes()
    for i, (name, curve) in enumerate(curves.items()):
        radii = [point.radius for point in curve.points]
        accuracy = [100 * point.accuracy for point in curve.points]
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(radii, accuracy, color=colour, marker=_MARKERS[i % len(_MARKERS)], label=name)
    axes.set_xscale("symlog", linthresh=0.5, linscale=0.4)
    axes.minorticks_off()
    ticks = sorted({point.radius for curve in curves.values() for point in curve.points})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel("radius: how far the unseen domain may lie from the sources (nats)")
    axes.set_ylabel("worst-case accuracy (%)")
    axes.set_ylim(0, 100)
    axes.set_title("Accuracy in the worst plausible unseen domain", loc="left")
    axes.legend(frameon=False)
    write_picture(figure, path)


def plot_frontier(frontier: Frontier, path: str | Path) -> None:
    """Write source accuracy against worst-case accuracy, one point per training radius."""
    figure, axes = new_axes()
    source = [100 * point.source_accuracy for point in frontier.points]
    worst = [100 * point.worst_case_accuracy for point in frontier.points]
    axes.plot(source, worst, color=COLOURS[0], marker="o")
    for x, y, point in zip(source, worst, frontier.points, strict=True):
        axes.annotate(f"{point.radius:g}", (x, y), textcoords="offset points", xytext=(6, 4))
    axes.set_xlabel("accuracy on held-out source rows (%)")
    axes.set_ylabel(f"worst-case accuracy within radius {frontier.audit_radius:g} (%)")
    axes.set_title("The price of robustness (labels: training radius)", loc="left")
    write_picture(figure, path)


def new_axes() -> tuple[Any, Any]:
    """A figure of regraft's size and looks, and its axes."""
    # Figure, not pyplot: no global state and no display.
    figure = require("matplotlib.figure", "plots").Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    return figure, axes


def write_picture(figure: Any, path: str | Path) -> None:
    """Write the whole picture or nothing, making its folder; the suffix says the format."""
    path = Path(path)
    kind = path.suffix.lstrip(".").lower() or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        raise ValueError(f"{path} does not end in a known picture format: use .png, .svg or .pdf.")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        figure.savefig(temporary, format=kind, dpi=150)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
