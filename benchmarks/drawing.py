"""How the schematics look, and how they are written. Needs matplotlib.

Formulas, arrows and points in a plane without axes are what Vega-Lite does not draw well; all
charts of data are Vega-Lite's (``regraft.support.charts``).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure

from regraft.support.files import write_bytes
from regraft.support.pictures import FORMATS, PALETTE

COLOURS = PALETTE
INK, MUTED = "#222222", "#707070"  # of text and axes, and of what is there for comparison alone

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
