"""Pictures of a sweep: what they draw, and what is refused."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from regraft.bench.paper import figures
from regraft.bench.paper.benchmark import COLORED_MNIST, IMAGE_BENCHMARKS
from regraft.bench.paper.experiment import RANKS
from regraft.support.pictures import PALETTE
from tests.helpers.errors import refused
from tests.helpers.figure_checks import check_texts, draw, legend, marks, written

pytest.importorskip("vl_convert")

PACS = IMAGE_BENCHMARKS["pacs"]


def run(env: int, rounds: int) -> dict[str, Any]:
    checkpoints = [
        {"step": step, "source_risk": 0.1 + step / 50, "target_risk": 0.9 - step / 10}
        for step in range(rounds + 1)
    ]
    return {"args": {"test_envs": [env]}, "checkpoints": checkpoints, "rounds": rounds}


RECORDS = [run(env, rounds) for env in range(3) for rounds in (0, 2, 2, 4 + env)]
CURVES = {
    label: {env: [(128, 0.9), (1, 0.3), (113, 0.25)] for env in (0, 2)}
    for label in ("one reading", "another")
}
LABEL = "CRO, free, relabelled (regraft, preset paper)"
EVERY_RANK = {LABEL: {env: [(rank, 1 - 0.1 * env) for rank in RANKS] for env in range(3)}}
DRAWINGS = {
    "checkpoints": partial(figures.draw_checkpoints, RECORDS),
    "PACS": partial(figures.draw_checkpoints, [run(env, 3) for env in range(4)], PACS),
    "one run": partial(figures.draw_checkpoints, [run(3, 0)], PACS),
    "ranks": partial(figures.draw_ranks, CURVES),
    "all ranks": partial(figures.draw_ranks, EVERY_RANK),
    "rounds": partial(figures.draw_rounds, RECORDS),
}


def sets(figure: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The rows behind each panel."""
    return [panel["data"]["values"] for panel in figure.get("hconcat", [figure])]


@pytest.mark.parametrize("name", DRAWINGS)
def test_no_text_overlaps_or_is_cut_off_and_a_second_call_draws_the_same(name: str) -> None:
    figure = DRAWINGS[name]()
    check_texts(figure)
    assert DRAWINGS[name]() == figure


def test_every_checkpoint_is_drawn_once_and_in_view() -> None:
    figure = figures.draw_checkpoints(iter(RECORDS))
    every, last = sets(figure)
    total = sum(len(run["checkpoints"]) for run in RECORDS)
    drawn = [item for item, *_ in marks(draw(figure), "symbol")]
    assert len(every) == total and len(drawn) == total + len(RECORDS) + len(legend(figure))
    stages = [point["stage"] for point in every]
    assert stages.count("ERM head (step 0)") == len(RECORDS)  # one step 0 a run
    assert stages.count("last head") == 3 * 3  # the runs that go beyond step 0
    hollow = [item for item in drawn if item.get("fill", "transparent") == "transparent"]
    assert len(hollow) == len(RECORDS) + 3 + 1  # of both panels and the legend
    final = [run["checkpoints"][-1] for run in RECORDS]
    assert [(p["source"], p["target"]) for p in last] == [
        (p["source_risk"], p["target_risk"]) for p in final
    ]
    assert legend(figure) == [
        *(f"{env} held out" for env in ("+90%", "+80%", "-90%")),
        *("ERM head (step 0)", "head in between", "last head"),
    ]
    figure = figures.draw_checkpoints([run(0, 4)])
    panels = figure["hconcat"]
    for panel in panels:
        line, *layers = panel["layer"]
        ends = [layers[0]["encoding"][axis]["scale"]["domain"] for axis in "xy"]
        for point in panel["data"]["values"]:
            for (low, high), key in zip(ends, ("source", "target"), strict=True):
                assert low < point[key] < high
        assert all(end["source"] == end["target"] for end in line["data"]["values"])
    assert panels[0]["width"] == panels[0]["height"]
    assert panels[0]["layer"][0]["data"]["values"] == [
        {"source": end, "target": end}
        for end in panels[0]["layer"][1]["encoding"]["x"]["scale"]["domain"]
    ]


