"""Two figures that explain the method. They need matplotlib.

Formulas, arrows and points in a plane without axes are what Vega-Lite does not draw well; all
charts of data are Vega-Lite's (``regraft.support.charts``).

Blue is the source's, vermilion another domain's own, green what all domains share.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.patches as patches
import matplotlib.style
import torch
from matplotlib.figure import Figure
from torch import Tensor

from regraft.core.transplant import Transplant, transplant_bases
from regraft.support.files import write_bytes
from regraft.support.pictures import FORMATS, PALETTE

INK, MUTED = "#222222", "#707070"  # of text and axes, and of what is there for comparison alone
_SOURCE, _TARGET, _SHARED = PALETTE[:3]
_LEVELS = (-2.0, 2.0)  # of the abduction, at which the example has points
# ′ and not ', whose sign matplotlib takes from a font that browsers do not have.
_LEVEL_LINES = {
    "A_s": {"color": _SOURCE, "ls": "-", "lw": 1.2, "zorder": 1},
    "A_{s′}": {"color": _TARGET, "ls": "--", "lw": 1.2, "zorder": 1},
    "D": {"color": _SHARED, "ls": ":", "lw": 1.4, "zorder": 1},
}
_LEGEND = {"fontsize": 11, "handlelength": 1.6, "handletextpad": 0.5, "columnspacing": 1.2}
_MATHS = 12  # size of formulas, whose indices are smaller
_PLACES = {"U": (0.0, 1.6), "X": (-1.3, 0.0), "Y": (1.3, 0.0), "s": (-2.7, 1.15)}
# Edges from cause to effect; dashed is what nobody observes.
CAUSES = (("U", "X", "--"), ("U", "Y", "--"), ("X", "Y", "-"), ("s", "X", "-"))
_DATES: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
_SETTINGS = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11.5,
    "figure.facecolor": "white",
    "font.size": 10,
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "pdf.fonttype": 42,  # TrueType, which publishers accept and editors can edit
    "savefig.dpi": 150,
    "savefig.facecolor": "white",
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "regraft",  # names inside the file are the same every time
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def style() -> Iterator[None]:
    """Use these looks inside, whatever the user's own settings of matplotlib.

    Also a decorator, ``@style()``. The settings are back as they were afterwards.
    """
    with matplotlib.style.context(["default", _SETTINGS]):
        yield


def new_figure(size: tuple[float, float]) -> Any:
    """Make an empty figure of ``size`` inches; call it and draw inside ``style()``."""
    # Figure, not pyplot: no global state and no display.
    return Figure(figsize=size, layout="constrained")


def write_schematic(figure: Any, stem: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write ``stem`` with each of the ``formats`` as its suffix; return the files."""
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in formats]
    for kind, path in zip(formats, paths, strict=True):
        content = io.BytesIO()
        with style():  # much of a figure is made only now, when it is drawn
            figure.savefig(content, format=kind, metadata=_DATES.get(kind))
        write_bytes(path, content.getvalue())
    return paths


@dataclass(frozen=True)
class PlaneTransplant:
    """A transplant of points in the plane, with transplant dimension 1. Tensors are float64.

    Attributes:
        operator: T, with its basis L and the abductions A_s and A_s' (2 x 1 each).
        deduction: D (2 x 1).
        points: representations phi(x), as rows (n x 2).
        moved: their transplants T phi(x), as rows (n x 2).
    """

    operator: Transplant
    deduction: Tensor
    points: Tensor
    moved: Tensor


def example_transplant() -> PlaneTransplant:
    """The transplant that is drawn: three points on each of two levels of the abduction."""
    # In the plane there is a basis only where A_s and A_s' differ by a multiple of D.
    source, target, deduction = (
        torch.tensor([[a], [b]], dtype=torch.float64)
        for a, b in ((1.0, -0.5), (1.0, 0.5), (0.0, 1.0))
    )
    readings = [(level, height) for level in _LEVELS for height in (1.8, 0.7, -1.4)]
    points = _with_readings(source, deduction, torch.tensor(readings, dtype=torch.float64))
    basis = transplant_bases([source, target], deduction).particular
    operator = Transplant(basis=basis, source=source, target=target)
    return PlaneTransplant(operator, deduction, points, operator(points))


