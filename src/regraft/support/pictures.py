"""Charts as pictures: PNG, SVG and PDF. Needs vl-convert (the extra ``plots``)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regraft.support.chart_parts import Spec
from regraft.support.extras import MissingExtra, require
from regraft.support.files import write_bytes, write_text
from regraft.support.json_files import dumps
from regraft.support.looks import COLOURS, FAINT, INK, SOFT
from regraft.support.plain_text import show_all_plainly

FORMATS = ("png", "svg", "pdf")
# Okabe and Ito's colours, which people with any kind of colour vision tell apart.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
SIZE = (700, 420)  # of a picture of one chart, at a hundred to the inch
_PIXELS = 1.5  # of a PNG, for each of these
_PANEL_HEIGHT = 300
_FIXED = {
    **dict(zip(COLOURS, PALETTE, strict=True)),
    **{INK: "#222222", SOFT: "#707070", FAINT: "#DDDDDD"},
}
_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # vl-convert brings the first
_TITLE = {"anchor": "start", "fontSize": 15, "fontWeight": "normal", "subtitleFontSize": 12}
_RESOURCES = re.compile(rb"(?:^ +/[a-z]+\d+ \d+ 0 R\n)+", re.MULTILINE)
_LETTER, _SYMBOL = 6.8, 34  # widths in a legend: of a letter, and of a symbol with its space


def picture(chart: Spec, title: str, subtitle: str = "") -> Spec:
    """Return a chart as a picture of its own, with a title."""
    width, height = SIZE
    frame = {"width": width, "height": height, "autosize": {"type": "fit", "contains": "padding"}}
    return _picture(chart | frame, title, subtitle, width)


def panels(
    charts: Mapping[str, Spec], widths: Sequence[int], title: str = "", subtitle: str = ""
) -> Spec:
    """Return charts beside each other, each under its own title, with one legend."""
    beside = [
        {
            "title": {"text": name, "fontSize": 13},
            "width": width,
            "height": _PANEL_HEIGHT,
            "data": chart["data"],
            "layer": chart["layer"],
        }
        for (name, chart), width in zip(charts.items(), widths, strict=True)
    ]
    config = next(iter(charts.values()))["config"]
    return _picture({"hconcat": beside, "config": config}, title, subtitle, sum(widths))


def write_picture(figure: Spec, path: str | Path) -> None:
    """Write the picture or nothing, in the format of its suffix; equal figures give equal bytes."""
    path = Path(path)
    kind = path.suffix.lstrip(".").lower() or "png"
    if kind not in FORMATS:
        raise ValueError(f"{path} does not end in a known picture format: use .png, .svg or .pdf.")
    converter = require("vl_convert", "plots")
    figure = show_all_plainly(figure)
    if kind == "png":
        content = converter.vegalite_to_png(figure, scale=_PIXELS)
    elif kind == "pdf":
        content = _ordered(converter.vegalite_to_pdf(figure))
    else:
        content = converter.vegalite_to_svg(figure).encode()
    write_bytes(path, content)


def write_figure(figure: Spec, stem: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write ``stem`` with each of the ``formats`` as its suffix; return the files."""
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in formats]
    for path in paths:
        write_picture(figure, path)
    return paths


def write_result(
    folder: Path | None,
    name: str,
    result: dict[str, Any],
    picture: str,
    plot: Callable[[Path], None],
) -> list[Path]:
    """Write a result as JSON and, with vl-convert, as a picture into a given folder; the paths."""
    if folder is None:
        return []
    write_text(folder / name, dumps(result))
    try:
        plot(folder / picture)
    except MissingExtra as error:
        warnings.warn(f"{picture} is not drawn: {error}", stacklevel=2)
        return [folder / name]
    return [folder / name, folder / picture]


def _ordered(pdf: bytes) -> bytes:
    """Sort the resources of each part, which vl-convert lists in another order every time."""
    return _RESOURCES.sub(lambda found: b"".join(sorted(found[0].splitlines(True))), pdf)


def _picture(chart: Spec, title: str, subtitle: str, width: int) -> Spec:
    """Fix colours and font, leave out what only hovering shows, and fit the legend."""
    fixed: Spec = _fix(chart)
    config = fixed["config"]
    names = list(dict.fromkeys(_legend(chart)))
    config["legend"] |= {"columns": _columns(names, width), "labelLimit": 0}
    ink = {"color": _FIXED[INK], "subtitleColor": _FIXED[SOFT]}
    config |= {"font": _FONT, "title": {**_TITLE, **ink}}
    heading = {"title": {"text": title, "subtitle": subtitle}} if title else {}
    return {**fixed, **heading, "background": "white", "padding": 8}


def _fix(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _fix(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fix(item) for item in value if not (isinstance(item, dict) and "params" in item)]
    return _FIXED.get(value, value) if isinstance(value, str) else value


def _legend(chart: Spec) -> Iterator[str]:
    """Yield the names in the legends."""
    for panel in chart.get("hconcat", [chart]):
        for layer in panel["layer"]:
            for channel in layer["encoding"].values():
                if isinstance(channel, dict) and "legend" in channel:
                    yield from channel["scale"]["domain"]


def _columns(names: Sequence[str], width: int) -> int:
    """Return into how many columns of a legend the names fit."""
    widths = [_LETTER * len(name) + _SYMBOL for name in names]
    fits = [
        n for n in range(1, len(names) + 1) if sum(max(widths[i::n]) for i in range(n)) <= width
    ]
    return max(fits, default=1)
