"""Vega-Lite specifications of the charts in a report.

Colours are CSS variables of the page, so that a chart follows its theme, also on paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regraft.core.game import Round
from regraft.estimators.audit import AuditCurve, Frontier
from regraft.support.drawing import head_places

Spec = dict[str, Any]

COLOURS = tuple(f"var(--series-{i})" for i in range(1, 7))
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [4, 1], [1, 3])
_HEIGHT = 300
_TOUCHING = 0.05  # shares of an axis: points nearer than this have one label
_SMALLEST_SPAN = 5.0  # points of accuracy on an axis
_INK, _FAINT = "var(--ink)", "var(--rule)"


def stress_chart(curves: Mapping[str, AuditCurve]) -> Spec:
    """Worst-case accuracy over the radius, a line per head; hovering tells all at a radius."""
    values = [
        {"radius": p.radius, "accuracy": _percent(p.accuracy), "head": name}
        for name, curve in curves.items()
        for p in curve.points
    ]
    return _lines(
        values,
        x=_radius_axis(p.radius for curve in curves.values() for p in curve.points),
        y=_axis("accuracy", "worst-case accuracy (%)", domain=[0, 100]),
        series="head",
        names=list(curves),
        unit=" (%)",
    )


def frontier_chart(frontier: Frontier) -> Spec:
    """Source accuracy against worst-case accuracy, a point per training radius."""
    values: list[dict[str, Any]] = [
        {
            "radius": p.radius,
            "source": _percent(p.source_accuracy),
            "worst": _percent(p.worst_case_accuracy),
        }
        for p in frontier.points
    ]
    ends = {key: _range([value[key] for value in values]) for key in ("source", "worst")}
    spans = {key: high - low for key, (low, high) in ends.items()}
    for value, text in zip(values, _labels(values, spans), strict=True):
        value["label"] = text
    worst = f"worst case within {frontier.audit_radius:g} nats (%)"
    x = _axis("source", "accuracy on held-out source rows (%)", domain=ends["source"])
    y = _axis("worst", worst, domain=ends["worst"])
    tooltip = [
        {"field": "radius", "title": "training radius (nats)"},
        {"field": "source", "title": "sources (%)"},
        {"field": "worst", "title": "worst case (%)"},
    ]
    encoding = {"x": x, "y": y, "order": {"field": "radius", "type": "quantitative"}}
    dot = {"type": "point", "filled": True, "opacity": 1}
    label = {"type": "text", "dx": 9, "dy": -9, "color": _INK}
    return _chart(
        values,
        [
            {"mark": {"type": "line", "color": COLOURS[0]}, "encoding": encoding},
            {
                "mark": {**dot, "size": 90, "color": COLOURS[0]},
                "encoding": {"x": x, "y": y, "tooltip": tooltip},
            },
            {
                "mark": label,
                "encoding": {"x": x, "y": y, "text": {"field": "label", "type": "nominal"}},
            },
        ],
    )


def rounds_chart(rounds: Sequence[Round], kind: str) -> Spec:
    """What the adversary found and what the learner answered, over the rounds of the game."""
    names = ["worst domain found", "learner's answer"]
    values = [
        {"round": i, "value": round(value, 4), "player": name}
        for i, played in enumerate(rounds, start=1)
        for name, value in zip(names, (played.attack_value, played.value), strict=True)
    ]
    x = {"field": "round", "type": "ordinal", "title": "round", "axis": {"labelAngle": 0}}
    y = _axis("value", f"{kind} (nats)", zero=False)
    return _lines(values, x=x, y=y, series="player", names=names, unit=" (nats)")


def accuracies_chart(accuracies: Mapping[str, Mapping[str, float]]) -> Spec:
    """Accuracy by domain, a mark per head; a ring around each head's worst domain."""
    domains = list(dict.fromkeys(name for row in accuracies.values() for name in row))
    values = [
        {
            "head": head,
            "domain": domain,
            "accuracy": _percent(accuracy),
            "worst": len(row) > 1 and accuracy == min(row.values()),
        }
        for head, row in accuracies.items()
        for domain, accuracy in row.items()
    ]
    x = _axis("accuracy", "accuracy (%)", domain=[0, 100])
    y = {"field": "domain", "type": "nominal", "sort": domains, "title": None}
    tooltip = [
        {"field": "head"},
        {"field": "domain"},
        {"field": "accuracy", "title": "accuracy (%)"},
    ]
    ring = {"type": "point", "size": 320, "strokeWidth": 1.5, "color": _INK, "filled": False}
    spec = _chart(
        values,
        [
            {
                "transform": [{"filter": "datum.worst"}],
                "mark": ring,
                "encoding": {"x": x, "y": y},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 100, "opacity": 0.9},
                "encoding": {
                    "x": x, "y": y, "tooltip": tooltip, **_told_apart("head", list(accuracies)),
                },
            },
        ],
    )  # fmt: skip
    return spec | {"height": 44 * len(domains)}


