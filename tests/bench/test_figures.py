"""Pictures of a sweep: what they draw, where they are written, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from regraft.bench import figures


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
PLOTS = [
    partial(figures.plot_checkpoints, RECORDS),
    partial(figures.plot_rank, CURVES),
    partial(figures.plot_rounds, RECORDS),
]
Plot = Callable[[Path], None]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that would be written."""
    caught: list[Any] = []
    monkeypatch.setattr(figures, "write_picture", lambda figure, path: caught.append(figure))
    return caught


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("plot", PLOTS, ids=["checkpoints", "rank", "rounds"])
def test_pictures_are_written(tmp_path: Path, plot: Plot) -> None:
    path = tmp_path / "new" / "x.png"
    plot(path)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG") and len(content) > 10_000
    assert [entry.name for entry in path.parent.iterdir()] == ["x.png"]


@pytest.mark.parametrize("plot", PLOTS, ids=["checkpoints", "rank", "rounds"])
def test_an_unknown_picture_format_leaves_nothing(tmp_path: Path, plot: Plot) -> None:
    with pytest.raises(ValueError, match=r"use \.png, \.svg or \.pdf"):
        plot(tmp_path / "new" / "x.doc")
    assert list(tmp_path.iterdir()) == []


def test_every_checkpoint_is_drawn_once(drawn: list[Any]) -> None:
    figures.plot_checkpoints(iter(RECORDS), "x.png")
    (axes,) = drawn[0].axes
    points = [c for c in axes.collections if len(c.get_offsets())]
    total = sum(len(run["checkpoints"]) for run in RECORDS)
    assert sum(len(c.get_offsets()) for c in points) == total
    hollow = [c for c in points if not len(c.get_facecolors())]
    assert sum(len(c.get_offsets()) for c in hollow) == len(RECORDS)  # one step 0 a run
    assert all(x == pytest.approx(0.1) for c in hollow for x, _ in c.get_offsets())
    full = [c for c in points if len(c.get_facecolors()) and c.get_sizes()[0] > 10]
    assert sum(len(c.get_offsets()) for c in full) == 3 * 3  # the runs that go beyond step 0
    assert legend(drawn[0]) == [
        "equal risks",
        *(f"{env} held out" for env in ("+90%", "+80%", "-90%")),
        *("ERM head (step 0)", "head in between", "last head"),
    ]


def test_environments_can_be_named(drawn: list[Any]) -> None:
    figures.plot_checkpoints([run(3, 1), run(0, 1)], "x.png", ("A", "C", "P", "S"))
    assert legend(drawn[0])[1:3] == ["A held out", "S held out"]


def test_ranks_are_in_order_on_a_log_axis(drawn: list[Any]) -> None:
    figures.plot_rank(CURVES, "x.png")
    (axes,) = drawn[0].axes
    lines = [line for line in axes.lines if len(line.get_xdata())]
    assert len(lines) == 4
    assert all(tuple(line.get_xdata()) == (1, 113, 128) for line in lines)
    assert all(tuple(line.get_ydata()) == (0.3, 0.25, 0.9) for line in lines)
    assert len({line.get_color() for line in lines}) == 2
    assert len({line.get_linestyle() for line in lines}) == 2
    assert axes.get_xscale() == "log"
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == ["1", "2", "4", "8", "16", "32", "64", "113", "128"]
    assert legend(drawn[0]) == ["+90% held out", "-90% held out", "one reading", "another"]


def test_rounds_are_shares_of_each_environment(drawn: list[Any]) -> None:
    figures.plot_rounds(RECORDS, "x.png")
    (axes,) = drawn[0].axes
    assert len(axes.containers) == 3
    for env, bars in enumerate(axes.containers):
        shares = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in bars}
        assert shares == {0: 25, 2: 50, 4 + env: 25}
    assert list(axes.get_xticks()) == list(range(7))
    spans = sorted((b.get_x(), b.get_x() + b.get_width()) for c in axes.containers for b in c)
    assert all(left[1] <= right[0] + 1e-9 for left, right in pairwise(spans))


def test_colours_follow_the_environment(drawn: list[Any]) -> None:
    figures.plot_rounds([run(2, 3)], "x.png")
    figures.plot_rounds(RECORDS, "x.png")
    alone, among = (figure.axes[0].containers[-1][0].get_facecolor() for figure in drawn)
    assert alone == among


def test_nothing_to_draw_is_one_sentence(tmp_path: Path) -> None:
    pair = run(0, 1)
    pair["args"]["test_envs"] = [0, 1]
    cases: list[Callable[[], None]] = [
        lambda: figures.plot_checkpoints([], tmp_path / "x.png"),
        lambda: figures.plot_rounds([pair], tmp_path / "x.png"),
        lambda: figures.plot_rank({}, tmp_path / "x.png"),
        lambda: figures.plot_rank({"a": {0: []}}, tmp_path / "x.png"),
    ]
    for draw in cases:
        with pytest.raises(ValueError, match="to draw") as caught:
            draw()
        assert str(caught.value).endswith(".") and ". " not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
