"""Every chart, as a Vega-Lite specification of plain data.

Pages show them as they are; :mod:`regraft.support.pictures` makes pictures of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regraft.support.looks import FAINT, INK, SOFT, Look, head_looks, look

Spec = dict[str, Any]
Line = Mapping[Any, float]  # heights by their place on the x axis, a number

ERM_HEAD, BETWEEN, LAST_HEAD = "ERM head (step 0)", "head in between", "last head"
_STAGE_SIZES = {ERM_HEAD: 60, BETWEEN: 20, LAST_HEAD: 60}
_HEIGHT = 300
_TOUCHING = 0.05  # shares of an axis: points nearer than this have one label
_STEP_LABELS = {"labelAngle": 0, "labelOverlap": True}
_SMALLEST_SPAN = 5.0  # points of accuracy on an axis


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


def _doubling_chart(
    lines: Mapping[str, Line],
    axis: tuple[str, str, float, str],  # field, title, up to where it is even, format
    title: str,
    looks: Mapping[str, Look],
    ends: Sequence[float] = (),
) -> Spec:
    """Draw accuracies over an axis that is even near 0, and on which numbers then double."""
    shown = {name: {r: _percent(line[r]) for r in line} for name, line in lines.items()}
    x = _axis(*axis[:2])
    x["scale"] = {"type": "symlog", "constant": axis[2], "zero": False, "nice": False}
    x["axis"] = {"values": sorted({r for line in shown.values() for r in line}), "format": axis[3]}
    heights = [height for line in shown.values() for height in line.values()]
    return _lines(shown, x, _axis("accuracy", title, ends or _range(heights)), looks, unit=" (%)")


def frontier_chart(points: Sequence[tuple[str, float, float]], trained: str, worst: str) -> Spec:
    """Draw worst-case accuracy against source accuracy, a point per head.

    ``points`` holds, for each head, its label, accuracy on the sources and in the worst case;
    ``trained`` says what the labels are, and ``worst`` over which domains the worst case is.
    """
    values: list[dict[str, Any]] = [
        {"order": i, "trained": label, "source": _percent(source), "worst": _percent(worst)}
        for i, (label, source, worst) in enumerate(points)
    ]
    ends = {key: _range([value[key] for value in values]) for key in ("source", "worst")}
    spans = {key: high - low for key, (low, high) in ends.items()}
    for value, text in zip(values, _labels(values, spans), strict=True):
        value["label"] = text
    x = _axis("source", "accuracy on held-out source rows (%)", ends["source"])
    place = {"x": x, "y": _axis("worst", f"{worst} (%)", ends["worst"])}
    tooltip = _tooltip(trained=trained, source="sources (%)", worst="worst domain (%)")
    colour = look(0).colour
    order = {"field": "order", "type": "quantitative"}
    return _chart(
        values,
        [
            _layer("line", {**place, "order": order}, color=colour),
            _layer("point", {**place, "tooltip": tooltip}, filled=True, size=90, color=colour),
            _layer(
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
    y = _axis("value", f"{kind} (nats)")
    return _lines(lines, _steps("round", "round"), y, head_looks(players), unit=" (nats)")


def accuracies_chart(accuracies: Mapping[str, Mapping[str, float]]) -> Spec:
    """Draw the accuracy of each head in each domain, with a ring around a head's worst domain."""
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
    place = {"x": _axis("accuracy", "accuracy (%)", [0, 100]), "y": _names("domain", domains)}
    marks = {
        **place,
        "tooltip": _tooltip(head="head", domain="domain", accuracy="accuracy (%)"),
        **_told_apart("head", head_looks(accuracies), "color", "shape"),
    }
    ring = _layer("point", place, size=320, strokeWidth=1.5, color=INK, filled=False)
    ring["transform"] = [{"filter": "datum.worst"}]
    dots = _layer("point", marks, filled=True, size=100, opacity=0.9)
    return _chart(values, [ring, dots]) | {"height": 44 * len(domains)}


