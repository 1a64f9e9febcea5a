"""Pictures: the same bytes every time, text that stays text, fixed colours."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from regraft.support.charts import Spec, game_chart, radius_chart, risks_chart
from regraft.support.looks import head_looks, look
from regraft.support.pictures import (
    FORMATS,
    PALETTE,
    panels,
    picture,
    write_figure,
    write_picture,
    write_result,
)
from tests.helpers.commands import run_apart
from tests.helpers.figure_checks import check_texts, legend, written
from tests.helpers.paths import ROOT

pytest.importorskip("vl_convert")

LINES = {name: {0.0: 0.9, 4.0: 0.5 - i / 10} for i, name in enumerate(("ERM", "CRO", "var(--x)"))}
POINTS = [
    {"domain": "a", "stage": stage, "source": 0.1 * i, "target": 0.9 - 0.1 * i}
    for i, stage in enumerate(("ERM head (step 0)", "head in between", "last head"))
]


def lines(heads: dict[str, dict[float, float]]) -> Spec:
    return radius_chart(heads, "worst-case accuracy (%)", head_looks(heads))


def beside() -> dict[str, Any]:
    """Two panels, with dashes, and with hollow marks, which make a PDF hard to repeat."""
    looks = {"a": look(0), "b": look(1)}
    charts = {"One": risks_chart(POINTS, looks, (0, 1)), "Other": risks_chart(POINTS, looks)}
    return panels(charts, (300, 300), "Both", "together")


@pytest.mark.parametrize("kind", FORMATS)
def test_the_same_picture_has_the_same_bytes(tmp_path: Path, kind: str) -> None:
    files = [tmp_path / f"{i}.{kind}" for i in range(8)]
    for file in files:
        write_picture(beside(), file)
    assert len({file.read_bytes() for file in files}) == 1


PROGRAM = """
import json, sys
from hashlib import sha256
from pathlib import Path
from tests.support.test_pictures import beside, write_figure
files = write_figure(beside(), Path(sys.argv[1]))
print(json.dumps([sha256(file.read_bytes()).hexdigest() for file in files]))
"""


def test_another_process_writes_the_same_bytes(tmp_path: Path) -> None:
    ran = run_apart(tmp_path / "there", code=PROGRAM, path=[ROOT], PYTHONHASHSEED="7")
    here = write_figure(beside(), tmp_path / "here")
    assert json.loads(ran.out) == [sha256(file.read_bytes()).hexdigest() for file in here]
    assert ran.err == ""


def test_what_the_formats_hold(tmp_path: Path) -> None:
    figure = picture(lines(LINES), "A title", "and what it says")
    png, svg, pdf = write_figure(figure, tmp_path / "new" / "v1.5")
    assert [file.name for file in (png, svg, pdf)] == ["v1.5.png", "v1.5.svg", "v1.5.pdf"]
    content = png.read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = (int.from_bytes(content[i : i + 4], "big") for i in (16, 20))
    assert (width, height) == (1050, 630)
    text = svg.read_text()
    for word in ("A title", "and what it says", "CRO", "worst-case accuracy (%)", "0", "4"):
        assert f">{word}</text>" in text
    document = pdf.read_bytes()
    assert document.startswith(b"%PDF") and b"CreationDate" not in document
    assert b"/FontFile2" in document and b"/Type3" not in document  # TrueType, embedded
    assert b"LiberationSans" in document  # the one that vl-convert brings, on every machine
    assert [path.name for path in write_figure(figure, tmp_path / "x", ("svg",))] == ["x.svg"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "x.svg"]


def test_colours_are_fixed_and_nothing_waits_for_a_mouse(tmp_path: Path) -> None:
    figure = picture(lines(LINES), "A title")
    assert "params" not in json.dumps(figure)
    (path,) = write_figure(figure, tmp_path / "x", ("svg",))
    text = path.read_text()
    assert "var(--x)" in text  # a name in the data
    assert "var(--" not in text.replace("var(--x)", "")
    assert all(colour in text for colour in PALETTE[:3])
    assert '<rect width="700" height="420" fill="white"/>' in text


def test_panels_share_a_legend_and_the_chart_stays_as_it_was() -> None:
    chart = lines(LINES)
    before = json.dumps(chart)
    picture(chart, "A title")
    panels({"One": chart}, (300,))
    assert json.dumps(chart) == before
    texts = [each.text for each in written(beside())]
    assert {"Both", "together", "One", "Other"} <= set(texts)
    assert legend(beside()) == ["a", "b", "ERM head (step 0)", "head in between", "last head"]


@pytest.mark.parametrize("n", [1, 7, 20])
def test_a_legend_of_many_names_fits(n: int) -> None:
    heads = {f"a rather long name of head {i}": {0.0: 0.5, 1.0: 0.4} for i in range(n)}
    figure = picture(lines(heads), "A title")
    check_texts(figure)
    assert legend(figure) == list(heads)


def test_overlaps_and_cuts_are_noticed() -> None:
    figure = picture(game_chart([1.0, 2.0], [0.5, 0.7], "risk"), "A title")
    check_texts(figure)
    long = {**figure, "title": {"text": "A title of which nobody sees the end " * 4}}
    with pytest.raises(AssertionError, match="cut off"):
        check_texts(long)
    figure["layer"].append(
        {"mark": {"type": "text", "x": 100, "y": 100}, "encoding": {"text": {"value": "on top"}}}
    )
    with pytest.raises(AssertionError, match="lies on"):  # once for each row of the data
        check_texts(figure)


def test_results_need_a_folder(tmp_path: Path) -> None:
    assert write_result(None, "r.json", {}, "r.png", Path.touch) == []
    files = write_result(tmp_path / "out", "r.json", {"a": 1}, "r.png", Path.touch)
    assert [file.name for file in files] == ["r.json", "r.png"]
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == ["r.json", "r.png"]
