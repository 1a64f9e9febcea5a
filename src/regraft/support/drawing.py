"""How every figure looks, and how it is written. Needs matplotlib (the extra ``plots``)."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from regraft.support.extras import require
from regraft.support.files import write_bytes

# Okabe and Ito's colours, told apart by every kind of sight.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
INK, MUTED = "#222222", "#707070"  # of text and axes, and of what is there for comparison alone
SINGLE, WIDE = (7.0, 4.2), (10.5, 4.2)  # inches: one panel, and several beside each other
FORMATS = ("png", "svg", "pdf")

_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", "--", "-.", ":", (0, (6, 1.5, 1, 1.5, 1, 1.5)), (0, (9, 2)))
_HATCHES = ("", "//", "..", "xx", "\\\\", "++")
_HEADS = ("CRO", "ERM", "GroupDRO", "V-REx", "IRM")
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
    "hatch.linewidth": 0.8,
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


@dataclass(frozen=True)
class Look:
    """What one thing has in every figure; it differs from others' without its colour, too."""

    colour: str
    marker: str
    dashes: Any
    hatch: str


def look(number: int) -> Look:
    """The look of the thing with this number, such as an environment; 36 of them differ."""
    shifted = number + number // len(COLOURS)
    return Look(
        COLOURS[number % len(COLOURS)],
        _MARKERS[shifted % len(_MARKERS)],
        _DASHES[shifted % len(_DASHES)],
        _HATCHES[shifted % len(_HATCHES)],
    )


def head_looks(names: Iterable[str]) -> dict[str, Look]:
    """The looks of heads, by name, as :func:`head_places` numbers them."""
    return {name: look(place) for name, place in head_places(names).items()}


def head_places(names: Iterable[str]) -> dict[str, int]:
    """Numbers of the heads' looks by their names; CRO, ERM and the other known ones have their own.

    What follows in brackets does not count: "CRO (defaults)" looks like "CRO". All other heads,
    also a second one of a known kind, get the first looks that are free.
    """
    names = list(names)
    numbers: dict[str, int] = {}
    for name in names:
        kind = name.partition(" (")[0]
        if kind in _HEADS and _HEADS.index(kind) not in numbers.values():
            numbers[name] = _HEADS.index(kind)
    free = (i for i in count() if i not in numbers.values())
    return {name: numbers[name] if name in numbers else next(free) for name in names}


@contextmanager
def style() -> Iterator[None]:
    """Regraft's looks for all that is drawn inside, whatever the user's own settings of matplotlib.

    Also a decorator, ``@style()``. The settings are back as they were afterwards.
    """
    with require("matplotlib.style", "plots").context(["default", _SETTINGS]):
        yield


def new_figure(size: tuple[float, float] = SINGLE) -> Any:
    """An empty figure of ``size`` inches; call it and draw inside ``style()``."""
    # Figure, not pyplot: no global state and no display.
    return require("matplotlib.figure", "plots").Figure(figsize=size, layout="constrained")


def legend_below(figure: Any, axes: Any, columns: int | None = None) -> None:
    """Explain what is labelled in ``axes`` under all axes, where it hides nothing.

    ``columns`` entries stand in a row, by default all.
    """
    lines, labels = axes.get_legend_handles_labels()
    n = columns or len(labels)
    # matplotlib fills one column after the other; read are rows.
    order = [i for column in range(n) for i in range(column, len(labels), n)]
    figure.legend(
        [lines[i] for i in order], [labels[i] for i in order], loc="outside lower center", ncols=n
    )


def write_picture(figure: Any, path: str | Path) -> None:
    """Write the whole picture or nothing, making its folder; the suffix says the format.

    A figure drawn the same way gives the same bytes, on whatever day.
    """
    path = Path(path)
    kind = path.suffix.lstrip(".").lower() or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        raise ValueError(f"{path} does not end in a known picture format: use .png, .svg or .pdf.")
    content = io.BytesIO()
    with style():  # much of a figure is made only now, when it is drawn
        figure.savefig(content, format=kind, metadata=_DATES.get(kind))
    write_bytes(path, content.getvalue())


def write_figure(figure: Any, stem: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write ``stem`` with each of the ``formats`` as its suffix; the files written."""
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in formats]
    for path in paths:
        write_picture(figure, path)
    return paths