def _with_readings(abduction: Tensor, deduction: Tensor, readings: Tensor) -> Tensor:
    """The points (n x 2) of which abduction and deduction read these numbers (n x 2)."""
    points: Tensor = torch.linalg.solve(torch.cat([abduction, deduction], dim=1).mT, readings.mT).mT
    return points


@style()
def draw_transplant() -> Any:
    """The schematic of a representation transplant, computed with the operator.

    On the left, points move along the level lines of the deduction, from the level lines of the
    source's abduction to those of the target's. On the right is what is read of them.
    """
    plane = example_transplant()
    figure = new_figure((10, 5))
    space, readings = figure.subplots(1, 2, width_ratios=(2.05, 1))
    _draw_space(space, plane)
    _draw_readings(readings, plane)
    return figure


def _draw_space(axes: Any, plane: PlaneTransplant) -> None:
    operator = plane.operator
    axes.set(xlim=(-3.4, 4.9), ylim=(-2.1, 2.7), aspect="equal", anchor="N")
    axes.set_axis_off()
    axes.set_title(r"Points move along $L$: $T = I + L\,(A_s - A_{s′})^{\top}$")
    for height in sorted(set((plane.points @ plane.deduction).flatten().tolist())):
        axes.axhline(height, **_LEVEL_LINES["D"])
        text = rf"$D^{{\top}}\varphi={height:g}$"
        axes.text(4.9, height, text, color=_SHARED, size=_MATHS, ha="right", va="bottom")
    for name, abduction in (("A_s", operator.source), ("A_{s′}", operator.target)):
        lines = _LEVEL_LINES[name]
        for level in _LEVELS:
            ends = torch.tensor([[level, -2.0], [level, 2.2]], dtype=torch.float64)
            bottom, top = _with_readings(abduction, plane.deduction, ends).tolist()
            axes.plot(*zip(bottom, top, strict=True), **lines)
            text = rf"${name}^{{\top}}\varphi={level:g}$"
            axes.text(*top, text, color=lines["color"], size=_MATHS, ha="center", va="bottom")
    for vector, colour, name, (right, up) in (
        (operator.source, _SOURCE, "$A_s$", (0.22, -0.06)),
        (operator.target, _TARGET, "$A_{s′}$", (0.24, 0.02)),
        (plane.deduction, _SHARED, "$D$", (-0.2, -0.02)),
        (operator.basis, INK, "$L$", (0.15, 0.0)),
    ):
        x, y = vector.flatten().tolist()
        axes.annotate("", (x, y), (0, 0), arrowprops=_arrow(colour, 2.0))
        axes.text(x + right, y + up, name, color=colour, size=_MATHS, ha="center", va="center")
    for start, end in zip(plane.points.tolist(), plane.moved.tolist(), strict=True):
        axes.annotate("", end, start, arrowprops=_arrow(MUTED, 1.2, gap=4))
    # In pairs, as the columns of the legend.
    _draw_points(axes, plane.points, "points", r"$\varphi(x)$", s=44, c=_SOURCE, marker="o")
    axes.plot([], [], label="read alike by $A_s$", **_LEVEL_LINES["A_s"])
    _draw_points(axes, plane.moved, "moved", r"$T\varphi(x)$", s=36, c=_TARGET, marker="s")
    axes.plot([], [], label="read alike by $A_{s′}$", **_LEVEL_LINES["A_{s′}"])
    axes.plot([], [], label="read alike by $D$", **_LEVEL_LINES["D"])
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3, **_LEGEND)


