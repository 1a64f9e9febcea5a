"""``regraft diagnose``: what it prints and writes, and how it fails."""

import csv
import functools
import json
import re
from pathlib import Path

import numpy as np
import pytest
import typer

from regraft.cli import diagnose as diagnose_command
from regraft.cli.app import app
from regraft.data.banks import write_bank
from regraft.premises.answers import answer_questions
from tests.helpers.commands import Run
from tests.helpers.evidence import possible_evidence
from tests.helpers.factorized_domains import draw_domains

PREMISES = (
    "sources disagree",
    "factorization closes",
    "abductions differ",
    "deduction is invariant",
    "a transplant basis exists",
)
DATA = draw_domains(1, n=150, d=5)
TOWNS = np.array(["Aarau", "Bern"])[DATA.domain]


@pytest.fixture
def run(run: Run) -> Run:
    return functools.partial(run, "diagnose")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("diagnose") / "data.npz"
    np.savez(path, X=DATA.X, y=DATA.y, sample_domain=TOWNS, u=DATA.group)
    return path


def test_long_tables_are_printed_only_if_asked_for(
    data: Path, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(diagnose_command, "_SHORT", 1)
    ran = run(data, "--group", "u", "--out", tmp_path / "out")
    assert ran.code == 0 and "Add --details to see them." in ran.out
    assert "Not printed: Rows, and accuracy on rows not seen" in ran.out
    lines = [line.strip() for line in ran.out.splitlines()]
    tables = json.loads((tmp_path / "out" / "diagnosis.json").read_text())["tables"]
    long = [table for table in tables if len(table["rows"]) > 1]
    assert len(long) > 2  # they are kept in the file
    assert [table["title"] in lines for table in tables] == [each not in long for each in tables]
    ran = run(data, "--group", "u", "--details")
    assert all(table["title"] in ran.out for table in tables) and "Not printed" not in ran.out


def test_verdicts_files_and_json(tmp_path: Path, data: Path, run: Run) -> None:
    out = tmp_path / "out"
    ran = run(data, "--group", "u", "--out", out)
    assert ran.code == 0 and ran.err == ""
    document = json.loads((out / "diagnosis.json").read_text())
    assert all(table["title"] in ran.out for table in document.pop("tables"))
    assert "Not printed" not in ran.out  # all are short
    names = "heterogeneity", "closure", "angles", "invariance", "basis"
    for premise, name in zip(PREMISES, names, strict=True):
        line = next(line for line in ran.out.splitlines() if line.strip().startswith(premise))
        assert line.split()[-1] == document[name]["verdict"]
    for sentence in document["summary"]:
        assert sentence in ran.out
    for title in ("Factorization closure", "Principal angles", "Deduction columns", "Shifts"):
        assert title in ran.out
    assert "comparing deductions ..." in ran.out and "Written:" in ran.out
    files = ["diagnosis.json", "diagnosis.md", "provenance.json"]
    assert sorted(entry.name for entry in out.iterdir()) == files
    text = (out / "diagnosis.md").read_text()
    assert text.startswith("# Diagnosis\n\n- ") and "## Premises" in text
    assert text.index("## Answers") < text.index("## Premises")
    for answer in document["answers"]:
        line = next(line for line in ran.out.splitlines() if answer["question"] in line)
        assert answer["answer"] in line and answer["number"] in line
    assert all(f"- {sentence}\n" in text for sentence in document["summary"])
    assert "Aarau vs. Bern" in text

    printed = run(data, "--group", "u", "--out", out, "--json")
    assert printed.code == 0 and "comparing deductions ..." in printed.err
    answer = json.loads(printed.out)
    assert answer.pop("files") == [str(out / name) for name in files]
    assert answer == document
    assert answer["domains"] == {"Aarau": 150, "Bern": 150} and answer["groups"] == ["0", "1"]


def test_without_groups(tmp_path: Path, data: Path, run: Run) -> None:
    ran = run(data, "--groups", "3", "--json")
    assert ran.code == 0
    document = json.loads(ran.out)
    assert not document["groups_observed"] and document["groups"] == ["1", "2", "3"]
    assert document["invariance"]["verdict"] == "undecided"
    assert document["invariance"]["p_value"] is None and document["files"] == []
    shown = run(data, "--groups", "3")
    assert shown.code == 0 and "Deduction columns" not in shown.out
    assert "fitting 3 unobserved groups to all rows, start 3 of 3 ..." in shown.out
    assert all(remark in shown.out for remark in document["remarks"])
    assert list(tmp_path.iterdir()) == []


def test_banks_and_columns_of_other_names(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "data.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*"abcde", "hit", "town", "kind"])
        kinds = np.array(["old", "young"])[DATA.group]
        for x, *rest in zip(DATA.X.tolist(), DATA.y, TOWNS, kinds, strict=True):
            writer.writerow([*x, *rest])
    columns = "--label", "hit", "--domain", "town", "--group", "kind", "--json"
    first, other = (json.loads(run(path, *columns, "--seed", s).out) for s in (0, 1))
    assert first["groups"] == ["old", "young"] and first["features"] == 5
    assert first["heterogeneity"]["views"] != other["heterogeneity"]["views"]
    write_bank(tmp_path / "bank", DATA.X, DATA.y.tolist(), TOWNS.tolist())
    ran = run(tmp_path / "bank", "--json", "--quiet")
    assert ran.code == 0 and ran.err == ""
    assert json.loads(ran.out)["domains"] == {"Aarau": 150, "Bern": 150}


def test_advice_names_commands_and_options_that_exist() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    options = {
        name: {option for each in command.params for option in each.opts}
        for name, command in commands.items()
    }
    sentences = {each.sentence for found in possible_evidence() for each in answer_questions(found)}
    named = set()
    for sentence in sentences:
        for command, option in re.findall(r"regraft (\w+)(?: (--[\w-]+))?", sentence):
            assert command in options and (not option or option in options[command]), sentence
            named |= {command, option}
        assert sentence.count("--") == len(re.findall(r"regraft \w+ --", sentence)), sentence
    assert {"fit", "abduct", "diagnose", "--group"} <= named


def test_one_source_and_tiny_sources_are_answered(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "one.npz"
    np.savez(path, X=DATA.X, y=DATA.y, sample_domain=np.full(len(DATA.y), "Bern"), u=DATA.group)
    for options in ((), ("--group", "u")):
        ran = run(path, *options, "--out", tmp_path / "out", "--html")
        assert ran.code == 0 and ran.err == ""
        assert "Collect labelled rows of a second source: Bern alone" in ran.out
        assert not re.search(r"\b1 (source|domain)s|sample_domain|\bnan\b", ran.out)
    assert "300 rows of 1 source show" in (tmp_path / "out/report.html").read_text()
    first = np.r_[np.flatnonzero(DATA.y == 0)[:2], np.flatnonzero(DATA.y == 1)[:2]]
    tiny = np.r_[first, np.flatnonzero(TOWNS == "Bern")]
    towns = np.array(["Chur"] * 4 + ["Bern"] * 150)
    np.savez(path, X=DATA.X[tiny], y=DATA.y[tiny], sample_domain=towns)
    ran = run(path)
    assert ran.code == 0, ran.err
    assert re.search(r"Collect labels of class \d in Chur, or leave Chur out: there are 2", ran.out)
    assert "too few rows to hold a third of them out" in ran.out
    lone = DATA.y.copy()
    lone[TOWNS == "Bern"] = 0
    np.savez(path, X=DATA.X, y=lone, sample_domain=TOWNS)
    ran = run(path)
    assert ran.code == 0 and "source Bern has no rows of class 1" in ran.err, ran.err
