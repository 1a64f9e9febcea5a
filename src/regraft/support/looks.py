"""Colours, shapes and dashes of what a chart shows. Any two differ without their colours, too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

# CSS variables: a page's theme sets them, and pictures have fixed colours for them.
COLOURS = tuple(f"var(--series-{i})" for i in range(1, 7))
INK, SOFT, FAINT = "var(--ink)", "var(--soft)", "var(--rule)"  # text; remarks; axes and grids
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
_DASHES = ((1, 0), (6, 3), (2, 2), (8, 2, 2, 2), (4, 1), (1, 3))
# Numbers of the known heads' looks; 6 and 7 have the colours of CRO and ERM again.
HEADS = {
    **{"CRO": 0, "ERM": 1, "GroupDRO": 2, "V-REx": 3, "IRM": 4},
    **{"JTT": 5, "EIIL": 8, "XRM": 9, "CRO hull": 10},
}


_PLAIN_NAMES = {"robust model": "CRO", "ordinary model": "ERM"}


@dataclass(frozen=True)
class Look:
    """What one series has in every chart."""

    colour: str
    shape: str
    dashes: tuple[int, ...]


def look(number: int) -> Look:
    """Return the look of the series with this number; 36 differ, also without their colours."""
    turn = number // len(COLOURS)
    return Look(
        COLOURS[number % len(COLOURS)],
        _SHAPES[(number + turn) % len(_SHAPES)],
        _DASHES[(number + 2 * turn) % len(_DASHES)],
    )


def head_looks(names: Iterable[str]) -> dict[str, Look]:
    """Return a look for each head; CRO, ERM and the other known ones always have the same.

    What follows in brackets does not count: "CRO (defaults)" looks like "CRO". All other heads,
    also a second one of a known kind, get the first looks that are free.
    """
    names = list(names)
    numbers: dict[str, int] = {}
    for name in names:
        kind = name.partition(" (")[0]
        kind = _PLAIN_NAMES.get(kind, kind)
        if kind in HEADS and HEADS[kind] not in numbers.values():
            numbers[name] = HEADS[kind]
    free = (i for i in count() if i not in numbers.values())
    return {name: look(numbers[name] if name in numbers else next(free)) for name in names}
