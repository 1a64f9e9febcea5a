"""The one style: looks that stay apart, the same bytes every time, text that stays text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from numpy.typing import NDArray

from regraft.support.drawing import (
    COLOURS,
    FORMATS,
    head_looks,
    legend_below,
    look,
    new_figure,
    style,
    write_figure,
    write_picture,
)
from tests.helpers.paths import SOURCE

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
    seen = {colour: lightness_and_hue(colour, SIGHTS[sight]) for colour in (*COLOURS, "#FFFFFF")}
    distances = {
        pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]) for pair in combinations(seen, 2)
    }
    assert min(distances.values()) > 15, min(distances, key=distances.__getitem__)


def test_red_and_green_would_not() -> None:
    red, green = (lightness_and_hue(c, SIGHTS["deuteranopia"]) for c in ("#A03030", "#5A6A20"))
    assert np.linalg.norm(red - green) < 15


def test_looks_differ_without_their_colours() -> None:
    for field in ("marker", "dashes", "hatch"):
        assert len({getattr(look(i), field) for i in range(6)}) == 6
    assert len({look(i) for i in range(36)}) == 36
    assert [look(i).colour for i in range(7)] == [*COLOURS, COLOURS[0]]


def test_a_head_looks_the_same_in_all_company() -> None:
    for names in (["CRO"], ["ERM", "CRO"], ["ERM", "GroupDRO", "V-REx", "IRM", "CRO", "mine"]):
        looks = head_looks(names)
        assert list(looks) == names and looks["CRO"] == look(0)
        assert len(set(looks.values())) == len(names)
    assert head_looks(["CRO (defaults)"])["CRO (defaults)"] == look(0)
    assert head_looks(["IRM", "x", "ERM"])["IRM"] == head_looks(["IRM"])["IRM"]


def test_unknown_heads_get_looks_that_nobody_has() -> None:
    assert head_looks(["model"]) == {"model": look(0)}
    assert head_looks(["a", "ERM", "b"]) == {"a": look(0), "ERM": look(1), "b": look(2)}
    twice = head_looks(["CRO (radius 1)", "CRO (radius 8)"])
    assert list(twice.values()) == [look(0), look(1)]
    many = head_looks([f"head {i}" for i in range(20)])
    assert len(set(many.values())) == 20


@style()
def picture() -> Any:
    figure = new_figure()
    axes = figure.subplots()
    for i in range(3):
        axes.plot([0, 1, 2], [i, i + 1, i], look(i).marker, ls=look(i).dashes, label=f"line {i}")
        axes.bar([i], [1], hatch=look(i).hatch, color=look(i).colour)
    axes.set_title("A title with $A_s^{\\top}\\varphi(x)$")
    legend_below(figure, axes)
    return figure


@pytest.mark.parametrize("kind", FORMATS)
def test_the_same_picture_has_the_same_bytes(tmp_path: Path, kind: str) -> None:
    files = [tmp_path / f"{i}.{kind}" for i in range(3)]
    for file in files[:2]:
        write_picture(picture(), file)
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        write_picture(picture(), files[2])  # whatever the user's settings
        assert dict(matplotlib.rcParams) == before
    assert files[0].read_bytes() == files[1].read_bytes() == files[2].read_bytes()


PROGRAM = """
import json, sys
from hashlib import sha256
from pathlib import Path
from regraft.support.drawing import write_figure
from benchmarks.schematics import draw_causal_graph
files = write_figure(draw_causal_graph(), Path(sys.argv[1]))
digests = [sha256(file.read_bytes()).hexdigest() for file in files]
print(json.dumps([digests, "matplotlib.pyplot" in sys.modules]))
"""


def test_another_process_writes_the_same_bytes_without_pyplot(tmp_path: Path) -> None:
    from benchmarks.schematics import draw_causal_graph

    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "there")]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    digests, has_pyplot = json.loads(ran.stdout)
    here = write_figure(draw_causal_graph(), tmp_path / "here")
    assert digests == [sha256(file.read_bytes()).hexdigest() for file in here]
    assert not has_pyplot and ran.stderr == ""


def test_what_the_formats_hold(tmp_path: Path) -> None:
    png, svg, pdf = write_figure(picture(), tmp_path / "new" / "v1.5")
    assert [file.name for file in (png, svg, pdf)] == ["v1.5.png", "v1.5.svg", "v1.5.pdf"]
    content = png.read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = (int.from_bytes(content[i : i + 4], "big") for i in (16, 20))
    assert (width, height) == (7 * 150, 4.2 * 150)
    text = svg.read_text()
    assert ">line 1</text>" in text and "<dc:date>" not in text
    document = pdf.read_bytes()
    assert document.startswith(b"%PDF") and b"CreationDate" not in document
    assert b"/FontFile2" in document and b"/Type3" not in document  # TrueType, embedded
    assert [path.name for path in write_figure(picture(), tmp_path / "x", ("svg",))] == ["x.svg"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "x.svg"]


def test_legends_are_read_in_rows() -> None:
    with style():
        figure = new_figure()
        axes = figure.subplots()
        for i in range(7):
            axes.plot([], [], label=str(i))
        legend_below(figure, axes, columns=4)
        figure.draw_without_rendering()
    boxes = [(t.get_window_extent(), t.get_text()) for t in figure.legends[0].get_texts()]
    rows = sorted(boxes, key=lambda item: (-round(item[0].y0), item[0].x0))
    assert [text for _, text in rows] == ["0", "1", "2", "3", "4", "5", "6"]