def test_the_benchmark_decides_names_and_figures() -> None:
    figure = figures.draw_checkpoints([run(3, 1), run(0, 1)], PACS)
    assert legend(figure)[:2] == ["A held out", "S held out"]
    assert figure["title"]["text"].startswith("PACS: ")
    whole = figures.sweep_figures(COLORED_MNIST, RECORDS, CURVES)
    assert list(whole) == ["checkpoints", "ranks", "rounds"]
    assert list(figures.sweep_figures(COLORED_MNIST, RECORDS, {"a": {}})) == [
        "checkpoints",
        "rounds",
    ]
    assert list(figures.sweep_figures(PACS, RECORDS, {"a": {}})) == ["checkpoints"]


def test_environments_are_told_apart_without_colours() -> None:
    for name in ("checkpoints", "all ranks", "rounds"):
        drawn = [item for item, *_ in marks(draw(DRAWINGS[name]()), "symbol")]
        colours = [str(item.get("stroke") or item.get("fill")) for item in drawn]
        shapes = {
            (colour, item.get("shape", "circle"))
            for colour, item in zip(colours, drawn, strict=True)
            if colour in PALETTE[:3]
        }
        assert len(shapes) == len({shape for _, shape in shapes}) == 3


def test_ranks_are_in_order_and_evenly_spaced() -> None:
    figure = figures.draw_ranks(CURVES)
    (values,) = sets(figure)
    assert len(values) == 4 * 3
    by_series: dict[str, list[Any]] = {}
    for value in values:
        by_series.setdefault(value["series"], []).append((value["rank"], value["risk"]))
    assert list(by_series.values()) == [[(1, 0.3), (113, 0.25), (128, 0.9)]] * 4
    texts = {each.text: each for each in written(figure)}
    middles = [(texts[r].left + texts[r].right) / 2 for r in ("1", "113", "128")]
    assert middles[1] - middles[0] == pytest.approx(middles[2] - middles[1], abs=1)
    looks = figure["layer"][0]["encoding"]
    assert len(set(looks["color"]["scale"]["range"])) == 2
    assert len({str(dash) for dash in looks["strokeDash"]["scale"]["range"]}) == 4
    assert legend(figure) == [
        f"{env} held out, {reading}" for reading in CURVES for env in ("+90%", "-90%")
    ]
    assert LABEL in {each.text for each in written(figures.draw_ranks(EVERY_RANK))}
    curves = {"a": {0: [(1, 0.2), (8, 0.3)]}, "b": {0: [(2, 0.4), (8, 0.5)]}}
    drawn = draw(figures.draw_ranks(curves))
    assert {item["text"] for item, *_ in marks(drawn, "text")} >= {"1", "2", "8"}
    places = sorted(x for item, x, _ in marks(drawn, "symbol") if item.get("size") == 70)
    assert len(places) == 4 and places[2] == places[3]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=1)


def test_rounds_are_shares_and_colours_follow_the_environment() -> None:
    figure = figures.draw_rounds(RECORDS)
    (values,) = sets(figure)
    for env, name in enumerate(("+90% held out", "+80% held out", "-90% held out")):
        shares = {v["rounds"]: v["share"] for v in values if v["series"] == name}
        assert shares == {0: 25, 2: 50, 4 + env: 25}
    assert {str(i) for i in range(7)} <= {each.text for each in written(figure)}
    bars = sorted((x, x + item["width"]) for item, x, _ in marks(draw(figure), "rect"))
    assert len(bars) == 9 and all(a[1] <= b[0] + 1e-9 for a, b in pairwise(bars))
    alone, among = (
        {item["fill"] for item, *_ in marks(draw(figures.draw_rounds(records)), "rect")}
        for records in ([run(2, 3)], RECORDS)
    )
    assert alone == {PALETTE[2]} and among == set(PALETTE[:3])


PAIR = run(0, 1) | {"args": {"test_envs": [0, 1]}}


@pytest.mark.parametrize(
    "call",
    [
        partial(figures.draw_checkpoints, []),
        partial(figures.draw_rounds, [PAIR]),
        partial(figures.draw_ranks, {}),
        partial(figures.draw_ranks, {"a": {}}),
        partial(figures.draw_ranks, {"a": {0: []}}),
    ],
)
def test_nothing_to_draw_is_one_sentence(call: Callable[[], Any]) -> None:
    with refused("to draw"):
        call()
