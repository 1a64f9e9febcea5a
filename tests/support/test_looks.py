"""Looks that stay apart, for every kind of sight."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from regraft.support.looks import COLOURS, HEADS, head_looks, look
from regraft.support.pictures import PALETTE

# Machado, Oliveira and Fernandes (2009), full severity, for linear RGB.
SIGHTS = {
    "usual": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
)  # of sRGB, white at D65


def lightness_and_hue(colour: str, sight: list[list[float]]) -> NDArray[np.float64]:
    """CIELAB coordinates of a colour as somebody sees it."""
    srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(sight) @ linear, 0, 1)
    x, y, z = np.cbrt(np.maximum(TO_XYZ @ seen / TO_XYZ.sum(axis=1), 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHTS)
def test_colours_stay_apart_in_every_kind_of_sight(sight: str) -> None:
    seen = {colour: lightness_and_hue(colour, SIGHTS[sight]) for colour in (*PALETTE, "#FFFFFF")}
    distances = {
        pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]) for pair in combinations(seen, 2)
    }
    assert min(distances.values()) > 15, min(distances, key=distances.__getitem__)


def test_looks_differ_without_their_colours() -> None:
    for field in ("shape", "dashes"):
        assert len({getattr(look(i), field) for i in range(6)}) == 6
    assert len({(look(i).shape, look(i).dashes) for i in range(36)}) == 36
    assert [look(i).colour for i in range(7)] == [*COLOURS, COLOURS[0]]
    red, green = (lightness_and_hue(c, SIGHTS["deuteranopia"]) for c in ("#A03030", "#5A6A20"))
    assert np.linalg.norm(red - green) < 15


def test_heads_look_the_same_in_all_company_and_unlike_each_other() -> None:
    for names in (["CRO"], ["ERM", "CRO"], [*reversed(HEADS), "mine"]):
        looks = head_looks(names)
        assert list(looks) == names and looks["CRO"] == look(0)
        assert len(set(looks.values())) == len(names)
    assert head_looks(["CRO (defaults)"])["CRO (defaults)"] == look(0)
    assert head_looks(["IRM", "x", "ERM"])["IRM"] == head_looks(["IRM"])["IRM"]
    plain = head_looks(["robust model (CRO)", "ordinary model (ERM)"])
    assert list(plain.values()) == [look(0), look(1)]
    assert head_looks(["model"]) == {"model": look(0)}
    assert head_looks(["a", "ERM", "b"]) == {"a": look(0), "ERM": look(1), "b": look(2)}
    twice = head_looks(["CRO (radius 1)", "CRO (radius 8)"])
    assert list(twice.values()) == [look(0), look(1)]
    many = head_looks([f"head {i}" for i in range(20)])
    assert len(set(many.values())) == 20
