"""Pictures of a sweep: what they draw, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_hex
from regraft.bench.paper.sweep import RANKS

from regraft.bench.paper import figures
from regraft.bench.paper.benchmark import COLORED_MNIST, IMAGE_BENCHMARKS
from regraft.support.drawing import FORMATS, look, write_figure
from tests.helpers.figure_checks import check_texts

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


def legend(figure: Any) -> set[str]:
    return {text.get_text() for text in figure.legends[0].get_texts()}


@pytest.mark.parametrize("name", DRAWINGS)
def test_no_text_overlaps_or_is_cut_off(name: str) -> None:
    check_texts(DRAWINGS[name]())


@pytest.mark.parametrize("name", ["checkpoints", "ranks", "rounds"])
def test_the_same_call_gives_the_same_bytes(tmp_path: Path, name: str) -> None:
    first, second = (write_figure(DRAWINGS[name](), tmp_path / str(i) / name) for i in range(2))
    assert [path.suffix.lstrip(".") for path in first] == list(FORMATS)
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes() and len(a.read_bytes()) > 10_000


def test_every_checkpoint_is_drawn_once_and_the_last_ones_twice() -> None:
    figure = figures.draw_checkpoints(iter(RECORDS))
    every, last = ([c for c in axes.collections if len(c.get_offsets())] for axes in figure.axes)
    total = sum(len(run["checkpoints"]) for run in RECORDS)
    assert sum(len(c.get_offsets()) for c in every) == total
    hollow = [c for c in every if not len(c.get_facecolors())]
    assert sum(len(c.get_offsets()) for c in hollow) == len(RECORDS)  # one step 0 a run
    assert all(x == pytest.approx(0.1) for c in hollow for x, _ in c.get_offsets())
    full = [c for c in every if len(c.get_facecolors()) and c.get_sizes()[0] > 20]
    assert sum(len(c.get_offsets()) for c in full) == 3 * 3  # the runs that go beyond step 0
    ends = sorted(tuple(place) for c in last for place in c.get_offsets().round(3).tolist())
    final = [run["checkpoints"][-1] for run in RECORDS]
    points = [(round(p["source_risk"], 3), round(p["target_risk"], 3)) for p in final]
    assert ends == sorted(points)
    assert legend(figure) == {
        "equal risks",
        *(f"{env} held out" for env in ("+90%", "+80%", "-90%")),
        *("ERM head (step 0)", "head in between", "last head"),
    }


def test_all_points_are_in_view_and_the_diagonal_is_one() -> None:
    figure = figures.draw_checkpoints([run(0, 4)])
    every, last = figure.axes
    assert every.get_xlim() == every.get_ylim() and every.get_aspect() == 1
    for axes in (every, last):
        (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
        for collection in axes.collections:
            for x, y in collection.get_offsets():
                assert x0 < x < x1 and y0 < y < y1
        (line,) = axes.lines
        assert line.get_slope() == 1 and tuple(line.get_xy1()) == (0, 0)


def test_the_benchmark_names_environments_and_title() -> None:
    figure = figures.draw_checkpoints([run(3, 1), run(0, 1)], PACS)
    assert {"A held out", "S held out"} < legend(figure)
    assert figure.axes[0].get_title("left").startswith("PACS: ")


def test_environments_are_told_apart_without_colours() -> None:
    figure = figures.draw_checkpoints(RECORDS)
    shapes = {
        to_hex(c.get_edgecolors()[0]): c.get_paths()[0].vertices.shape
        for c in figure.axes[0].collections
        if len(c.get_offsets()) and c.get_sizes()[0] > 20
    }
    assert len(set(shapes.values())) == len(shapes) == 3
    bars = figures.draw_rounds(RECORDS).axes[0].containers
    assert len({container[0].get_hatch() for container in bars}) == 3
    lines = figures.draw_ranks(EVERY_RANK).axes[0].lines
    assert len({line.get_marker() for line in lines if len(line.get_xdata())}) == 3


def test_ranks_are_in_order_and_evenly_spaced() -> None:
    figure = figures.draw_ranks(CURVES)
    (axes,) = figure.axes
    lines = [line for line in axes.lines if len(line.get_xdata())]
    assert len(lines) == 4
    assert all(tuple(line.get_xdata()) == (0, 1, 2) for line in lines)
    assert all(tuple(line.get_ydata()) == (0.3, 0.25, 0.9) for line in lines)
    assert len({line.get_color() for line in lines}) == 2
    assert len({line.get_linestyle() for line in lines}) == 2
    assert list(axes.get_xticks()) == [0, 1, 2]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "113", "128"]
    assert legend(figure) == {"+90% held out", "-90% held out"}
    readings = [text.get_text() for text in axes.get_legend().get_texts()]
    assert readings == ["one reading", "another"]


def test_ranks_that_a_curve_lacks_leave_their_place() -> None:
    curves = {"a": {0: [(1, 0.2), (8, 0.3)]}, "b": {0: [(2, 0.4), (8, 0.5)]}}
    lines = [line for line in figures.draw_ranks(curves).axes[0].lines if len(line.get_xdata())]
    assert [tuple(line.get_xdata()) for line in lines] == [(0, 2), (1, 2)]


@pytest.mark.parametrize("n_readings", [1, 4])
def test_the_legend_of_readings_hides_no_curve(n_readings: int) -> None:
    highest = {0: [(1, 1.0), (2, 1.0), (4, 1.0)]}
    figure = figures.draw_ranks({f"reading {i}": highest for i in range(n_readings)})
    (axes,) = figure.axes
    check_texts(figure)
    legend = axes.get_legend().get_window_extent()
    top = axes.transData.transform((0, 1.0))[1]
    assert all(text.get_window_extent().y0 > top for text in axes.get_legend().get_texts())
    assert legend.y1 <= axes.bbox.y1 + 1


def test_rounds_are_shares_of_each_environment() -> None:
    (axes,) = figures.draw_rounds(RECORDS).axes
    assert len(axes.containers) == 3
    for env, bars in enumerate(axes.containers):
        shares = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in bars}
        assert shares == {0: 25, 2: 50, 4 + env: 25}
    assert list(axes.get_xticks()) == list(range(7))
    spans = sorted((b.get_x(), b.get_x() + b.get_width()) for c in axes.containers for b in c)
    assert all(left[1] <= right[0] + 1e-9 for left, right in pairwise(spans))


def test_colours_follow_the_environment() -> None:
    drawn = figures.draw_rounds([run(2, 3)]), figures.draw_rounds(RECORDS)
    alone, among = (figure.axes[0].containers[-1][0].get_facecolor() for figure in drawn)
    assert alone == among and to_hex(alone).upper() == look(2).colour


def test_the_figures_of_a_benchmark() -> None:
    whole = figures.sweep_figures(COLORED_MNIST, RECORDS, CURVES)
    assert list(whole) == ["checkpoints", "ranks", "rounds"]
    assert list(figures.sweep_figures(COLORED_MNIST, RECORDS, {"a": {}})) == [
        "checkpoints",
        "rounds",
    ]
    assert list(figures.sweep_figures(PACS, RECORDS, {"a": {}})) == ["checkpoints"]


def test_nothing_to_draw_is_one_sentence() -> None:
    pair = run(0, 1)
    pair["args"]["test_envs"] = [0, 1]
    cases: list[Callable[[], Any]] = [
        lambda: figures.draw_checkpoints([]),
        lambda: figures.draw_rounds([pair]),
        lambda: figures.draw_ranks({}),
        lambda: figures.draw_ranks({"a": {}}),
        lambda: figures.draw_ranks({"a": {0: []}}),
    ]
    for draw in cases:
        with pytest.raises(ValueError, match="to draw") as caught:
            draw()
        assert str(caught.value).endswith(".") and ". " not in str(caught.value)
