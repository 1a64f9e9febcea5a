"""Pictures of audits, frontiers and comparisons: what is drawn, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from regraft.estimators import plots
from regraft.estimators.audit import AuditCurve, AuditPoint
from regraft.estimators.compared_heads import compared_heads
from regraft.estimators.comparison import Comparison, ComparisonRow
from regraft.estimators.frontier import Frontier
from regraft.estimators.frontier_point import FrontierPoint
from regraft.support.pictures import PALETTE
from tests.helpers.figure_checks import check_texts, legend, written

pytest.importorskip("vl_convert")

CURVE = AuditCurve(tuple(AuditPoint(r, 0.5 + r, 0.8, {}, {}, 10.0) for r in (0.0, 1.0)), 0.8)
FRONTIER = Frontier(
    tuple(
        FrontierPoint(radius, source, worst, 1.0)
        for radius, source, worst in (
            (0.0, 0.86, 0.2), (0.5, 0.82, 0.38), (1.0, 0.75, 0.65), (2.0, 0.725, 0.69),
            (4.0, 0.724, 0.7), (8.0, 0.723, 0.71),
        )
    ),
    8.0,
)  # fmt: skip


def compare(radii: tuple[float, ...] = (0.5, 1.0, 8.0)) -> Comparison:
    """Heads whose accuracies all differ."""
    rows = [
        ComparisonRow(c.name, c.radius, {"a": 0.6, "b": 0.7}, 0.6 + i / 50, 0.5 + i / 50, "a",
            0.9 - i / 50, 0.0, 0.0, 1.0)
        for i, c in enumerate(compared_heads(radii))
    ]  # fmt: skip
    return Comparison(("a", "b"), tuple(rows), ())


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The pictures that would be written."""
    caught: list[Any] = []
    monkeypatch.setattr(plots, "write_picture", lambda figure, path: caught.append(figure))
    return caught


def scale(panel: dict[str, Any], channel: str) -> dict[str, Any]:
    """What each name has on this channel."""
    found = [
        layer["encoding"][channel]["scale"]
        for layer in panel["layer"]
        if channel in layer["encoding"]
    ]
    return dict(zip(found[0]["domain"], found[0]["range"], strict=True))


@pytest.mark.parametrize("name", ["x.png", "x.PNG", "x"])
def test_folders_are_made(tmp_path: Path, name: str) -> None:
    path = tmp_path / "new" / "deeper" / name
    CURVE.plot(str(path))
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [entry.name for entry in path.parent.iterdir()] == [name]


def test_an_unknown_format_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"use \.png, \.svg or \.pdf") as caught:
        CURVE.plot(str(tmp_path / "new" / "x.doc"))
    message = str(caught.value).replace(str(tmp_path), "")
    assert message.endswith(".") and ". " not in message and "\n" not in message
    assert list(tmp_path.iterdir()) == []


def test_no_text_overlaps_or_is_cut_off(drawn: list[Any]) -> None:
    plots.plot_audit({"ERM": CURVE, "GroupDRO": CURVE, "CRO": CURVE}, "x.png")
    plots.plot_frontier(FRONTIER, "x.png")
    plots.plot_comparison(compare(), "x.png")
    plots.plot_comparison(compare(()), "x.png")  # no radius was tried
    for figure in drawn:
        check_texts(figure)


def test_points_that_nearly_touch_share_a_label(drawn: list[Any]) -> None:
    same = Frontier(tuple(FrontierPoint(r, 0.7, 0.7, 1.0) for r in (0.0, 8.0)), 8.0)
    for frontier in (FRONTIER, same):
        plots.plot_frontier(frontier, "x.png")
    first, second = ([value["label"] for value in figure["data"]["values"]] for figure in drawn)
    assert first == ["0", "0.5", "1", "2, 4, 8", "", ""] and second == ["0, 8", ""]
    assert {"0", "0.5", "1", "2, 4, 8"} <= {each.text for each in written(drawn[0])}


def test_a_head_looks_the_same_in_every_picture(drawn: list[Any]) -> None:
    plots.plot_audit({"ERM": CURVE, "CRO": CURVE}, "x.png")
    plots.plot_audit({"CRO": CURVE}, "x.png")
    plots.plot_comparison(compare(), "x.png")
    both, alone, compared = (scale(figure.get("hconcat", [figure])[0], "color") for figure in drawn)
    assert both["CRO"] == alone["CRO"] == compared["CRO (defaults)"] == PALETTE[0]
    assert compared["CRO over the radius"] == PALETTE[0]
    assert both["ERM"] == compared["ERM"] != both["CRO"]


def test_the_lines_of_a_comparison_differ_without_their_colours(drawn: list[Any]) -> None:
    plots.plot_comparison(compare(), "x.png")
    for panel in drawn[0]["hconcat"]:
        shapes, dashes = (scale(panel, channel) for channel in ("shape", "strokeDash"))
        assert len({(str(shapes[name]), str(dashes[name])) for name in shapes}) == 10
    assert {"Unseen domains, average", "Worst unseen domain"} < {w.text for w in written(drawn[0])}
    assert len(legend(drawn[0])) == 10 and legend(drawn[0])[-1] == "CRO over the radius"