def _draw_readings(axes: Any, plane: PlaneTransplant) -> None:
    source, target = plane.operator.source, plane.operator.target

    def read(abduction: Tensor, rows: Tensor) -> Tensor:
        return rows @ torch.cat([abduction, plane.deduction], dim=1)

    _draw_points(
        axes, read(source, plane.points), "read-before", r"$A_s^{\top}\varphi(x)$, in the source",
        s=150, edgecolors=_SOURCE, facecolors="none", marker="o",
    )  # fmt: skip
    _draw_points(
        axes, read(target, plane.moved), "read-after",
        r"$A_{s′}^{\top}\,T\varphi(x)$, transplanted", s=32, c=_TARGET, marker="s",
    )  # fmt: skip
    _draw_points(
        axes, read(target, plane.points), "read-unmoved", r"$A_{s′}^{\top}\varphi(x)$, without $T$",
        s=40, c=MUTED, marker="x",
    )  # fmt: skip
    axes.set(xlim=(-4.9, 4.9), ylim=(-2.1, 2.7), xticks=_LEVELS, yticks=[-1, 0, 1, 2], anchor="N")
    axes.set_xlabel("read by the abduction")
    axes.set_ylabel("read by the deduction")
    axes.set_title("What is read stays")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), **_LEGEND)


def _draw_points(axes: Any, rows: Tensor, gid: str, label: str, **looks: Any) -> None:
    axes.scatter(*rows.T.tolist(), gid=gid, label=label, linewidths=1.5, zorder=3, **looks)


def _arrow(colour: str, width: float, gap: float = 0) -> dict[str, Any]:
    return {
        "arrowstyle": "-|>", "mutation_scale": 11, "color": colour, "lw": width,
        "shrinkA": gap, "shrinkB": gap,
    }  # fmt: skip


@style()
def draw_causal_graph() -> Any:
    """The causal graph of one domain: the edges ``CAUSES``, and what domains share and do not."""
    figure = new_figure((7, 3.7))
    axes = figure.subplots()
    axes.set(xlim=(-3.5, 3.9), ylim=(-0.95, 2.3), aspect="equal")
    axes.set_axis_off()
    axes.set_title("What causes what in domain $s$")
    nodes = {
        name: patches.Circle(
            _PLACES[name], 0.38, gid=f"node-{name}", ls=dashes, fc="white", ec=INK, lw=1.6
        )
        for name, dashes in (("U", "--"), ("X", "-"), ("Y", "-"))
    }
    x, y = _PLACES["s"]
    nodes["s"] = patches.Rectangle((x - 0.13, y - 0.13), 0.26, 0.26, gid="node-s", color=_TARGET)
    for node in nodes.values():
        axes.add_patch(node)
    for cause, effect, dashes in CAUSES:
        edge = patches.FancyArrowPatch(
            _PLACES[cause], _PLACES[effect], patchA=nodes[cause], patchB=nodes[effect],
            gid=f"edge-{cause}-{effect}", ls=dashes,
            **_arrow(_TARGET if cause == "s" else INK, 1.6, gap=2),
        )  # fmt: skip
        axes.add_patch(edge)
    for name in ("U", "X", "Y"):
        axes.text(*_PLACES[name], f"${name}$", size=15, ha="center", va="center")
    for place, text, colour, side in (
        ((-2.7, 1.55), "domain $s$", _TARGET, "center"),
        ((-2.35, 0.32), "or, equivalently,\nits own $f_X^{\\,s}$", _TARGET, "right"),
        ((0.55, 1.75), "each domain has its own prior $\\pi_s(U)$", _TARGET, "left"),
        ((0.55, 1.42), "not observed", MUTED, "left"),
        ((1.85, 0.14), "the same $f_Y(X, U)$\nin all domains", _SHARED, "left"),
        ((-1.3, -0.6), "observed", MUTED, "center"),
        ((1.3, -0.6), "observed", MUTED, "center"),
    ):
        axes.text(*place, text, color=colour, ha=side, va="center")
    return figure
