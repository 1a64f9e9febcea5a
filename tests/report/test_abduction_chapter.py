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
from regraft.report.elements import Chart, Report, Section, Strip, Terms, Text
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


def parts(section: Section, kind: type) -> list[Any]:
    return [part for part in section.parts if isinstance(part, kind)]


def test_the_answer_comes_first_and_the_evidence_after(found: dict[str, Any]) -> None:
    chapter = abduction_chapter(found)
    high, low = sorted((shares[-1] for shares in found["shares"]), reverse=True)
    assert "(2, with 600 rows)" in chapter.asked
    assert f"{100 * high:.1f}% of the rows of source" in chapter.verdict
    assert f"{100 * low:.1f}% of source" in chapter.verdict
    ends, tie, sure = chapter.sections
    assert len(parts(ends, Strip)) == 4 and len(parts(ends, Table)) == 2
    assert parts(ends, Strip)[0].title.startswith("class 0: more in ")
    assert parts(ends, Strip)[0].lines[0].startswith("row ")
    assert parts(ends, Text)[0].text == found["summary"]
    (chart,), (table,) = parts(tie, Chart), parts(tie, Table)
    assert len(chart.spec["data"]["values"]) == 4 and table.columns == (
        "source",
        "all rows",
        "0",
        "1",
    )
    assert len(parts(sure, Terms)[0].terms) == 4


def test_pictures_take_the_place_of_names(found: dict[str, Any]) -> None:
    picture = encode_png(np.zeros((2, 2, 3), np.uint8))
    chapter = abduction_chapter(with_rows(found, picture=picture, name=ATTACK))
    strips = parts(chapter.sections[0], Strip)
    assert all(len(strip.pictures) == 3 and not strip.lines for strip in strips)
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
    assert chapter.verdict == "No." and parts(sure, Text) == [Text("One source.")]