def radius_chart(
    lines: Mapping[str, Mapping[float, float]], levels: Mapping[str, float], title: str
) -> Spec:
    """Accuracy over the radius, a line each, and horizontal lines for heads without one."""
    radii = sorted({radius for line in lines.values() for radius in line})
    by_name = {**{name: dict.fromkeys(radii, level) for name, level in levels.items()}, **lines}
    values: list[dict[str, Any]] = [
        {"radius": radius, "accuracy": _percent(accuracy), "head": name}
        for name, line in by_name.items()
        for radius, accuracy in line.items()
    ]
    y = _axis("accuracy", title, domain=_range([value["accuracy"] for value in values]))
    return _lines(
        values, x=_radius_axis(radii), y=y, series="head", names=list(by_name), unit=" (%)"
    )


def risks_chart(points: Iterable[Mapping[str, Any]], held_out: Sequence[str]) -> Spec:
    """Target risk against source risk, a mark per checkpoint: ``source``, ``target``, ``domain``,
    ``stage``.
    """
    values = list(points)
    x = _axis("source", "source risk (error rate)", zero=False)
    y = _axis("target", "target risk (error rate)", zero=False)
    tooltip = [{"field": name} for name in ("domain", "stage", "source", "target")]
    return _chart(
        values,
        [
            {
                "mark": {"type": "point", "filled": True, "opacity": 0.7},
                "encoding": {
                    "x": x,
                    "y": y,
                    "size": {"field": "size", "type": "quantitative", "scale": None},
                    "tooltip": tooltip,
                    **_told_apart("domain", held_out),
                },
            }
        ],
    )


def ranks_chart(curves: Mapping[str, Sequence[tuple[int, float]]]) -> Spec:
    """Target risk over the transplant dimension, a line per held-out domain."""
    values = [
        {"rank": rank, "risk": round(risk, 4), "domain": name}
        for name, curve in curves.items()
        for rank, risk in sorted(curve)
    ]
    x = _axis("rank", "transplant dimension r")
    x["scale"] = {"type": "log", "base": 2}
    y = _axis("risk", "target risk (error rate)", domain=[0, 1])
    return _lines(values, x=x, y=y, series="domain", names=list(curves), unit="")


