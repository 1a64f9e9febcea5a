"""Pictures of audits, frontiers and comparisons. Needs matplotlib (the extra ``plots``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regraft.extras import require

if TYPE_CHECKING:
    from regraft.auditing import AuditCurve, Frontier
    from regraft.comparison import Comparison

# Okabe and Ito's colours, told apart by every kind of sight.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", "--", "-.", ":")


def plot_audit(curves: Mapping[str, AuditCurve], path: str | Path) -> None:
    """Write the stress curves, worst-case accuracy over the radius, one line per predictor."""
    figure, axes = new_axes()
    for i, (name, curve) in enumerate(curves.items()):
        radii = [point.radius for point in curve.points]
        accuracy = [100 * point.accuracy for point in curve.points]
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(radii, accuracy, color=colour, marker=_MARKERS[i % len(_MARKERS)], label=name)
    _scale_radii(axes, {point.radius for curve in curves.values() for point in curve.points})
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


def plot_comparison(comparison: Comparison, path: str | Path) -> None:
    """Write CRO's accuracy over the radius: average and worst unseen domain, and the sources.

    The other heads are horizontal lines; each panel has its own scale.
    """
    figure = _new_figure((10.5, 4.2))
    panels = figure.subplots(1, 3)
    sweep = [row for row in comparison.rows if row.radius is not None]
    others = [row for row in comparison.rows if row.radius is None]
    radii = [row.radius for row in comparison.rows if row.radius is not None]
    titles = {
        "average": "Unseen domains, average",
        "worst": "Worst unseen domain",
        "source": "Sources (rows fitted on)",
    }
    for axes, (field, title) in zip(panels, titles.items(), strict=True):
        _dress(axes)
        for i, row in enumerate(others, start=1):
            colour, style = COLOURS[i % len(COLOURS)], _DASHES[i % len(_DASHES)]
            axes.axhline(100 * getattr(row, field), color=colour, ls=style, label=row.head)
        accuracy = [100 * getattr(row, field) for row in sweep]
        axes.plot(radii, accuracy, color=COLOURS[0], marker="o", label="CRO over the radius")
        _scale_radii(axes, radii)
        axes.set_xlabel("radius (nats)")
        axes.set_title(title, loc="left")
    panels[0].set_ylabel("accuracy (%)")
    lines, labels = panels[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    write_picture(figure, path)


def new_axes() -> tuple[Any, Any]:
    """A figure of regraft's size and looks, and its axes."""
    figure = _new_figure((7, 4.2))
    axes = figure.subplots()
    _dress(axes)
    return figure, axes


def _new_figure(size: tuple[float, float]) -> Any:
    # Figure, not pyplot: no global state and no display.
    return require("matplotlib.figure", "plots").Figure(figsize=size, layout="constrained")


def _dress(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)


def _scale_radii(axes: Any, radii: Iterable[float]) -> None:
    """An axis on which radii that double are evenly spaced and 0 has a place."""
    axes.set_xscale("symlog", linthresh=0.5, linscale=0.4)
    axes.minorticks_off()
    ticks = sorted(set(radii))
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])


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
