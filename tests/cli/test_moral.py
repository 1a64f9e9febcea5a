"""``regraft moral run``: what it prints and writes, whose labels it names, and how it fails."""

import csv
import functools
import json
from collections import Counter
from pathlib import Path

import pytest

from regraft.moral.answers import ANSWERS, question_args
from regraft.moral.library import make_library
from regraft.moral.process import draw_records
from regraft.moral.prompts import Question
from regraft.moral.responses import describe_mechanism, response_probabilities
from regraft.moral.scenarios import TOPICS, read_library
from regraft.moral.values import PROFILES, profile_name
from regraft.support.records import Records
from tests.helpers.commands import MORAL, Run, RunOnce
from tests.helpers.small_library import write_scenarios

*_, RECORDS, _, PERMISSIVE = MORAL
MECHANISM = describe_mechanism(PERMISSIVE)
FILES = (
    "diagnosis.json",
    "diagnosis.md",
    "moral.json",
    "stress_curve.png",
    "moral.md",
    "records.csv",
    "provenance.json",
)
PANELS = "Pragmatist", "Idealist", "Centrist"


@pytest.fixture
def run(run: Run) -> Run:
    return functools.partial(run, "moral", "run")


@pytest.mark.slow
def test_words_and_files(run_once: RunOnce) -> None:
    out, ran = run_once("moral-page", *MORAL, "--html")
    assert ran.code == 0
    assert {entry.name for entry in out.iterdir()} == {*FILES, "report.html"}
    document = json.loads((out / "moral.json").read_text())
    assert all(table["title"] in ran.out for table in document["tables"])
    library = make_library()
    assert f"Scenarios: {library.origin}.\n{MECHANISM}\n" in ran.out
    assert "fitting ERM and CRO without the Centrist panel ..." in ran.out and "Written:" in ran.out
    for title in (
        "One record of each panel",
        "Factorization closure: held-out rows (paper)",
        "Numbers of the text",
        "Principal angles in degrees: ours (paper)",
        "Transplant basis: ours (paper)",
        "Without the Centrist panel, new records",
        "Unseen panels, in nats; hulls within 0.",
    ):
        assert title in ran.out
    for sentence in (*document["transfer"]["sentences"], *document["diagnosis"]["summary"]):
        assert sentence in ran.out
    assert "the paper's predictions are 0.215 apart." in ran.out
    for example in document["examples"]:
        assert f"{example['scenario']}: {example['text']}" in ran.out
    (angle,) = document["median_angles"].values()
    assert f"Median principal angle by records a panel: {angle:.1f}° at {RECORDS}." in ran.out
    assert "On scenarios that no map has seen: " + document["new_scenarios"]["sentence"] in ran.out
    assert document["labels"] == MECHANISM and document["scenarios"] == library.origin
    assert document["scenarios_sha256"] == library.checksum
    assert (document["encoder"], document["records"], document["seed"]) == ("hashed", RECORDS, 0)
    diagnosis = json.loads((out / "diagnosis.json").read_text())
    assert diagnosis.pop("run") == document["run"]
    assert diagnosis == document["diagnosis"] | {"tables": diagnosis["tables"]}
    text = (out / "moral.md").read_text()
    assert text.startswith(f"# Moral questions\n\n- Scenarios: {library.origin}.\n")
    assert f"- {MECHANISM}\n" in text and "| Centrist vs. Idealist |" in text
    assert all(f"- {sentence}\n" in text for sentence in document["transfer"]["sentences"])
    assert (out / "stress_curve.png").read_bytes().startswith(b"\x89PNG")
    with (out / "records.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert Counter(row["panel"] for row in rows) == dict.fromkeys(PANELS, RECORDS)
    drawn = draw_records(
        library, response_probabilities(library, permissiveness=PERMISSIVE), RECORDS
    )
    for i, row in enumerate(rows):
        scenario = library.scenarios[drawn.scenario[i]]
        assert (row["scenario"], row["topic"]) == (scenario.id, scenario.topic)
        assert row["profile"] == profile_name(PROFILES[drawn.profile[i]])
        assert row["action1"] == str(drawn.y[i])


def answer_all(path: Path, scenarios: Path, model: str) -> None:
    """Care decides on the last five topics; on the others the first option is always taken."""
    records = Records(path)
    for scenario in read_library(scenarios).scenarios:
        decided = TOPICS.index(scenario.topic) >= 5
        for profile in PROFILES:
            for swapped in (False, True):
                first = (profile[2] > 0) != swapped if decided else True
                args = question_args(model, Question(scenario, profile, swapped))
                record = {"args": args, "answer": "A" if first else "B", "text": ""}
                records.append(record | {"input_tokens": 9, "output_tokens": 1})


@pytest.mark.slow
def test_answers_of_a_model_twice_to_the_same_end(tmp_path: Path, run: Run) -> None:
    scenarios, asked, out = tmp_path / "own.csv", tmp_path / "asked", tmp_path / "out"
    write_scenarios(scenarios, make_library(10))
    answer_all(asked / ANSWERS, scenarios, "oracle-1")
    options = "--scenarios", scenarios, "--answers", asked, "--records", RECORDS
    ran = run(*options, "--out", out)
    assert ran.code == 0
    words = "Labels were elicited from oracle-1, asked which action a person with the given values"
    assert words in ran.out and words in (out / "moral.md").read_text()
    assert "documented model" not in ran.out + (out / "moral.md").read_text()
    document = json.loads((out / "moral.json").read_text())
    assert document["labels"].startswith(words)
    assert document["scenarios"].startswith("10 scenarios of own.csv")
    with (out / "records.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        if TOPICS.index(row["topic"]) >= 5:  # nothing is left to chance
            assert row["action1"] == str(int(row["profile"].endswith("+1)")))
    undecided = {row["action1"] for row in rows if TOPICS.index(row["topic"]) < 5}
    assert undecided == {"0", "1"}

    other = tmp_path / "printed"
    printed = run(*options, "--out", other, "--json")
    assert printed.code == 0 and printed.out.count("\n") == 1
    assert "auditing them ..." in printed.err
    answer = json.loads(printed.out)
    assert answer.pop("files") == [str(other / name) for name in FILES]
    assert answer | {"tables": document["tables"]} == document
    # Whatever is neither a picture nor says when it was made is the same to the byte.
    for name in (*FILES[:3], "moral.md", "records.csv"):
        assert (other / name).read_bytes() == (out / name).read_bytes()

    wrong = run(*options, "--model", "pythia", "--out", out)
    assert wrong.code == 2
    assert wrong.err == (
        f"regraft: {asked / ANSWERS} has no answers of pythia: choose from oracle-1.\n"
    )


def test_a_strength_of_a_model_that_is_not_used(tmp_path: Path, run: Run) -> None:
    ran = run("--answers", tmp_path, "--permissiveness", 1, "--out", tmp_path / "out")
    assert ran.code == 2 and ran.err == (
        "regraft: --permissiveness changes the documented model: leave it or --answers out.\n"
    )
    ran = run("--permissiveness", -1, "--out", tmp_path / "out")
    assert ran.code == 2 and "permissiveness is -1" in ran.err


def test_a_network_that_is_nowhere(offline: Path, run: Run) -> None:
    ran = run("--encoder", "no-such-encoder", "--out", offline / "out")
    assert ran.code == 2 and ran.err.endswith(".\n") and ran.err.count("\n") == 1
    assert ran.err.startswith("regraft: the network no-such-encoder can be neither found")
    assert not (offline / "out").exists()
