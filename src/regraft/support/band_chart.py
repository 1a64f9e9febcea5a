"""A chart of numbers with their bands over the batches of a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regraft.support.chart_parts import (
    Spec,
    axis,
    in_percent,
    layer,
    layered_chart,
    told_apart,
    tooltip,
)
from regraft.support.looks import INK, look

Point = tuple[int, float, float, float]  # the number of a batch, a share, its lower and upper end


def band_chart(
    series: Mapping[str, Sequence[Point]],
    title: str,
    alarms: Mapping[int, str],
    certified: float | None = None,
) -> Spec:
    """Draw shares of one over the batches, each with its band, and a rule at every alarm.

    ``alarms`` says what is wrong with a batch; ``certified`` is drawn as a dashed line.
    """
    values = [
        {"batch": n, "value": in_percent(y), "low": in_percent(low), "high": in_percent(high),
         "series": name}
        for name, points in series.items()
        for n, y, low, high in points
    ]  # fmt: skip
    looks = {name: look(i) for i, name in enumerate(series)}
    x, y, low = axis("batch", "batch"), axis("value", title), axis("low", title)
    rules = layer("rule", {"x": x, "tooltip": tooltip(batch="batch", alarm="alarm")}, color=INK)
    rules["mark"] |= {"opacity": 0.25, "strokeWidth": 2}
    rules["data"] = {"values": [{"batch": n, "alarm": text} for n, text in alarms.items()]}
    band = {"x": x, "y": low, "y2": {"field": "high"}, **told_apart("series", looks, "color")}
    shown = tooltip(series="what", batch="batch", value="%", low="at least", high="at most")
    line = {"x": x, "y": y, "tooltip": shown, **told_apart("series", looks, "color", "strokeDash")}
    layers = [
        *([rules] if alarms else []),
        layer("area", band, opacity=0.2),
        layer("line", line, strokeWidth=2),
    ]
    if certified is not None:
        level = layer("rule", {"y": axis("value", title)}, color=INK, strokeDash=[4, 3])
        layers.append({**level, "data": {"values": [{"value": in_percent(certified)}]}})
    return layered_chart(values, layers)
