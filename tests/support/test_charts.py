"""Charts as data: what they hold, and that Vega-Lite itself accepts them without a complaint."""

from typing import Any

import pytest

from regraft.support.band_chart import band_chart
from regraft.support.charts import (
    accuracies_chart,
    frontier_chart,
    game_chart,
    group_accuracy_chart,
    labels_chart,
    lengths_chart,
    radius_chart,
    ranks_chart,
    risks_chart,
    shares_chart,
)
from regraft.support.looks import head_looks

vl_convert = pytest.importorskip("vl_convert")

NAMES = {"ERM": 0.9, "CRO": 0.7, "a.b[c]": 0.5}
CURVES = {name: {r: top / (1 + r) for r in (0.0, 1.0, 4.0)} for name, top in NAMES.items()}
FRONTIER = [
    (label, 0.9 - d, 0.2 + d) for label, d in (("0", 0), ("1", 0.3), ("2", 0.301), ("any", 0.302))
]
GROUPS = {
    head: [("group 0", right, right - 0.05), ("source a", 0.8, 0.7)]
    for head, right in (("ERM", 0.3), ("CRO", 0.7))
}
ACCURACIES = {"ERM": {"x": 0.9, "y": 0.1}, "CRO": {"x": 0.7, "y": 0.69}}
POINT = {"domain": "S", "stage": "last head", "source": 0.1, "target": 0.2}
SPECS = {
    "stress": radius_chart(CURVES, "accuracy (%)", head_looks(CURVES), (0, 100)),
    "frontier": frontier_chart(FRONTIER, "prior shift", "worst mixture"),
    "groups": group_accuracy_chart(GROUPS),
    "game": game_chart([1.5, 0.6], [0.2, 0.6], "risk"),
    "accuracies": accuracies_chart(ACCURACIES),
    "radius": radius_chart(CURVES, "accuracy (%)", head_looks(CURVES)),
    "labels": labels_chart({"adapt": {0: 0.7, 10: 0.8, 1000: 0.9}, "a.b[c]": {10: 0.6}}),
    "risks": risks_chart([POINT], head_looks(["S"])),
    "ranks": ranks_chart({"S": [(8, 0.1), (1, 0.2)]}, head_looks(["S"])),
    "shares": shares_chart({"a.b[c]": {"x": 0.9, "y": 0.1}, "dog": {"x": 0.2, "y": 0.25}}),
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
    values = SPECS["accuracies"]["data"]["values"]
    assert {(v["head"], v["domain"]) for v in values if v["worst"]} == {("ERM", "y"), ("CRO", "y")}
    labels = [value["label"] for value in SPECS["frontier"]["data"]["values"]]
    assert labels == ["0", "1, 2, any", "", ""]
    stress, accuracies, radius = (_colours(SPECS[k]) for k in ("stress", "accuracies", "radius"))
    for head in ("ERM", "CRO"):
        assert stress[head] == accuracies[head] == radius[head]
    assert len(set(stress.values())) == 3


def test_shares_are_percentages_by_source_and_class() -> None:
    spec = shares_chart({"cat": {"x": 0.9, "y": 0.125}, "dog": {"x": 0.2, "y": 0.25}})
    found = {(v["label"], v["source"]): v["share"] for v in spec["data"]["values"]}
    assert found == {("cat", "x"): 90, ("cat", "y"): 12.5, ("dog", "x"): 20, ("dog", "y"): 25}


def _colours(spec: dict[str, Any]) -> dict[str, str]:
    scale = spec["layer"][-1]["encoding"].get("color") or spec["layer"][0]["encoding"]["color"]
    return dict(zip(scale["scale"]["domain"], scale["scale"]["range"], strict=True))
