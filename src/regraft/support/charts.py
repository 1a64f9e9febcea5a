"""Every chart, as a Vega-Lite specification of plain data.

Pages show them as they are; :mod:`regraft.support.pictures` makes pictures of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regraft.support.chart_parts import (
    Spec,
    axis,
    fit_axis,
    in_percent,
    layer,
    layered_chart,
    scales,
    told_apart,
    tooltip,
)
from regraft.support.looks import INK, SOFT, Look, head_looks, look
from regraft.support.measured import MeasuredShare, around

Line = Mapping[Any, float | MeasuredShare]  # heights by their place on the x axis, a number

ERM_HEAD, BETWEEN, LAST_HEAD = "ERM head (step 0)", "head in between", "last head"
_STAGE_SIZES = {ERM_HEAD: 60, BETWEEN: 20, LAST_HEAD: 60}
_TOUCHING = 0.05  # shares of an axis: points nearer than this have one label
_STEP_LABELS = {"labelAngle": 0, "labelOverlap": True}


def radius_chart(
    lines: Mapping[str, Line], title: str, looks: Mapping[str, Look], ends: Sequence[float] = ()
) -> Spec:
    """Draw accuracies over the radius, a line per head.

    Radii that double are evenly spaced, and 0 has a place. The axis of accuracies shows small
    differences, or goes over ``ends``.
    """
    x = "radius", "radius (nats)", 0.5, "~g"
    return _doubling_chart(lines, x, title, looks, ends)


def labels_chart(lines: Mapping[str, Line]) -> Spec:
    """Draw accuracies over the number of labels, a line per head."""
    x = "labels", "labels of the domain", 5.0, ",d"
    return _doubling_chart(lines, x, "accuracy on other rows (%)", head_looks(lines))


def seconds_chart(lines: Mapping[str, Line]) -> Spec:
    """Draw seconds over the number of rows, both in powers of ten, a line per engine."""
    x, y = axis("rows", "rows"), axis("seconds", "seconds of a core")
    for each, form in ((x, "~s"), (y, "~g")):
        each["scale"] = {"type": "log"}
        each["axis"] = {"format": form, "labelOverlap": True}
    looks = {name: look(i) for i, name in enumerate(lines)}
    return _lines(lines, x, y, looks, unit=" (s)")


def _doubling_chart(
    lines: Mapping[str, Line],
    place: tuple[str, str, float, str],  # field, title, up to where it is even, format
    title: str,
    looks: Mapping[str, Look],
    ends: Sequence[float] = (),
) -> Spec:
    """Draw accuracies over an axis that is even near 0, and on which numbers then double."""
    measured = {
        name: {
            r: each if isinstance(each, MeasuredShare) else around(each, None)
            for r, each in line.items()
        }
        for name, line in lines.items()
    }
    shown = {
        name: {r: in_percent(each.value) for r, each in line.items()}
        for name, line in measured.items()
    }
    bars = [
        {place[0]: r, "series": name, "low": in_percent(each.low), "high": in_percent(each.high)}
        for name, line in measured.items()
        for r, each in line.items()
    ]
    x = axis(*place[:2])
    x["scale"] = {"type": "symlog", "constant": place[2], "zero": False, "nice": False}
    steps = sorted({bar[place[0]] for bar in bars})
    x["axis"] = {"values": steps, "format": place[3], "labelOverlap": True}
    y = axis("accuracy", title, ends or fit_axis([bar[k] for bar in bars for k in ("low", "high")]))
    chart = _lines(shown, x, y, looks, unit=" (%)")
    drawn = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    rules = layer("rule", {**drawn, **told_apart("series", looks, "color")}, strokeWidth=1.5)
    chart["layer"].insert(0, {**rules, "data": {"values": bars}})
    return chart


def frontier_chart(
    points: Sequence[tuple[str, MeasuredShare, MeasuredShare]], trained: str, worst: str
) -> Spec:
    """Draw worst-case accuracy against source accuracy, a point per head with both intervals.

    ``points`` holds, for each head, its label, accuracy on the sources and in the worst case;
    ``trained`` says what the labels are, and ``worst`` over which domains the worst case is.
    """
    values: list[dict[str, Any]] = [
        {
            "order": i,
            "trained": label,
            **{
                f"{of}{end}": in_percent(share)
                for of, each in (("source", source), ("worst", worst))
                for end, share in (("", each.value), ("_low", each.low), ("_high", each.high))
            },
        }
        for i, (label, source, worst) in enumerate(points)
    ]
    ends = {
        key: fit_axis([value[f"{key}{end}"] for value in values for end in ("_low", "_high")])
        for key in ("source", "worst")
    }
    spans = {key: high - low for key, (low, high) in ends.items()}
    for value, text in zip(values, _labels(values, spans), strict=True):
        value["label"] = text
    x = axis("source", "accuracy on held-out source rows (%)", ends["source"])
    place = {"x": x, "y": axis("worst", f"{worst} (%)", ends["worst"])}
    shown = tooltip(trained=trained, source="sources (%)", worst="worst domain (%)")
    colour = look(0).colour
    order = {"field": "order", "type": "quantitative"}
    across = {**place, "x": {**x, "field": "source_low"}, "x2": {"field": "source_high"}}
    down = {**place, "y": {**place["y"], "field": "worst_low"}, "y2": {"field": "worst_high"}}
    return layered_chart(
        values,
        [
            *(layer("rule", bar, color=SOFT, opacity=0.6) for bar in (across, down)),
            layer("line", {**place, "order": order}, color=colour),
            layer("point", {**place, "tooltip": shown}, filled=True, size=90, color=colour),
            layer(
                "text",
                {**place, "text": {"field": "label", "type": "nominal"}},
                align="left", dx=8, dy=-10, color=INK,
            ),
        ],
    )  # fmt: skip


def game_chart(found: Sequence[float], answers: Sequence[float], kind: str) -> Spec:
    """Draw what the adversary found and what the learner answered in each round of a game."""
    players = {"worst domain found": found, "learner's answer": answers}
    lines = {
        name: {i: round(value, 4) for i, value in enumerate(line, start=1)}
        for name, line in players.items()
    }
    y = axis("value", f"{kind} (nats)")
    return _lines(lines, _steps("round", "round"), y, head_looks(players), unit=" (nats)")


def risks_chart(
    points: Iterable[Mapping[str, Any]], looks: Mapping[str, Look], ends: Sequence[float] = ()
) -> Spec:
    """Draw target risk against source risk, a mark per head, and the line of equal risks.

    A point has ``source``, ``target``, ``domain`` (held out) and ``stage`` of the game. The axes go
    as far as the points, or both over ``ends``.
    """
    values = list(points)
    axes = {key: ends or _around([point[key] for point in values]) for key in ("source", "target")}
    low, high = max(pair[0] for pair in axes.values()), min(pair[1] for pair in axes.values())
    x, y = (axis(key, f"{key} risk (error rate)", axes[key]) for key in axes)
    equal = layer("line", {"x": x, "y": y}, color=SOFT, strokeDash=[4, 3], strokeWidth=1)
    equal["data"] = {
        "values": [{"source": end, "target": end} for end in (low, high) if low < high]
    }
    marks = {
        "x": x,
        "y": y,
        "tooltip": tooltip(domain="domain", stage="stage", source="source", target="target"),
        **told_apart("domain", looks, "color", "shape"),
    }
    layers = [equal]
    for stage in (BETWEEN, ERM_HEAD, LAST_HEAD):  # the small ones lie below the others
        size, hollow = _STAGE_SIZES[stage], stage == ERM_HEAD
        dots = layer("point", marks, size=size, filled=not hollow, strokeWidth=1.2)
        dots["transform"] = [{"filter": {"field": "stage", "equal": stage}}]
        layers.append(dots)
    return layered_chart(values, [*layers, _stages_legend()])


def _stages_legend() -> Spec:
    """Explain sizes and fillings, whatever the domain."""
    ranges: dict[str, list[Any]] = {
        "size": list(_STAGE_SIZES.values()),
        "fill": ["transparent" if stage == ERM_HEAD else SOFT for stage in _STAGE_SIZES],
        "stroke": [SOFT] * len(_STAGE_SIZES),
    }
    encoding = scales("stage", list(_STAGE_SIZES), ranges, symbolStrokeWidth=1.2)
    return {**layer("point", encoding), "data": {"values": []}}


def ranks_chart(
    curves: Mapping[str, Sequence[tuple[int, float]]], looks: Mapping[str, Look]
) -> Spec:
    """Draw target risk over the transplant dimension, a line per series.

    The dimensions that occur are evenly spaced: what happens to the paper's CRO happens among the
    last few.
    """
    lines = {
        name: {rank: round(risk, 4) for rank, risk in sorted(curve)}
        for name, curve in curves.items()
    }
    x = _steps("rank", "transplant dimension r (not to scale)")
    return _lines(lines, x, axis("risk", "target risk (error rate)", [0, 1]), looks)


def lengths_chart(shares: Mapping[str, Mapping[int, float]], looks: Mapping[str, Look]) -> Spec:
    """Draw how many rounds games took, as shares of the games of each series."""
    seen = [rounds for line in shares.values() for rounds in line]
    scale = {"domain": list(range(min(seen), max(seen) + 1))}
    place = {
        "x": _steps("rounds", "rounds until the game ended", scale=scale),
        "xOffset": {"field": "series", "scale": {"domain": list(shares)}},
        "y": axis("share", "share of runs (%)", [0, 106]),  # with room for marks on the bars
    }
    bar = {**place, **told_apart("series", looks, "color")}
    end = {**place, **told_apart("series", looks, "color", "shape")}
    return layered_chart(
        [
            {"rounds": rounds, "share": in_percent(share), "series": name}
            for name, line in shares.items()
            for rounds, share in line.items()
        ],
        [layer("bar", bar), layer("point", end, filled=True, size=90, yOffset=-9)],
    )


def _lines(
    lines: Mapping[str, Line], x: Spec, y: Spec, looks: Mapping[str, Look], unit: str = ""
) -> Spec:
    """Draw lines with marks, and a rule at the nearest x that shows the values of all of them."""
    at, of, names = x["field"], y["field"], list(looks)
    values: list[dict[str, Any]] = [
        {at: place, of: height, "series": name}
        for name, line in lines.items()
        for place, height in line.items()
    ]
    # Names come from data and may hold anything, so the hovered rows have fields of their own.
    rows: dict[Any, dict[str, Any]] = {}
    for value in values:
        column = f"v{names.index(value['series'])}"
        rows.setdefault(value[at], {at: value[at]})[column] = value[of]
    titles = {at: x["title"], **{f"v{i}": f"{name}{unit}" for i, name in enumerate(names)}}
    # All as numbers: Vega-Lite 6.4 looks other kinds up in the wrong place where it hovers by
    # the nearest mark.
    numbers = [{**entry, "type": "quantitative", "format": "~r"} for entry in tooltip(**titles)]
    shown = {"condition": {"param": "hover", "empty": False, "value": 0.6}, "value": 0}
    rule = layer("rule", {"x": x, "tooltip": numbers, "opacity": shown}, color=INK, strokeWidth=1)
    hover = {
        "type": "point", "fields": [at], "nearest": True, "on": "pointerover", "clear": "pointerout"
    }  # fmt: skip
    rule |= {
        "data": {"values": list(rows.values())},
        "params": [{"name": "hover", "select": hover}],
    }
    place = {"x": x, "y": y}
    dashed = told_apart("series", looks, "color", "strokeDash")
    marked = told_apart("series", looks, "color", "shape")
    return layered_chart(
        values,
        [
            layer("line", {**place, **dashed}, strokeWidth=2),
            layer("point", {**place, **marked}, filled=True, size=70),
            rule,
        ],
    )


def _labels(points: Sequence[Mapping[str, Any]], spans: Mapping[str, float]) -> list[str]:
    """Label each point; points that all but touch share one label, right of them all."""
    groups: list[list[int]] = []
    for i, point in enumerate(points):
        first = points[groups[-1][0] if groups else 0]
        if not groups or max(abs(point[k] - first[k]) / spans[k] for k in spans) > _TOUCHING:
            groups.append([])
        groups[-1].append(i)
    labels = [""] * len(points)
    for group in groups:
        last = max(group, key=lambda i: float(points[i]["source"]))
        labels[last] = ", ".join(points[i]["trained"] for i in group)
    return labels


def _around(values: Sequence[float]) -> list[float]:
    """Return the ends of an axis with some room beside the outermost points."""
    low, high = min(values), max(values)
    margin = 0.12 * (high - low) or 0.01
    return [low - margin, high + margin]


def _steps(field: str, title: str, **more: Spec) -> Spec:
    """Return an axis on which the numbers that occur are evenly spaced."""
    return {"field": field, "type": "ordinal", "title": title, "axis": _STEP_LABELS, **more}
