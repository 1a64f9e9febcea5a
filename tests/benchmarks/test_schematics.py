"""The schematics: what is drawn is what the operator computes, and the graph is the paper's."""

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.text import Text
from numpy.typing import NDArray

from benchmarks import schematics
from regraft.core.transplant import kernel_condition

PLANE = schematics.example_transplant()
_SLACK = 1.0  # pixels


def written(figure: Any) -> list[Text]:
    """The texts that a reader of the figure sees."""
    with schematics.style():
        figure.draw_without_rendering()
    ticks: dict[Text, bool] = {}  # whether its place is in view
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True):
                ticks[label] = axes.axison and low <= place <= high
    return [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip() and ticks.get(text, True)
    ]


def check_texts(figure: Any) -> None:
    """Fail if two texts overlap or one is cut off."""
    boxes = [(text.get_text(), text.get_window_extent()) for text in written(figure)]
    page = figure.bbox.padded(_SLACK)
    for name, box in boxes:
        assert page.x0 <= box.x0 and box.x1 <= page.x1, f"{name!r} is cut off"
        assert page.y0 <= box.y0 and box.y1 <= page.y1, f"{name!r} is cut off"
    for (name, box), (other, its) in combinations(boxes, 2):
        assert not box.padded(-_SLACK).overlaps(its.padded(-_SLACK)), f"{name!r} lies on {other!r}"


@pytest.fixture(scope="module")
def transplant() -> Any:
    return schematics.draw_transplant()


@pytest.fixture(scope="module")
def graph() -> Any:
    return schematics.draw_causal_graph()


def places(figure: Any, panel: int, gid: str) -> NDArray[np.float64]:
    """The points drawn under this name."""
    (found,) = [c for c in figure.axes[panel].collections if c.get_gid() == gid]
    return np.asarray(found.get_offsets())


def test_the_basis_is_one() -> None:
    operator, deduction = PLANE.operator, PLANE.deduction
    assert kernel_condition([operator.source, operator.target], deduction).holds
    basis, source, target, shared = (
        matrix.numpy() for matrix in (operator.basis, operator.source, operator.target, deduction)
    )
    assert basis.shape == (2, 1)
    np.testing.assert_allclose([source.T @ basis, target.T @ basis], 1, atol=1e-12)
    np.testing.assert_allclose(shared.T @ basis, 0, atol=1e-12)
    assert not np.allclose(source, target)


def test_the_drawn_points_are_transplanted_and_keep_both_readings(transplant: Any) -> None:
    before, after = places(transplant, 0, "points"), places(transplant, 0, "moved")
    basis, source, target = (
        matrix.numpy()
        for matrix in (PLANE.operator.basis, PLANE.operator.source, PLANE.operator.target)
    )
    T = np.eye(2) + basis @ (source.T - target.T)
    assert len(before) == 6
    np.testing.assert_allclose(after, [T @ point for point in before], atol=1e-12)
    np.testing.assert_allclose(before, PLANE.points.numpy(), atol=1e-12)
    np.testing.assert_allclose(after, PLANE.moved.numpy(), atol=1e-12)
    source, target = PLANE.operator.source.numpy(), PLANE.operator.target.numpy()
    deduction = PLANE.deduction.numpy()
    np.testing.assert_allclose(after @ target, before @ source, atol=1e-12)
    np.testing.assert_allclose(after @ deduction, before @ deduction, atol=1e-12)
    # Every point moves, and without moving the other abduction would read something else.
    assert (np.abs(after - before).max(axis=1) > 0.5).all()
    assert (np.abs(before @ target - before @ source) > 0.5).all()
    before, after, unmoved = (
        places(transplant, 1, gid) for gid in ("read-before", "read-after", "read-unmoved")
    )
    np.testing.assert_allclose(before, after, atol=1e-12)
    points = places(transplant, 0, "points")
    np.testing.assert_allclose(before[:, :1], points @ PLANE.operator.source.numpy(), atol=1e-12)
    np.testing.assert_allclose(before[:, 1:], points @ PLANE.deduction.numpy(), atol=1e-12)
    np.testing.assert_allclose(unmoved[:, :1], points @ PLANE.operator.target.numpy(), atol=1e-12)
    np.testing.assert_allclose(unmoved[:, 1], before[:, 1], atol=1e-12)


def test_points_lie_on_the_level_lines_that_are_drawn(transplant: Any) -> None:
    axes = transplant.axes[0]
    lines = {tuple(line.get_xydata().ravel()) for line in axes.lines if len(line.get_xdata()) == 2}

    def on_a_line(point: NDArray[np.float64]) -> int:
        def misses(ends: tuple[float, ...]) -> float:
            (x0, y0), (x1, y1) = ends[:2], ends[2:]
            return abs((x1 - x0) * (point[1] - y0) - (y1 - y0) * (point[0] - x0))

        slanted = [ends for ends in lines if ends[1] != ends[3]]
        return sum(misses(ends) < 1e-9 for ends in slanted)

    for gid in ("points", "moved"):
        assert all(on_a_line(point) == 1 for point in places(transplant, 0, gid))
    heights = {ends[1] for ends in lines if ends[1] == ends[3]}
    assert heights == set(places(transplant, 0, "points")[:, 1])  # D is the second coordinate


def test_the_causal_graph_has_the_papers_edges(graph: Any) -> None:
    patches = {patch.get_gid(): patch for patch in graph.axes[0].patches}
    edges = {gid: patch.get_linestyle() for gid, patch in patches.items() if "edge" in gid}
    dashed, solid = "--", "-"
    assert edges == {
        "edge-U-X": dashed, "edge-U-Y": dashed, "edge-X-Y": solid, "edge-s-X": solid,
    }  # fmt: skip
    nodes = {name: patches[f"node-{name}"].get_linestyle() for name in ("U", "X", "Y")}
    assert nodes == {"U": dashed, "X": solid, "Y": solid}  # what is dashed, nobody observes
    for gid in edges:
        _, cause, effect = gid.split("-")
        start, end = patches[gid]._posA_posB
        assert patches[f"node-{cause}"].contains_point(graph.axes[0].transData.transform(start))
        assert patches[f"node-{effect}"].contains_point(graph.axes[0].transData.transform(end))
    texts = " ".join(text.get_text() for text in written(graph))
    assert r"prior $\pi_s(U)$" in texts and "the same $f_Y(X, U)$\nin all domains" in texts


@pytest.mark.parametrize("name", ["transplant", "graph"])
def test_no_text_overlaps_or_is_cut_off(name: str, request: pytest.FixtureRequest) -> None:
    check_texts(request.getfixturevalue(name))


def test_the_same_bytes_every_time_and_small_files(tmp_path: Path) -> None:
    draws = (schematics.draw_transplant, schematics.draw_causal_graph)
    for i, draw in enumerate(draws):
        first = schematics.write_schematic(draw(), tmp_path / f"{i}-0")
        with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path"}):  # the user's
            before = dict(matplotlib.rcParams)
            second = schematics.write_schematic(draw(), tmp_path / f"{i}-1")
            assert dict(matplotlib.rcParams) == before
        for a, b in zip(first, second, strict=True):
            assert a.read_bytes() == b.read_bytes() and a.stat().st_size < 150_000
        # Fonts that only matplotlib has would show other signs in a browser.
        assert set(fonts(first[1].read_text())) <= {"DejaVu Sans", "Verdana", "Arial"}


def fonts(svg: str) -> list[str]:
    styles = re.findall(r"font-family: ([^;\"]+)", svg)
    return [name for style in styles for name in re.findall(r"'([^']+)'", style)]
