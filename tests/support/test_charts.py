"""Charts as data: what they hold, and that Vega-Lite itself accepts them without a complaint."""

from typing import Any

import pytest

from regraft.support.band_chart import band_chart
from regraft.support.charts import (
    frontier_chart,
    game_chart,
    labels_chart,
    lengths_chart,
    radius_chart,
    ranks_chart,
    risks_chart,
    seconds_chart,
)
from regraft.support.factor_charts import PlacedDomain, prevalence_chart, slope_chart
from regraft.support.looks import head_looks
from regraft.support.measured import MeasuredShare, around
from regraft.support.measured_charts import accuracy_chart, share_chart

vl_convert = pytest.importorskip("vl_convert")

NAMES = {"ERM": 0.9, "CRO": 0.7, "a.b[c]": 0.5}
CURVES = {name: {r: top / (1 + r) for r in (0.0, 1.0, 4.0)} for name, top in NAMES.items()}
FRONTIER = [
    (label, around(0.9 - d, 0.01), around(0.2 + d, 0.01))
    for label, d in (("0", 0), ("1", 0.3), ("2", 0.301), ("any", 0.302))
]
ACCURACIES = {
    "ERM": {"x": MeasuredShare(0.9, 0.85, 0.95, 0.8), "y": MeasuredShare(0.3, 0.2, 0.4)},
    "CRO": {"x": MeasuredShare(0.7, 0.6, 0.8), "y": MeasuredShare(0.69, 0.6, 0.75)},
}
SHARES = {
    "a.b[c]": {"cat": MeasuredShare(0.9, 0.8, 0.95), "dog": MeasuredShare(0.125, 0.1, 0.2)},
    "y": {"cat": MeasuredShare(0.2, 0.1, 0.3), "dog": MeasuredShare(0.25, 0.2, 0.3)},
}
HEADS = {"CRO": (around(0.7, 0.02), around(0.6, 0.02)), "ERM": (around(0.9, 0.01), around(0.1, 0))}
PLACES = [
    PlacedDomain("a.b[c]", around(0.1, 0.01), {"CRO": around(0.7, 0.01)}),
    PlacedDomain("another", around(0.12, 0.01), {}),
    PlacedDomain("new", MeasuredShare(0.9, 0.8, 1.0), {}, is_new=True),
]
POINT = {"domain": "S", "stage": "last head", "source": 0.1, "target": 0.2}
SPECS = {
    "stress": radius_chart(CURVES, "accuracy (%)", head_looks(CURVES), (0, 100)),
    "frontier": frontier_chart(FRONTIER, "prior shift", "worst mixture"),
    "game": game_chart([1.5, 0.6], [0.2, 0.6], "risk"),
    "accuracies": accuracy_chart(ACCURACIES),
    "radius": radius_chart(CURVES, "accuracy (%)", head_looks(CURVES)),
    "labels": labels_chart({"adapt": {0: 0.7, 10: 0.8, 1000: 0.9}, "a.b[c]": {10: 0.6}}),
    "seconds": seconds_chart({"local": {1000: 0.9, 10**7: 157.0}, "a.b[c]": {10**6: 24.0}}),
    "risks": risks_chart([POINT], head_looks(["S"])),
    "ranks": ranks_chart({"S": [(8, 0.1), (1, 0.2)]}, head_looks(["S"])),
    "shares": share_chart(SHARES["y"], "group 1"),
    "slopes": slope_chart(SHARES, "share of end A (%)"),
    "prevalence": prevalence_chart(HEADS, PLACES, 50, "group 1"),
    "bands": band_chart({"a.b[c]": [(1, 0.5, 0.4, 0.6), (3, 0.2, 0, 1)]}, "%", {3: "x"}, 0.7),
    "lengths": lengths_chart({"S": {2: 0.25, 4: 0.75}}, head_looks(["S"])),
}


@pytest.mark.parametrize("name", SPECS)
def test_vega_lite_draws_it_in_the_colours_of_the_page(name: str) -> None:
    spec = SPECS[name] | {"width": 500}
    assert vl_convert.vegalite_to_svg(spec).startswith("<svg")
    assert "#" not in str(SPECS[name]), "a colour that no theme changes"


def test_charts_hold_what_they_say_and_a_head_has_one_colour() -> None:
    rule = SPECS["stress"]["layer"][-1]
    assert rule["data"]["values"][-1] == {"radius": 4, "v0": 18.0, "v1": 14.0, "v2": 10.0}
    titles = [entry["title"] for entry in rule["encoding"]["tooltip"]]
    assert titles == ["radius (nats)", "ERM (%)", "CRO (%)", "a.b[c] (%)"]
    values = {(v["series"], v["place"]): v for v in SPECS["accuracies"]["data"]["values"]}
    shown = values["ERM", "x"]
    assert (shown["low"], shown["value"], shown["high"], shown["bound"]) == (85, 90, 95, 80)
    assert "bound" not in values["CRO", "y"]
    labels = [value["label"] for value in SPECS["frontier"]["data"]["values"]]
    assert labels == ["0", "1, 2, any", "", ""]
    stress, accuracies, radius = (_colours(SPECS[k]) for k in ("stress", "accuracies", "radius"))
    for head in ("ERM", "CRO"):
        assert stress[head] == accuracies[head] == radius[head]
    assert len(set(stress.values())) == 3


def test_slopes_are_percentages_by_source_and_class() -> None:
    found = {(v["source"], v["class"]): v["share"] for v in SPECS["slopes"]["data"]["values"]}
    assert found["a.b[c]", "cat"] == 90 and found["a.b[c]", "dog"] == 12.5
    low, high = SPECS["slopes"]["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert 0 < low < 10 and 95 < high <= 100  # fits the intervals


def test_only_two_classes_are_joined_by_lines_and_no_mark_hides_another() -> None:
    marks = [each["mark"]["type"] for each in SPECS["slopes"]["layer"]]
    assert marks == ["line", "rule", "point"]
    names = [f"class {i}" for i in range(7)]
    many = slope_chart({s: dict.fromkeys(names, around(0.5, 0.1)) for s in "ab"}, "share (%)")
    assert [each["mark"]["type"] for each in many["layer"]] == ["rule", "point"]
    for chart in (SPECS["slopes"], many):
        assert all(each["encoding"]["xOffset"]["field"] == "source" for each in chart["layer"])
    assert not many["layer"][0]["encoding"]["x"]["axis"]["labelOverlap"]  # no name is left out


def test_the_ends_of_a_line_are_the_groups_and_names_near_each_other_are_stacked() -> None:
    spec = SPECS["prevalence"]
    ends = {(v["head"], v["share"]): v["accuracy"] for v in spec["data"]["values"]}
    assert ends == {("CRO", 0): 70, ("CRO", 100): 60, ("ERM", 0): 90, ("ERM", 100): 10}
    names = [each for each in spec["layer"] if each["mark"]["type"] == "text"]
    heights = {n["data"]["values"][0]["label"]: n["encoding"]["y"]["value"] for n in names}
    assert heights["a.b[c]"] == heights["new"] != heights["another"]
    assert spec["params"] == [{"name": "prevalence", "value": 50}]


def _colours(spec: dict[str, Any]) -> dict[str, str]:
    scale = spec["layer"][-1]["encoding"].get("color") or spec["layer"][0]["encoding"]["color"]
    return dict(zip(scale["scale"]["domain"], scale["scale"]["range"], strict=True))
