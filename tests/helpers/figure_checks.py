"""What holds for every picture of charts: nothing that is written overlaps or is cut off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pytest

_LETTER = 0.52  # of its size, for the mean letter of the font
_ACROSS = {"left": 0.0, "center": 0.5, "right": 1.0}
_DOWN = {"top": 0.0, "middle": 0.5, "bottom": 1.0, "alphabetic": 0.8}


@dataclass(frozen=True)
class Written:
    """A text in a picture, and the box that it fills at most."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Written) -> bool:
        return (
            self.left < other.right - 1
            and other.left < self.right - 1
            and self.top < other.bottom - 1
            and other.top < self.bottom - 1
        )


def draw(figure: dict[str, Any]) -> dict[str, Any]:
    """Lay a picture out: its size, and all that is drawn."""
    drawn: dict[str, Any] = pytest.importorskip("vl_convert").vegalite_to_scenegraph(figure)
    return drawn


def marks(drawn: dict[str, Any], kind: str) -> Iterator[tuple[dict[str, Any], float, float]]:
    """All items of this kind of mark, with their places in the picture."""

    def walk(mark: dict[str, Any], x: float, y: float) -> Iterator[tuple[Any, float, float]]:
        for item in mark["items"]:
            at = x + item.get("x", 0), y + item.get("y", 0)
            if mark["marktype"] == "group":
                for inner in item.get("items", ()):
                    yield from walk(inner, *at)
            elif mark["marktype"] == kind:
                yield item, *at

    yield from walk(drawn["scenegraph"], *drawn["origin"])


def written(figure: dict[str, Any]) -> list[Written]:
    """The texts that a reader sees."""
    return [_box(*found) for found in marks(draw(figure), "text") if found[0].get("text")]


def _box(item: dict[str, Any], x: float, y: float) -> Written:
    lines = item["text"] if isinstance(item["text"], list) else [item["text"]]
    size = item.get("fontSize", 11)
    width, height = _LETTER * size * max(map(len, lines)), size * len(lines)
    left = item.get("dx", 0) - width * _ACROSS[item.get("align", "left")]
    top = item.get("dy", 0) - height * _DOWN[item.get("baseline", "alphabetic")]
    if item.get("angle", 0) % 360 == 270:  # read upwards
        left, top, width, height = top, -left - width, height, width
    return Written(" ".join(lines), x + left, y + top, x + left + width, y + top + height)


def check_texts(figure: dict[str, Any]) -> None:
    """Fail if two texts overlap or one is cut off."""
    drawn = draw(figure)
    texts = written(figure)
    assert texts
    for each in texts:
        assert each.left > -1 and each.right < drawn["width"] + 1, f"{each} is cut off"
        assert each.top > -1 and each.bottom < drawn["height"] + 1, f"{each} is cut off"
        assert not each.text.endswith("…")
    for one, other in combinations(texts, 2):
        assert not one.overlaps(other), f"{one} lies on {other}"


def legend(figure: dict[str, Any]) -> list[str]:
    """The names in the legends."""
    texts = [*marks(draw(figure), "text")]
    return [item["text"] for item, *_ in texts if item.get("limit") == 0]