def group_accuracy_chart(evidence: Mapping[str, Sequence[tuple[str, float, float]]]) -> Spec:
    """Draw the accuracy of each head in each group and source, with a line down to its bound.

    ``evidence`` holds, for each head, names with the accuracy and its one-sided lower bound there.
    """
    names = list(dict.fromkeys(name for rows in evidence.values() for name, _, _ in rows))
    values = [
        {"head": head, "name": name, "accuracy": _percent(accuracy), "bound": _percent(bound)}
        for head, rows in evidence.items()
        for name, accuracy, bound in rows
    ]
    place = {
        "x": _axis("accuracy", "accuracy, and at least (%)", [0, 100]),
        "y": _names("name", names),
        "yOffset": {"field": "head", "type": "nominal", "sort": list(evidence)},
    }
    looks = head_looks(evidence)
    tooltip = _tooltip(
        head="head", name="measured in", accuracy="accuracy (%)", bound="at least (%)"
    )
    dots = {**place, "tooltip": tooltip, **_told_apart("head", looks, "color", "shape")}
    bars = {**place, "x2": {"field": "bound"}, **_told_apart("head", looks, "color")}
    return _chart(
        values,
        [_layer("rule", bars, strokeWidth=2), _layer("point", dots, filled=True, size=90)],
    ) | {"height": (28 + 16 * len(evidence)) * len(names)}


def shares_chart(shares: Mapping[str, Mapping[str, float]], of: str = "class") -> Spec:
    """Draw the share of a group in each source, a mark for each class or for what ``of`` names."""
    sources = list(dict.fromkeys(name for row in shares.values() for name in row))
    looks = {label: look(i) for i, label in enumerate(shares)}
    marks = {
        "x": _axis("share", "share of the last group (%)", [0, 100]),
        "y": _names("source", sources),
        "tooltip": _tooltip(label=of, source="source", share="share (%)"),
        **_told_apart("label", looks, "color", "shape"),
    }
    values = [
        {"label": label, "source": source, "share": _percent(share)}
        for label, row in shares.items()
        for source, share in row.items()
    ]
    dots = _layer("point", marks, filled=True, size=100, opacity=0.9)
    return _chart(values, [dots]) | {"height": 44 * len(sources)}


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
    x, y = (_axis(key, f"{key} risk (error rate)", axes[key]) for key in axes)
    equal = _layer("line", {"x": x, "y": y}, color=SOFT, strokeDash=[4, 3], strokeWidth=1)
    equal["data"] = {
        "values": [{"source": end, "target": end} for end in (low, high) if low < high]
    }
    marks = {
        "x": x,
        "y": y,
        "tooltip": _tooltip(domain="domain", stage="stage", source="source", target="target"),
        **_told_apart("domain", looks, "color", "shape"),
    }
    layers = [equal]
    for stage in (BETWEEN, ERM_HEAD, LAST_HEAD):  # the small ones lie below the others
        size, hollow = _STAGE_SIZES[stage], stage == ERM_HEAD
        layer = _layer("point", marks, size=size, filled=not hollow, strokeWidth=1.2)
        layer["transform"] = [{"filter": {"field": "stage", "equal": stage}}]
        layers.append(layer)
    return _chart(values, [*layers, _stages_legend()])


def _stages_legend() -> Spec:
    """Explain sizes and fillings, whatever the domain."""
    ranges: dict[str, list[Any]] = {
        "size": list(_STAGE_SIZES.values()),
        "fill": ["transparent" if stage == ERM_HEAD else SOFT for stage in _STAGE_SIZES],
        "stroke": [SOFT] * len(_STAGE_SIZES),
    }
    encoding = _scales("stage", list(_STAGE_SIZES), ranges, symbolStrokeWidth=1.2)
    return {**_layer("point", encoding), "data": {"values": []}}


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
    return _lines(lines, x, _axis("risk", "target risk (error rate)", [0, 1]), looks)


