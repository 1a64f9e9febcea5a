"""The chapters on a new domain: the answer first, what is alien, and what labels are worth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft import CROClassifier, adapt, make_confounded_domains, place
from regraft.estimators.learning_curve import learning_curve
from regraft.estimators.placing import Placement
from regraft.report import write_report
from regraft.report.elements import Chapter, Chart, Slider, Strip, Text
from regraft.report.prevalence import ORDINARY, ROBUST
from regraft.report.target_chapters import adapt_chapter, place_chapter
from regraft.support.table import Table
from regraft.support.thumbnails import encode_png

DATA = make_confounded_domains(250, strengths=(0.9, 0.55), n_features=8, random_state=1)


@pytest.fixture(scope="module")
def model() -> CROClassifier:
    return CROClassifier().fit(DATA.X, DATA.y, DATA.sample_domain)


@pytest.fixture(scope="module")
def placed(model: CROClassifier) -> dict[str, Any]:
    placement = place(model, DATA.X_target)
    row = {"domain": "", "name": "", "text": "", "picture": ""}
    document = placement.to_dict() | {
        "summary": [*placement.paragraphs(), "It is expected to be good."],
        "alien": [{"number": i + 1, **row} for i in placement.alien_rows],
    }
    plain: dict[str, Any] = json.loads(json.dumps(document))
    return plain


@pytest.fixture(scope="module")
def adapted(model: CROClassifier) -> dict[str, Any]:
    rows = DATA.X_target, DATA.y_target
    curve = learning_curve(model, *rows, draws=1).to_dict()
    document = {"certificate": adapt(model, *rows).certificate_.to_dict(), "curve": curve}
    plain: dict[str, Any] = json.loads(json.dumps(document))
    return plain


def parts(chapter: Chapter, kind: type) -> list[Any]:
    return [part for each in chapter.sections for part in each.parts if isinstance(part, kind)]


def test_a_place_has_its_shares_and_its_alien_rows(placed: dict[str, Any]) -> None:
    chapter = place_chapter(placed)
    closure, place, accuracy = placed["summary"]
    assert "250 rows" in chapter.asked and chapter.verdict == f"{closure} {place}"
    (chart,), (table,), (strip,) = (parts(chapter, kind) for kind in (Chart, Table, Strip))
    assert len(table.rows) == 2 and table.columns[:2] == ("group", "new domain")
    marks = {v["place"]: v for v in chart.spec["data"]["values"]}
    assert len(marks) == 3 and chapter.figure is not None
    new = marks["new domain"]
    assert new["low"] < new["value"] < new["high"]
    assert strip.lines == tuple(f"row {row['number']}" for row in placed["alien"])
    assert Text(accuracy) in parts(chapter, Text)


def test_what_is_no_mixture_has_no_share_in_its_answer(
    model: CROClassifier, placed: dict[str, Any]
) -> None:
    document = placed | {"p_value": 1e-9, "model": json.loads(model.certificate_.to_json())}
    placement = Placement.from_dict(document)
    summary = [*placement.paragraphs(), "Nobody can tell."]
    chapter = place_chapter(document | {"summary": summary})
    assert chapter.figure is not None and chapter.figure.number == "Not a mixture"
    assert "not a mixture of what the sources hold" in chapter.verdict
    assert f"{placement.shares[-1]:.0%}" not in f"{chapter.verdict} {chapter.figure.meaning}"
    assert chapter.sections[0].title == "The rows least like the sources"
    (shares,) = (each for each in chapter.sections if each.title == "Which groups it mixes")
    assert shares.folded and shares.parts[0] == Text(summary[1])
    assert not parts(chapter, Slider)


def test_pictures_take_the_place_of_numbers(placed: dict[str, Any]) -> None:
    picture = encode_png(np.zeros((2, 2, 3), np.uint8))
    rows = [row | {"picture": picture, "name": "<b>"} for row in placed["alien"]]
    (strip,) = parts(place_chapter(placed | {"alien": rows}), Strip)
    assert len(strip.pictures) == len(rows) and not strip.lines
    assert strip.pictures[0].description == "<b> of the new domain"


def test_without_a_factor_there_are_no_shares(placed: dict[str, Any]) -> None:
    one = {"shares": [1.0], "lower": [1.0], "upper": [1.0], "source_shares": {"a": [1.0]}}
    chapter = place_chapter(placed | one)
    assert not parts(chapter, Table) and not parts(chapter, Chart)


def test_an_adaptation_begins_with_its_certificate(adapted: dict[str, Any]) -> None:
    chapter = adapt_chapter(adapted)
    assert chapter.verdict.startswith("Certified: ") and "250 of them with labels" in chapter.asked
    measured, curve, place = parts(chapter, Table)
    assert measured.rows[0][0] == "labels of the domain" and place.columns[0] == "group"
    heads, chart = parts(chapter, Chart)
    assert {v["series"] for v in heads.spec["data"]["values"]} == {"adapted", "before"}
    assert chart.description.startswith("With 100 labels: adapt ")
    assert [row[0] for row in curve.rows] == ["0", "10", "30", "100"]
    assert len(parts(adapt_chapter(adapted | {"curve": None}), Chart)) == 1


def test_a_placed_domain_is_marked_on_the_slider(
    model: CROClassifier, placed: dict[str, Any]
) -> None:
    with_model = placed | {"model": json.loads(model.certificate_.to_json())}
    (slider,) = parts(place_chapter(with_model), Slider)
    assert list(slider.lines) == [ROBUST, ORDINARY]
    groups = model.certificate_.groups
    start, end = slider.lines[ROBUST]
    assert start.value == groups[0].accuracy
    assert end.value == groups[1].accuracy
    assert "new domain" in str(slider.chart.spec)


def test_an_adapted_domain_is_marked_on_the_slider(
    model: CROClassifier, adapted: dict[str, Any]
) -> None:
    with_model = adapted | {"model": json.loads(model.certificate_.to_json())}
    (slider,) = parts(adapt_chapter(with_model), Slider)
    assert list(slider.lines) == [ROBUST, ORDINARY]
    shares = list(adapted["certificate"]["weights"].values())
    drawn = [layer["data"]["values"] for layer in slider.chart.spec["layer"] if "data" in layer]
    (new,) = {v["share"] for values in drawn for v in values if v.get("domain") == "new domain"}
    assert new == pytest.approx(100 * shares[-1], abs=0.01)
    refuted = with_model | {"certificate": adapted["certificate"] | {"p_value": 1e-9}}
    assert not parts(adapt_chapter(refuted), Slider)


def test_an_address_is_no_picture(placed: dict[str, Any], tmp_path: Path) -> None:
    rows = [row | {"picture": "http://example.org/a.png"} for row in placed["alien"]]
    (tmp_path / "place.json").write_text(json.dumps(placed | {"alien": rows}))
    with pytest.raises(ValueError, match=r"place\.json is damaged or of another version"):
        write_report(tmp_path)
