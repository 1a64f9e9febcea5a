"""The chapter on the hidden factor: what it shows, and what it never lets onto the page."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft import abduct, make_confounded_domains
from regraft.estimators.abduction_ends import abduction_document, compare_columns, find_ends
from regraft.report import write_report
from regraft.report.abduction_chapter import abduction_chapter
from regraft.report.elements import Chart, Report, Section, Strip, StripColumns, Terms, Text
from regraft.report.factor_sections import describe_group, ends_section, tie_section
from regraft.report.writing import render
from regraft.support.table import Table
from regraft.support.thumbnails import encode_png

ATTACK = '"><script>alert(1)</script>'


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    data = make_confounded_domains(300, strengths=(0.9, 0.6), n_features=8, random_state=0)
    abduction = abduct(data.X, data.y, data.sample_domain)
    ends = find_ends(abduction, data.y, data.sample_domain, 3)
    ends = compare_columns(abduction, data.X, data.y, ends)
    document = abduction_document(abduction, ends) | {"rows": 600}
    plain: dict[str, Any] = json.loads(json.dumps(document))
    return plain


def with_rows(document: dict[str, Any], **fields: str) -> dict[str, Any]:
    """The same document, with these fields in every row."""
    copy: dict[str, Any] = json.loads(json.dumps(document))
    for ends in copy["ends"]:
        for end in ("last", "first"):
            for row in ends[end]["rows"]:
                row.update(fields)
    return copy


def strips(section: Section) -> list[Strip]:
    (columns,) = parts(section, StripColumns)
    return [strip for each in columns.strips.values() for strip in each]


def parts(section: Section, kind: type) -> list[Any]:
    return [part for part in section.parts if isinstance(part, kind)]


def test_the_answer_comes_first_and_the_evidence_after(found: dict[str, Any]) -> None:
    chapter = abduction_chapter(found)
    high, low = sorted((shares[-1] for shares in found["shares"]), reverse=True)
    assert "(2, with 600 rows)" in chapter.asked
    assert chapter.verdict.startswith("Yes: 2 groups") and chapter.figure is not None
    assert chapter.figure.number == f"{100 * high:.1f}%" and f"{100 * low:.1f}%" in str(chapter)
    ends, tie, sure = chapter.sections
    assert len(strips(ends)) == 4 and len(parts(ends, Table)) == 2
    assert strips(ends)[0].title.startswith("class 0: more in ")
    assert strips(ends)[0].lines[0].startswith("row ") and "column 1" in str(strips(ends))
    (chart,) = parts(tie, Chart)
    assert len(chart.spec["data"]["values"]) == 4
    assert all(v["low"] < v["share"] < v["high"] for v in chart.spec["data"]["values"])
    (table,) = parts(sure, Table)
    assert sure.folded and table.columns == ("source", "all rows", "0", "1")
    assert parts(sure, Text)[0].text == found["summary"]
    assert len(parts(sure, Terms)[0].terms) == 4


def test_an_end_is_the_same_thing_in_every_class(found: dict[str, Any]) -> None:
    first, second = found["alignment"]
    assert first > 0.8 and second < -0.8  # the factor predicts the label
    (columns,) = parts(ends_section(found), StripColumns)
    assert [strip.title.split(" in ")[0] for strip in columns.strips["End A"]] == [
        "class 0: more",
        "class 1: less",
    ]
    slopes = parts(tie_section(found), Chart)[0].spec["data"]["values"]
    shares = {(v["source"], v["class"]): v["share"] for v in slopes}
    assert all(abs(shares[s, "0"] - shares[s, "1"]) > 10 for s in found["domains"])
    unlike = found | {"alignment": [0.1, 0.2]}
    (columns,) = parts(ends_section(unlike), StripColumns)
    assert list(columns.strips) == ["Class 0", "Class 1"]
    said = "Group 1 is end A of class 0 and end B of class 1."
    assert describe_group(found) == said
    assert parts(abduction_chapter(found).sections[0], Text)[-1].text == said


def test_slopes_are_told_of_two_classes_only(found: dict[str, Any]) -> None:
    (text,) = parts(tie_section(found), Text)
    assert text.text.startswith("A line for each source: the steeper")
    three = json.loads(json.dumps(found))
    three["classes"].append("2")
    three["alignment"].append(1.0)
    three["ends"].append(three["ends"][0] | {"label": "2"})
    for name in ("class_shares", "class_share_errors"):
        three[name] = [[*each, each[0]] for each in three[name]]
    tie = tie_section(three)
    (text,), (chart,) = parts(tie, Text), parts(tie, Chart)
    assert "steep" not in text.text and "line" not in chart.title


def test_pictures_take_the_place_of_names(found: dict[str, Any]) -> None:
    picture = encode_png(np.zeros((2, 2, 3), np.uint8))
    chapter = abduction_chapter(with_rows(found, picture=picture, name=ATTACK, text=""))
    shown = strips(chapter.sections[0])
    assert all(len(strip.pictures) == 3 and not strip.lines for strip in shown)
    page = render(Report((chapter,), {}))
    assert page.count(f'<img src="data:image/png;base64,{picture}"') == 12
    assert ATTACK not in page and "&lt;script&gt;alert(1)" in page


def test_texts_are_escaped(found: dict[str, Any]) -> None:
    page = render(Report((abduction_chapter(with_rows(found, text=ATTACK)),), {}))
    assert page.count("<li>&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;</li>") == 12
    assert ATTACK not in page


@pytest.mark.parametrize("picture", [ATTACK, "http://example.org/a.png", "data:,x", "é"])
def test_an_address_is_no_picture(found: dict[str, Any], tmp_path: Path, picture: str) -> None:
    (tmp_path / "abduct.json").write_text(json.dumps(with_rows(found, picture=picture)))
    with pytest.raises(ValueError, match=r"abduct\.json is damaged or of another version"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_no_factor_and_doubts_are_told(found: dict[str, Any]) -> None:
    nothing = found | {"ends": [], "n_groups": 1, "summary": "No.", "warnings": ["One source."]}
    chapter = abduction_chapter(nothing)
    (sure,) = chapter.sections
    assert chapter.verdict == "No." and chapter.doubts == ("One source.",) and sure.folded
