"""Charts of a hidden factor: how it is tied to the classes, and heads over its prevalence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regraft.support import chart_parts as parts
from regraft.support.chart_parts import Spec, in_percent, layer, percents
from regraft.support.looks import INK, SOFT, head_looks, look
from regraft.support.measured import MeasuredShare

PREVALENCE = "prevalence"  # the number, in percent, that a slider moves
_LETTER, _NARROW = 6.4, 260  # pixels: of a letter, and of the axis on a telephone
_LEVELS, _LINE = 3, 14  # of names above a chart, and the height of one
_LONGEST = 16  # letters of a name above a chart
_LABEL_ANGLES = (3, 0), (9, -40), (float("inf"), -90)  # names of so many classes, on a telephone
_MOST_LABELS = 18  # classes; of more, some names are left out where there is no room


@dataclass(frozen=True)
class PlacedDomain:
    """A domain among the mixtures of the groups, and what heads were measured to have there."""

    name: str
    share: MeasuredShare  # of the group that the chart is about
    accuracy: Mapping[str, MeasuredShare]  # by head; empty if nothing was measured
    is_new: bool = False  # rather than a source


def slope_chart(shares: Mapping[str, Mapping[str, MeasuredShare]], title: str) -> Spec:
    """Draw a share by class, a mark for each source, beside each other.

    Two classes are joined by a line: the steeper, the more the share tells the class. More have no
    order, so that slopes would mean nothing.
    """
    classes = list(dict.fromkeys(label for row in shares.values() for label in row))
    looks = {name: look(i) for i, name in enumerate(shares)}
    values: list[dict[str, Any]] = [
        {"source": source, "class": label, **percents("share", each)}
        for source, row in shares.items()
        for label, each in row.items()
    ]
    ends = [value[key] for value in values for key in ("low", "high")]
    angle = next(angle for most, angle in _LABEL_ANGLES if len(classes) <= most)
    labels = {"labelAngle": angle, "labelLimit": 90, "labelOverlap": len(classes) > _MOST_LABELS}
    place: dict[str, Any] = {
        "x": {
            "field": "class", "type": "ordinal", "sort": classes, "title": "class",
            "scale": {"type": "band", "paddingInner": 0.6, "paddingOuter": 0.3},
            "axis": {**labels, "grid": True},
        },
        "xOffset": {"field": "source", "type": "nominal", "sort": list(shares)},
        "y": parts.axis("share", title, parts.fit_axis(ends)),
    }  # fmt: skip
    bars = {**place, "y": {**place["y"], "field": "low"}, "y2": {"field": "high"}}
    bars |= parts.told_apart("source", looks, "color")
    shown = parts.tooltip(
        source="source", **{"class": "class"}, share="%", low="from (%)", high="to (%)"
    )
    marks = {**place, "tooltip": shown, **parts.told_apart("source", looks, "color", "shape")}
    layers = [layer("rule", bars, strokeWidth=2), layer("point", marks, filled=True, size=80)]
    if len(classes) == 2:
        lines = {**place, **parts.told_apart("source", looks, "color", "strokeDash")}
        layers.insert(0, layer("line", lines, strokeWidth=2))
    return parts.layered_chart(values, layers) | {"height": 260}


def prevalence_chart(
    heads: Mapping[str, tuple[MeasuredShare, MeasuredShare]],
    places: Sequence[PlacedDomain],
    start: int,
    group: str,
) -> Spec:
    """Draw the accuracy of each head over the share of a group, and where domains lie.

    ``heads`` holds the accuracy without that group and in it alone; between them it is a straight
    line. A rule at ``start`` percent moves with the parameter ``PREVALENCE``.
    """
    looks = head_looks(heads)
    lines = [
        {"head": head, "share": 100 * i, **percents("accuracy", end)}
        for head, ends in heads.items()
        for i, end in enumerate(ends)
    ]
    measured = [
        {
            "head": head,
            "share": in_percent(place.share.value),
            "domain": place.name,
            **percents("accuracy", m),
        }
        for place in places
        for head, m in place.accuracy.items()
        if head in heads
    ]
    ends = [value[key] for value in (*lines, *measured) for key in ("low", "high")]
    x = parts.axis("share", f"share of {group} (%)", (0, 100))
    y = parts.axis("accuracy", "accuracy (%)", parts.fit_axis(ends))
    low = {**y, "field": "low"}, {"field": "high"}
    colour = parts.told_apart("head", looks, "color")
    band = {"x": x, "y": low[0], "y2": low[1], **colour}
    shown = parts.tooltip(domain="measured in", head="head", accuracy="%", low="from", high="to")
    marks = {"x": x, "y": y, "tooltip": shown, **parts.told_apart("head", looks, "color", "shape")}
    dots = layer("point", marks, filled=True, size=60)
    bars = layer("rule", band, strokeWidth=1.5)
    layers = [
        layer("area", band, opacity=0.15),
        layer("line", {"x": x, "y": y, **parts.told_apart("head", looks, "color", "strokeDash")}),
        *_mark_domains(places, x),
        *({**each, "data": {"values": measured}} for each in (bars, dots)),
        *_moving_marks(heads, marks, x),
    ]
    return parts.layered_chart(lines, layers) | {"params": [{"name": PREVALENCE, "value": start}]}


def _mark_domains(places: Sequence[PlacedDomain], x: Spec) -> list[Spec]:
    """Draw a rule at each domain, and its name above where there is room for it."""
    levels = _levels(places)
    rows: list[dict[str, Any]] = [
        {"share": in_percent(each.share.value), "domain": each.name, "new": each.is_new}
        for each in places
    ]
    shown = parts.tooltip(domain="domain", share="share (%)")
    dash = {"condition": {"test": "datum.new", "value": [1, 0]}, "value": [3, 3]}
    rules = layer("rule", {"x": x, "tooltip": shown, "strokeDash": dash}, color=SOFT)
    layers = [{**rules, "data": {"values": rows}}]
    for row, level in zip(rows, levels, strict=True):
        if level is None:
            continue
        align = _alignment(row["share"])
        text = layer(
            "text",
            {"x": x, "y": {"value": -8 - _LINE * level}, "text": {"field": "label"}},
            align=align, color=INK, fontSize=11,
        )  # fmt: skip
        layers.append({**text, "data": {"values": [{**row, "label": _shorten(row["domain"])}]}})
    return layers


def _levels(places: Sequence[PlacedDomain]) -> list[int | None]:
    """Stack names above the chart so that none overlap on a telephone; None leaves a name out."""
    taken: list[list[tuple[float, float]]] = [[] for _ in range(_LEVELS)]
    levels: list[int | None] = []
    for place in places:
        at = place.share.value * _NARROW
        width = _LETTER * len(_shorten(place.name)) + 6
        left = (
            at
            - width
            * {"left": 0.0, "center": 0.5, "right": 1.0}[_alignment(in_percent(place.share.value))]
        )
        free = (
            i for i, row in enumerate(taken)
            if all(left + width <= low or high <= left for low, high in row)
        )  # fmt: skip
        level = next(free, None)
        if level is not None:
            taken[level].append((left, left + width))
        levels.append(level)
    return levels


def _alignment(percent: float) -> str:
    return "left" if percent < 25 else "right" if percent > 75 else "center"


def _shorten(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _moving_marks(
    heads: Mapping[str, tuple[MeasuredShare, MeasuredShare]], marks: Spec, x: Spec
) -> list[Spec]:
    """Draw the rule that a slider moves, and a ring where it meets each line."""
    rows = [
        {"head": head, "none": in_percent(none.value), "all": in_percent(all_.value)}
        for head, (none, all_) in heads.items()
    ]
    here = [{"calculate": PREVALENCE, "as": "share"}]
    met = f"datum.none + (datum.all - datum.none) * {PREVALENCE} / 100"
    ring = {key: value for key, value in marks.items() if key in ("x", "y")}
    rule = layer("rule", {"x": x}, color=INK, strokeWidth=1.5)
    rings = layer("point", ring, filled=False, size=130, color=INK, strokeWidth=1.5)
    return [
        {**rule, "data": {"values": [{}]}, "transform": here},
        {
            **rings,
            "data": {"values": rows},
            "transform": [*here, {"calculate": met, "as": "accuracy"}],
        },
    ]
