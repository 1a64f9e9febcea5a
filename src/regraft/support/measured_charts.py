"""Charts of measured shares with their intervals: heads by domain or group, shares by source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regraft.support import chart_parts as parts
from regraft.support.chart_parts import Spec, in_percent, layer, percents
from regraft.support.looks import Look, head_looks, look
from regraft.support.measured import MeasuredShare

_ROW, _MARK = 20, 15  # heights: of the space between places, and of each mark in one


def accuracy_chart(measured: Mapping[str, Mapping[str, MeasuredShare]]) -> Spec:
    """Draw the accuracy of each head in each place, with its interval and its bound.

    ``measured`` holds, for each head, the accuracy by place: a domain or a group.
    """
    return _interval_chart(measured, head_looks(measured), "accuracy (%)", "head")


def share_chart(shares: Mapping[str, MeasuredShare], group: str) -> Spec:
    """Draw the share of a group in each domain, with its interval."""
    title = f"share of {group} (%)"
    return _interval_chart({title: shares}, {title: look(0)}, title, "what", legend=False)


def _interval_chart(
    measured: Mapping[str, Mapping[str, MeasuredShare]],
    looks: Mapping[str, Look],
    title: str,
    of: str,
    *,
    legend: bool = True,
) -> Spec:
    """Draw marks in rows, with a bar over the interval and a tick at the bound."""
    places = list(dict.fromkeys(name for row in measured.values() for name in row))
    values: list[dict[str, Any]] = [
        {
            "series": series,
            "place": place,
            **percents("value", each),
            **({} if each.bound is None else {"bound": in_percent(each.bound)}),
        }
        for series, row in measured.items()
        for place, each in row.items()
    ]
    ends = [value[key] for value in values for key in ("low", "high", "bound") if key in value]
    has_bounds = any("bound" in value for value in values)
    at: dict[str, Any] = {
        "x": parts.axis("value", title, parts.fit_axis(ends)),
        "y": {
            "field": "place",
            "type": "nominal",
            "sort": places,
            "title": None,
            "scale": {"paddingInner": 0.2, "paddingOuter": 0.1},
        },
        "yOffset": {"field": "series", "type": "nominal", "sort": list(measured)},
    }
    bound = {"bound": "at least (%), certified"} if has_bounds else {}
    shown = parts.tooltip(series=of, place="in", value="%", low="from (%)", high="to (%)", **bound)
    bars = {**at, "x": {**at["x"], "field": "low"}, "x2": {"field": "high"}}
    bars |= parts.told_apart("series", looks, "color")
    dots = {**at, "tooltip": shown, **parts.told_apart("series", looks, "color", "shape")}
    layers = [layer("rule", bars, strokeWidth=2), layer("point", dots, filled=True, size=80)]
    if has_bounds:
        ticks = {
            **at,
            "x": {**at["x"], "field": "bound"},
            **parts.told_apart("series", looks, "color"),
        }
        tick = layer("tick", ticks, thickness=2, bandSize=11)
        layers.append(tick | {"transform": [{"filter": "isValid(datum.bound)"}]})
    if not legend:
        for each in layers:
            for channel in ("color", "shape"):
                each["encoding"].get(channel, {})["legend"] = None
    height = (_ROW + _MARK * len(measured)) * len(places)
    return parts.layered_chart(values, layers) | {"height": height}
