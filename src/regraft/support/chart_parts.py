"""Parts that all charts are made of: layers, axes, looks of series, tooltips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regraft.support.looks import FAINT, INK, Look
from regraft.support.measured import MeasuredShare

Spec = dict[str, Any]

_HEIGHT = 300
_SMALLEST_SPAN = 5.0  # points of accuracy on an axis


def layer(kind: str, encoding: Spec, **mark: Any) -> Spec:
    """Make a layer of marks of one ``kind``."""
    return {"mark": {"type": kind, **mark}, "encoding": encoding}


def layered_chart(values: Sequence[Mapping[str, Any]], layers: Sequence[Spec]) -> Spec:
    """Make a chart of ``layers`` that share the ``values``."""
    return {
        "width": "container",
        "height": _HEIGHT,
        "background": "transparent",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": [dict(value) for value in values]},
        "layer": list(layers),
        "config": _CONFIG,
    }


def told_apart(field: str, looks: Mapping[str, Look], *channels: str) -> Spec:
    """Give each name its look on these ``channels``, in the order of ``looks``."""
    ranges: dict[str, list[Any]] = {
        "shape": [each.shape for each in looks.values()],
        "strokeDash": [list(each.dashes) for each in looks.values()],
    }
    colours = [each.colour for each in looks.values()]
    used = {channel: ranges.get(channel, colours) for channel in channels}
    return scales(field, list(looks), used)


def scales(field: str, names: list[str], ranges: Mapping[str, list[Any]], **legend: Any) -> Spec:
    """Give each name its own value on each channel, with a legend."""
    return {
        channel: {
            "field": field,
            "type": "ordinal" if channel == "size" else "nominal",
            "scale": {"type": "ordinal", "domain": names, "range": range_},
            "legend": {"title": None, **legend},
        }
        for channel, range_ in ranges.items()
    }


def tooltip(**titles: str) -> list[Spec]:
    """Show these fields under their titles where one points."""
    return [{"field": field, "title": title} for field, title in titles.items()]


def axis(field: str, title: str, ends: Sequence[float] | None = None) -> Spec:
    """Make an axis of numbers, between its ``ends`` or around the values."""
    scale = {"zero": False, "nice": True} if ends is None else {"domain": list(ends)}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale,
            "axis": {"tickCount": 6}}  # fmt: skip


def fit_axis(values: Sequence[float]) -> list[float]:
    """Return the ends of an axis of percentages, which a difference of tenths does not fill."""
    middle = (min(values) + max(values)) / 2
    half = max(0.55 * (max(values) - min(values)), _SMALLEST_SPAN / 2)
    return [round(max(middle - half, 0), 1), round(min(middle + half, 100), 1)]


def in_percent(share: float) -> float:
    """Turn a share into percent, to the hundredth."""
    return round(100 * share, 2)


def percents(name: str, each: MeasuredShare) -> Spec:
    """Return a share under ``name``, and the ends of its interval, in percent."""
    ends = {name: each.value, "low": each.low, "high": each.high}
    return {end: in_percent(value) for end, value in ends.items()}


_TEXT = {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12}
_CONFIG: Spec = {
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "point": {"opacity": 1},
    "axis": {
        **_TEXT, "gridColor": FAINT, "domainColor": FAINT, "tickColor": FAINT,
        "titleFontWeight": "normal", "labelLimit": 140, "labelFlush": False,
    },
    "legend": {
        **_TEXT, "orient": "bottom", "columns": {"expr": "width < 600 ? 1 : width < 780 ? 2 : 3"},
        "labelLimit": {"expr": "clamp(width - 30, 80, 260)"},
        "symbolSize": 90, "symbolStrokeWidth": 0, "symbolOpacity": 1,
    },
}  # fmt: skip
