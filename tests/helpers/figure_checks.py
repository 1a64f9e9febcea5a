"""What holds for every figure: nothing that is written overlaps or leaves the page."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from matplotlib.text import Text

from regraft.support.drawing import style

_SLACK = 1.0  # pixels


def written(figure: Any) -> list[Text]:
    """The texts that a reader of the figure sees."""
    with style():
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
