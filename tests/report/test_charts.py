"""Charts as data: what they hold, and that Vega-Lite itself accepts them without a complaint."""

from __future__ import annotations

from typing import Any

import pytest

from regraft.core.game import Round
from regraft.estimators.audit import AuditCurve, AuditPoint, Frontier, FrontierPoint
from regraft.report.charts import (
    accuracies_chart,
    frontier_chart,
    radius_chart,
    risks_chart,
    rounds_chart,
    stress_chart,
)

vl_convert = pytest.importorskip("vl_convert")

CURVES = {
    name: AuditCurve(
        tuple(AuditPoint(r, 0.5, top / (1 + r), {"a": 1.0}, {"a": 1.0}, 100) for r in (0.0, 1, 4)),
        top,
    )
    for name, top in (("ERM", 0.9), ("CRO", 0.7), ("a.b[c]", 0.5))
}
FRONTIER = Frontier(
    tuple(
        FrontierPoint(r, 0.9 - d, 0.2 + d, 0.5)
        for r, d in ((0.0, 0), (1.0, 0.3), (2.0, 0.301), (8.0, 0.302))
    ),
    8.0,
)
ROUNDS = [Round(1.5, 0.2, 1e-6, (0.2,), 50.0), Round(0.6, 0.6, 1e-6, (0.6, 0.5), 50.0)]
ACCURACIES = {"ERM": {"x": 0.9, "y": 0.1}, "CRO": {"x": 0.7, "y": 0.69}}
SPECS = {
    "stress": stress_chart(CURVES),
    "frontier": frontier_chart(FRONTIER),
    "rounds": rounds_chart(ROUNDS, "risk"),
    "accuracies": accuracies_chart(ACCURACIES),
    "radius": radius_chart({"CRO": {1.0: 0.7, 2.0: 0.6}}, {"ERM": 0.5}, "accuracy (%)"),
    "risks": risks_chart(
        [{"domain": "S", "stage": "last head", "source": 0.1, "target": 0.2, "size": 20}], ["S"]
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_vega_lite_draws_it(name: str) -> None:
    spec = SPECS[name] | {"width": 500}
    assert vl_convert.vegalite_to_svg(spec).startswith("<svg")


@pytest.mark.parametrize("name", SPECS)
def test_colours_are_the_pages(name: str) -> None:
    assert "#" not in str(SPECS[name]), "a colour that no theme changes"


def test_the_stress_chart_tells_all_heads_at_the_nearest_radius() -> None:
    rule = SPECS["stress"]["layer"][-1]
    assert rule["data"]["values"][-1] == {"radius": 4, "v0": 18.0, "v1": 14.0, "v2": 10.0}
    titles = [entry["title"] for entry in rule["encoding"]["tooltip"]]
    assert titles == ["radius (nats)", "ERM (%)", "CRO (%)", "a.b[c] (%)"]


def _colours(spec: dict[str, Any]) -> dict[str, str]:
    scale = spec["layer"][-1]["encoding"].get("color") or spec["layer"][0]["encoding"]["color"]
    return dict(zip(scale["scale"]["domain"], scale["scale"]["range"], strict=True))


def test_a_head_has_one_colour_everywhere() -> None:
    stress, accuracies, radius = (_colours(SPECS[k]) for k in ("stress", "accuracies", "radius"))
    for head in ("ERM", "CRO"):
        assert stress[head] == accuracies[head] == radius[head]
    assert len(set(stress.values())) == 3


def test_rings_mark_the_worst_domain_of_each_head() -> None:
    values = SPECS["accuracies"]["data"]["values"]
    assert {(v["head"], v["domain"]) for v in values if v["worst"]} == {("ERM", "y"), ("CRO", "y")}


def test_points_that_coincide_share_a_label() -> None:
    labels = [value["label"] for value in SPECS["frontier"]["data"]["values"]]
    assert labels == ["0", "1, 2, 8", "", ""]
