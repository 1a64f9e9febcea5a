"""The demonstration, end to end on the shipped embeddings."""

import json
from pathlib import Path
from typing import Any

import pytest

import regraft.bench.demo
from regraft.bench.demo import AUDITED, CEILING, DemoResult, describe_demo, run_demo
from regraft.core.game import Round
from regraft.data.examples import load_demo_pixels
from regraft.estimators.abduction_ends import ClassEnds
from regraft.support.thumbnails import encode_png
from tests.helpers.commands import RunOnce, call

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def told() -> tuple[DemoResult, list[str], list[Round]]:
    steps: list[str] = []
    rounds: list[Round] = []
    result = run_demo("-90%", on_progress=steps.append, on_round=rounds.append)
    return result, steps, rounds


def test_the_unseen_domain_breaks_erm_and_not_cro_whatever_the_seed(told: Any) -> None:
    result: DemoResult = told[0]
    accuracy = {row.name: row.target_accuracy for row in result.rows}
    assert list(accuracy) == ["ERM", "GroupDRO", "V-REx", "IRM", "CRO"]
    assert accuracy["ERM"] < 0.15
    assert accuracy["CRO"] > 0.65
    assert accuracy["CRO"] > max(accuracy[name] for name in list(accuracy)[:-1]) + 0.2
    assert result.ceiling.name == CEILING
    assert abs(accuracy["CRO"] - result.ceiling.target_accuracy) < 0.03
    assert result.rows[0].source_accuracy > result.rows[-1].source_accuracy
    description = describe_demo("-90%")
    assert "90% of the images of +90%" in description and "-90%, has 10%" in description
    assert f"ERM {100 * result.audits['ERM'].accuracy:.1f}%" in result.verdict()
    certificate = result.certificate
    bound, choice, limits = certificate.paragraphs()
    assert (
        f"{certificate.risk_bound:.3f} nats" in bound
        and f"{certificate.accuracy_bound:.1%}" in bound
    )
    assert (
        accuracy["CRO"]
        >= certificate.accuracy_bound
        > 0.6
        > 0.1
        > certificate.pooled_accuracy_bound
    )
    assert choice.startswith("The head is the one that won the game")
    assert limits.startswith("Not certified")
    other = run_demo("-90%", seed=1)
    assert [row.by_source for row in other.rows] != [row.by_source for row in told[0].rows]
    for row in other.rows:
        assert row.source_accuracy == pytest.approx(sum(row.by_source.values()) / 2)


def test_steps_and_rounds_are_told_and_audits_show_who_holds(told: Any) -> None:
    result, steps, rounds = told
    assert steps == [
        *(f"fitting {row.name}" for row in result.rows),
        *(f"auditing {name}" for name in AUDITED),
    ]
    assert tuple(rounds) == result.certificate.rounds
    assert tuple(result.audits) == AUDITED
    worst = {name: audit.accuracy for name, audit in result.audits.items()}
    assert worst["ERM"] < worst["GroupDRO"] < 0.3 < worst["CRO"]


def test_the_hidden_factor_is_the_colour(told: Any) -> None:
    """Pictures of each end have one colour, which changes from class to class."""
    found = told[0].abduction
    pixels = load_demo_pixels("-90%")
    colour = dict(zip(pixels.row.tolist(), pixels.colour.tolist(), strict=True))
    images = dict(zip(pixels.row.tolist(), pixels.images, strict=True))
    seen = []
    for ends in map(ClassEnds.from_dict, found["ends"]):
        for end in (ends.last, ends.first):
            assert len(end.rows) == 6
            seen.append({colour[row.number - 1] for row in end.rows})
            assert all(row.picture == encode_png(images[row.number - 1]) for row in end.rows)
    assert seen in ([{1}, {0}, {0}, {1}], [{0}, {1}, {1}, {0}])
    shares = {name: own[-1] for name, own in zip(found["domains"], found["shares"], strict=True)}
    assert abs(shares["+80%"] - shares["+90%"]) == pytest.approx(0.1, abs=0.02)


def test_the_command_prints_one_document_and_writes_it(run_once: RunOnce) -> None:
    folder, ran = run_once("demo-of-the-other-cell", "demo", "--cell", "+90%", "--json")
    assert ran.code == 0
    document = json.loads(ran.out)
    assert document["target"] == "+90%" and document["sources"] == ["+80%", "-90%"]
    names = ["demo.json", "accuracy_by_group.png", "provenance.json"]
    assert document.pop("files") == [str(folder / name) for name in names]
    assert {entry.name for entry in folder.iterdir()} == set(names)
    assert json.loads((folder / "demo.json").read_text()) == document
    assert "round 1:" in ran.err
    price = document["ceiling"]["target_accuracy"] - document["rows"][-1]["target_accuracy"]
    assert price < 0.03


def test_the_command_tells_the_story_and_its_page_comes_again(
    run_once: RunOnce, told: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, ran = run_once("demo", "demo", "--html")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.index("A hidden factor was found") < ran.out.index("unseen -90%")
    for text in ("Colored MNIST", "round 1:", CEILING, "Certified:", "Not certified", "Next:"):
        assert text in ran.out
    assert str(folder / "accuracy_by_group.png") in ran.out
    table = ran.out[ran.out.index("unseen -90%") :]
    assert table.index("ERM") < table.index("CRO") < table.index(CEILING)
    monkeypatch.setattr(regraft.bench.demo, "run_demo", lambda *_, **__: told[0])  # the same again
    call(["demo", "--out", tmp_path, "--quiet"])
    plain, with_page = ((each / "demo.json").read_text() for each in (tmp_path, folder))
    assert plain == with_page
    call(["report", folder, "--out", tmp_path / "again.html", "--quiet"])
    assert (tmp_path / "again.html").read_text() == (folder / "report.html").read_text()