def lengths_chart(shares: Mapping[str, Mapping[int, float]], looks: Mapping[str, Look]) -> Spec:
    """Draw how many rounds games took, as shares of the games of each series."""
    seen = [rounds for line in shares.values() for rounds in line]
    scale = {"domain": list(range(min(seen), max(seen) + 1))}
    place = {
        "x": _steps("rounds", "rounds until the game ended", scale=scale),
        "xOffset": {"field": "series", "scale": {"domain": list(shares)}},
        "y": _axis("share", "share of runs (%)", [0, 106]),  # with room for marks on the bars
    }
    bar = {**place, **_told_apart("series", looks, "color")}
    end = {**place, **_told_apart("series", looks, "color", "shape")}
    return _chart(
        [
            {"rounds": rounds, "share": _percent(share), "series": name}
            for name, line in shares.items()
            for rounds, share in line.items()
        ],
        [_layer("bar", bar), _layer("point", end, filled=True, size=90, yOffset=-9)],
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
    numbers = [{**entry, "type": "quantitative", "format": "~r"} for entry in _tooltip(**titles)]
    shown = {"condition": {"param": "hover", "empty": False, "value": 0.6}, "value": 0}
    rule = _layer("rule", {"x": x, "tooltip": numbers, "opacity": shown}, color=INK, strokeWidth=1)
    hover = {
        "type": "point", "fields": [at], "nearest": True, "on": "pointerover", "clear": "pointerout"
    }  # fmt: skip
    rule |= {
        "data": {"values": list(rows.values())},
        "params": [{"name": "hover", "select": hover}],
    }
    place = {"x": x, "y": y}
    dashed = _told_apart("series", looks, "color", "strokeDash")
    marked = _told_apart("series", looks, "color", "shape")
    return _chart(
        values,
        [
            _layer("line", {**place, **dashed}, strokeWidth=2),
            _layer("point", {**place, **marked}, filled=True, size=70),
            rule,
        ],
    )


def _layer(kind: str, encoding: Spec, **mark: Any) -> Spec:
    return {"mark": {"type": kind, **mark}, "encoding": encoding}


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


def _told_apart(field: str, looks: Mapping[str, Look], *channels: str) -> Spec:
    """Give each name its look on these ``channels``, in the order of ``looks``."""
    ranges: dict[str, list[Any]] = {
        "shape": [each.shape for each in looks.values()],
        "strokeDash": [list(each.dashes) for each in looks.values()],
    }
    colours = [each.colour for each in looks.values()]
    used = {channel: ranges.get(channel, colours) for channel in channels}
    return _scales(field, list(looks), used)


def _scales(field: str, names: list[str], ranges: Mapping[str, list[Any]], **legend: Any) -> Spec:
    return {
        channel: {
            "field": field,
            "type": "ordinal" if channel == "size" else "nominal",
            "scale": {"type": "ordinal", "domain": names, "range": range_},
            "legend": {"title": None, **legend},
        }
        for channel, range_ in ranges.items()
    }


def _tooltip(**titles: str) -> list[Spec]:
    return [{"field": field, "title": title} for field, title in titles.items()]


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


def _range(values: Sequence[float]) -> list[float]:
    """Return the ends of an axis of percentages, which a difference of tenths does not fill."""
    middle = (min(values) + max(values)) / 2
    half = max(0.55 * (max(values) - min(values)), _SMALLEST_SPAN / 2)
    return [round(max(middle - half, 0), 1), round(min(middle + half, 100), 1)]


def _around(values: Sequence[float]) -> list[float]:
    """Return the ends of an axis with some room beside the outermost points."""
    low, high = min(values), max(values)
    margin = 0.12 * (high - low) or 0.01
    return [low - margin, high + margin]


def _axis(field: str, title: str, ends: Sequence[float] | None = None) -> Spec:
    scale = {"zero": False, "nice": True} if ends is None else {"domain": list(ends)}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale,
            "axis": {"tickCount": 6}}  # fmt: skip


def _steps(field: str, title: str, **more: Spec) -> Spec:
    """Return an axis on which the numbers that occur are evenly spaced."""
    return {"field": field, "type": "ordinal", "title": title, "axis": _STEP_LABELS, **more}


def _names(field: str, order: Sequence[str]) -> Spec:
    return {"field": field, "type": "nominal", "sort": list(order), "title": None}


def _percent(share: float) -> float:
    return round(100 * share, 2)


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
        **_TEXT, "orient": "bottom", "columns": {"expr": "width < 420 ? 1 : 3"},
        "labelLimit": {"expr": "clamp(width - 30, 80, 260)"},
        "symbolSize": 90, "symbolStrokeWidth": 0, "symbolOpacity": 1,
    },
}  # fmt: skip