def _lines(
    values: Sequence[Mapping[str, Any]], *, x: Spec, y: Spec, series: str, names: Sequence[str],
    unit: str,
) -> Spec:  # fmt: skip
    """Lines with marks; a rule at the nearest x tells the values of all of them."""
    at, of = x["field"], y["field"]
    # Names come from data and may hold anything, so the hovered rows have fields of their own.
    rows: dict[Any, dict[str, Any]] = {}
    for value in values:
        i = names.index(value[series])
        rows.setdefault(value[at], {at: value[at]})[f"v{i}"] = value[of]
    # All as numbers: Vega-Lite 6.4 looks other kinds up in the wrong place where it hovers by
    # the nearest mark.
    titles = {at: x["title"], **{f"v{i}": f"{name}{unit}" for i, name in enumerate(names)}}
    tooltip = [
        {"field": field, "title": title, "type": "quantitative", "format": "~r"}
        for field, title in titles.items()
    ]
    encoding = {"x": x, "y": y, **_told_apart(series, names)}
    dash = {"field": series, "scale": {"domain": list(names), "range": _cycle(_DASHES, names)}}
    dash |= {"type": "nominal", "legend": {"title": None}}
    hover = {
        "name": "hover",
        "select": {
            "type": "point", "fields": [at], "nearest": True,
            "on": "pointerover", "clear": "pointerout",
        },
    }  # fmt: skip
    line = {key: value for key, value in encoding.items() if key != "shape"}
    return _chart(
        values,
        [
            {
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {**line, "strokeDash": dash},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                "encoding": encoding,
            },
            {
                "data": {"values": list(rows.values())},
                "params": [hover],
                "mark": {"type": "rule", "color": _INK, "strokeWidth": 1},
                "encoding": {
                    "x": x,
                    "tooltip": tooltip,
                    "opacity": {
                        "condition": {"param": "hover", "empty": False, "value": 0.6},
                        "value": 0,
                    },
                },
            },
        ],
    )


def _chart(values: Sequence[Mapping[str, Any]], layers: Sequence[Spec]) -> Spec:
    return {
        "width": "container",
        "height": _HEIGHT,
        "background": "transparent",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": [dict(value) for value in values]},
        "layer": list(layers),
        "config": _CONFIG,
    }


def _labels(points: Sequence[Mapping[str, Any]], spans: Mapping[str, float]) -> list[str]:
    """The radius of each point; points that all but touch share the label of the first."""
    labels, first = [""] * len(points), 0
    for i, point in enumerate(points):
        if max(abs(point[k] - points[first][k]) / spans[k] for k in spans) > _TOUCHING:
            first = i
        labels[first] += f"{', ' if labels[first] else ''}{point['radius']:g}"
    return labels


def _range(values: Sequence[float]) -> list[float]:
    """Ends of an axis of accuracies in percent, which a difference of tenths does not fill."""
    middle = (min(values) + max(values)) / 2
    half = max(0.55 * (max(values) - min(values)), _SMALLEST_SPAN / 2)
    return [round(max(middle - half, 0), 1), round(min(middle + half, 100), 1)]


def _told_apart(field: str, names: Sequence[str]) -> Spec:
    """Colour and shape by name, in the order given."""
    legend = {"title": None}
    return {
        channel: {
            "field": field,
            "type": "nominal",
            "scale": {"domain": list(names), "range": _cycle(range_, names)},
            "legend": legend,
        }
        for channel, range_ in (("color", COLOURS), ("shape", SHAPES))
    }


def _cycle(values: Sequence[Any], names: Sequence[str]) -> list[Any]:
    return [values[place % len(values)] for place in head_places(names).values()]


def _axis(
    field: str, title: str, *, domain: Sequence[float] | None = None, zero: bool = True
) -> Spec:
    scale = {"zero": zero, "nice": True} if domain is None else {"domain": list(domain)}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": {}}


def _radius_axis(radii: Iterable[float]) -> Spec:
    """Radii that double are evenly spaced, and 0 has a place."""
    axis = _axis("radius", "radius (nats)")
    axis["scale"] = {"type": "symlog", "constant": 0.5, "zero": False}
    axis["axis"] = {"values": sorted(set(radii)), "format": "~g"}
    return axis


def _percent(share: float) -> float:
    return round(100 * share, 2)


_TEXT = {"labelColor": _INK, "titleColor": _INK, "labelFontSize": 12, "titleFontSize": 12}
_CONFIG: Spec = {
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        **_TEXT, "gridColor": _FAINT, "domainColor": _FAINT, "tickColor": _FAINT,
        "titleFontWeight": "normal", "labelLimit": 140,
    },
    "legend": {
        **_TEXT, "orient": "bottom", "columns": {"expr": "width < 420 ? 1 : 3"}, "labelLimit": 260,
        "symbolSize": 90, "symbolStrokeWidth": 0,
    },
}  # fmt: skip
