"""Reports of every kind of run, from the folders that the commands leave."""

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from regraft.bench.paper import experiment
from regraft.bench.paper.pretraining import Preset
from regraft.bench.paper.reproduce import reproduce
from regraft.core.certificates import certificate_from_dict
from regraft.core.group_certificate import GroupCertificate
from regraft.estimators.abduction import summarize_factor
from regraft.estimators.evidence_tables import evidence_table
from regraft.premises.answers import answer_questions
from regraft.report import write_report
from regraft.report.elements import Chapter, Chart, Report, Section, Text
from regraft.report.premise_chapters import diagnosis_chapter
from regraft.report.prevalence import ORDINARY, ROBUST
from regraft.report.provenance import read_provenance
from regraft.report.writing import read_report, render
from tests.helpers.commands import MORAL, Run, RunOnce
from tests.helpers.evidence import make_evidence
from tests.helpers.problems import Digits, Problem
from tests.helpers.toy_sweep import write_bank

pytest.importorskip("vl_convert")


# What a reader who knows nothing of the method must not meet on the first screen.
SPECIALISTS_WORDS = re.compile(r"\b(ERM|CRO|heads?|game|held-out|standard errors?|risk)\b")


@pytest.fixture
def table(problem: Problem, tmp_path: Path) -> Path:
    path = tmp_path / "table.npz"
    np.savez(path, X=problem.X, y=problem.y, sample_domain=problem.domain)
    return path


def titles(report: Report) -> list[str]:
    return [section.title for chapter in report.chapters for section in chapter.sections]


def words(path: Path) -> str:
    """What stands on the page, without what draws it."""
    text = re.sub(r"<(script|style)\b.*?</\1>", "", path.read_text(), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def test_a_report_is_rebuilt_from_its_folder(table: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "run"
    ran = run("fit", table, "--family", "hull", "--radius", 2, "--out", out, "--html", "--json")
    assert ran.code == 0 and "a radius of 2 nats is 10 times what the sources support" in ran.err
    assert str(out / "report.html") in json.loads(ran.out)["files"]
    document = json.loads((out / "fit.json").read_text())
    page = words(out / "report.html")
    assert f"regraft fit {table} --out {out} --family hull --radius 2.0 --html" in page
    assert "Rows by source" in page and document["rows"] == {
        f"source {s}": {
            str(c): int(count) for c, count in enumerate(document_counts(table)[s]) if count
        }
        for s in range(2)
    }
    again = tmp_path / "again.html"
    assert run("report", out, "--out", again).code == 0
    assert again.read_text() == (out / "report.html").read_text()


@pytest.mark.parametrize("family", ["latent", "hull"])
def test_a_fit_has_one_number_in_terminal_report_and_card(
    table: Path, tmp_path: Path, run: Run, family: str
) -> None:
    ran = run("fit", table, "--family", family, "--out", tmp_path, "--html")
    assert ran.code == 0 and ran.err == ""
    c = certificate_from_dict(json.loads((tmp_path / "certificate.json").read_text()))
    document = json.loads((tmp_path / "fit.json").read_text())
    assert document["source_accuracy"] == {each.name: each.accuracy for each in c.sources}
    page, card = words(tmp_path / "report.html"), (tmp_path / "model" / "README.md").read_text()
    for text in (" ".join(ran.out.split()), page, card):
        assert all(paragraph in text for paragraph in c.paragraphs())
        assert "training accuracy" not in text
        if isinstance(c, GroupCertificate):
            assert summarize_factor(c.abduction) in text
    (chapter,) = read_report(tmp_path).chapters
    certified = f"at least {100 * c.accuracy_bound:.1f}% of its answers"
    assert (certified in chapter.verdict) is (not c.reason)
    assert chapter.figure is not None
    assert chapter.figure.number == f"at least {100 * c.accuracy_bound:.1f}%"
    assert f"{100 * c.source_accuracy:.1f}%" in chapter.figure.meaning
    number = chapter.figure.number.replace("at", "At")
    first = (chapter.verdict, f"{number} {chapter.figure.meaning}")
    said = " ".join(ran.out.split())
    assert 0 < said.index(" ".join(first)) < said.index("Certified:")  # said first there too
    assert not SPECIALISTS_WORDS.search(" ".join((*first, chapter.asked, *chapter.doubts)))
    for cells in evidence_table(c).texts():
        assert " ".join(cells) in page and f"| {' | '.join(cells)} |" in card
    factor = (
        *("The hidden factor", "If the factor becomes more or less common"),
        *("How it is tied to the label", "Each head in each group"),
    )
    what = "Group by group" if family == "latent" else "The worst plausible domains"
    assert [section.title for section in chapter.sections] == [
        *(factor if family == "latent" else ()),
        "Domain by domain",
        f"{what}, source by source",
        "How sure is the factor?" if family == "latent" else "How far is far?",
        *("The certificate", "The game, round by round", "The data"),
    ]
    folded = [section.folded for section in chapter.sections]
    assert folded == sorted(folded)  # what is folded comes last
    evidence = next(s for s in chapter.sections if "source by source" in s.title)
    (chart,) = (part for part in evidence.parts if isinstance(part, Chart))
    drawn = {(v["series"], v["place"]): v["value"] for v in chart.spec["data"]["values"]}
    assert drawn == {
        (head, name): round(100 * each.accuracy, 2)
        for name, *pair in c.pair_evidence()
        for head, each in zip((ROBUST, ORDINARY), pair, strict=True)
        if not (c.reason and head == ROBUST)  # which is ERM's head then
    }


def document_counts(table: Path) -> list[list[int]]:
    arrays = np.load(table)
    return [
        np.bincount(arrays["y"][arrays["sample_domain"] == f"source {s}"]).tolist()
        for s in range(2)
    ]


def test_results_of_one_folder_make_one_report(table: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "run"
    assert run("fit", table, "--out", out).code == 0
    report = read_report(out)
    assert "Not measured in this run" not in str(report) and len(report.chapters) == 1
    for command in (("audit", out), ("frontier",)):
        assert run(*command, table, "--family", "hull", "--radii", "0,1", "--out", out).code == 0
    assert run("compare", table, "--radii", "1", "--out", out, "--html").code == 0
    report = read_report(out)
    assert [*report.provenance] == ["fit", "audit", "frontier", "compare"]
    assert len(report.chapters) == 4
    assert {"The price of robustness", "Which domain is the worst?", "Domain by domain"} <= {
        *titles(report)
    }
    data = {file.path for origin in report.provenance.values() for file in origin.data}
    assert data == {str(table), str(out)}


def test_a_tiny_source_has_bounds_too(problem: Problem, tmp_path: Path, run: Run) -> None:
    few = np.concatenate([np.arange(100), 300 + np.flatnonzero(problem.y[300:] == 0)[:30]])
    few = np.append(few, 300 + np.flatnonzero(problem.y[300:] == 1)[:2])
    table = tmp_path / "few.npz"
    np.savez(table, X=problem.X[few], y=problem.y[few], sample_domain=problem.domain[few])
    assert run("fit", table, "--family", "hull", "--out", tmp_path / "run", "--html").code == 0
    c = certificate_from_dict(json.loads((tmp_path / "run" / "certificate.json").read_text()))
    assert c.source_rows == (100, 32)
    assert c.sources[1].risk < c.sources[1].risk_bound <= c.risk_bound < np.inf
    assert f"at most {c.risk_bound:.3f} nats" in words(tmp_path / "run" / "report.html")


def test_a_head_that_is_erms_says_so(problem: Problem, tmp_path: Path, run: Run) -> None:
    table = tmp_path / "alike.npz"
    domain = np.repeat(["one", "the same"], len(problem.y))
    X, y = np.tile(problem.X, (2, 1)), np.tile(problem.y, 2)
    np.savez(table, X=X, y=y, sample_domain=domain)
    for family in ("hull", "latent"):
        out = tmp_path / family
        assert run("fit", table, "--family", family, "--out", out, "--html").code == 0
        reason = json.loads((out / "fit.json").read_text())["certificate"]["reason"]
        verdict = read_report(out).chapters[0].verdict
        assert "this is the ordinary model" in verdict.replace("This", "this")
        if family == "latent":
            assert reason == "no hidden factor was found"
            assert "The game, round by round" not in titles(read_report(out))


def test_one_domain_has_a_report_too(problem: Problem, tmp_path: Path, run: Run) -> None:
    table = tmp_path / "one.npz"
    np.savez(table, X=problem.X, y=problem.y, sample_domain=np.full(len(problem.y), "here"))
    ran = run("fit", table, "--out", tmp_path / "run", "--html")
    assert ran.code == 0 and "all rows belong to one domain" in ran.err
    assert "rows came from 1 source (here)." in words(tmp_path / "run" / "report.html")


@pytest.mark.slow
def test_moral_questions(run_once: RunOnce) -> None:
    folder, ran = run_once("moral-page", *MORAL, "--html")
    assert ran.code == 0
    report = read_report(folder)
    assert len(report.chapters) == 2  # and the diagnosis
    assert "Centrist" in report.chapters[0].verdict
    assert "Principal angles in degrees: ours (paper)" in words(folder / "report.html")


@pytest.mark.slow
def test_a_sweep(tmp_path: Path, run: Run) -> None:
    data = write_bank(tmp_path / "data")
    ran = run(
        *("sweep", "--datasets", "toy", "--data", data, "--out", tmp_path / "sweep"),
        *("--algorithms", "ERM,GroupDRO", "--n-hparams", 1, "--n-trials", 1, "--steps", 20),
        *("--workers", 1, "--quiet"),
    )
    assert ran.code == 0
    assert run("collect", tmp_path / "sweep", "--out", tmp_path / "tables", "--html").code == 0
    page = words(tmp_path / "tables" / "report.html")
    overall = json.loads((tmp_path / "tables" / "collect.json").read_text())["selections"]
    best = max(overall["training-domain"]["overall"].values())
    assert f"is best with {100 * best:.1f} % on average" in page and "GroupDRO" in page


@pytest.mark.slow
def test_a_reproduction(blobs: Digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "RANKS", (1, 2))
    tiny = Preset("paper", steps=4, batch=8)
    result = reproduce(*blobs, preset=tiny, out=tmp_path, cells=[2], trials=1, configs=2)
    report = read_report(tmp_path)
    cell = result.selection.cells[2]
    assert f"{100 * cell.mean:.1f} on -90%" in report.chapters[0].verdict
    assert {"Checkpoints", "Transplant dimension", "All configurations"} <= {*titles(report)}
    page = words(write_report(tmp_path))
    assert "CRO, hull (regraft, preset paper)" in page and "76.0" in page  # the paper's number
    assert "does not say which command made it" in page


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"points": [{"radius": 1}]}', "\xff"])
def test_a_damaged_result_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "audit.json").write_bytes(text.encode("latin1"))
    with pytest.raises(ValueError, match=r"audit\.json is damaged or of another version"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_text_is_escaped_and_pages_without_charts_are_small() -> None:
    attack = "<script>alert(1)</script>&{{ 7 * 7 }}"
    parts = (Text(attack),)
    page = render(Report((Chapter(attack, attack, attack, (Section(attack, parts),)),), {}))
    assert attack not in page and page.count("&lt;script&gt;alert(1)&lt;/script&gt;&amp;{{") >= 5
    assert len(page) < 20_000


def test_no_source_is_harder_than_what_is_certified(
    problem: Problem, tmp_path: Path, run: Run
) -> None:
    rng, X = np.random.default_rng(0), problem.X.copy()
    hard = np.flatnonzero(problem.domain == "source 1")
    X[hard] += 6 * rng.standard_normal(X[hard].shape)
    table = tmp_path / "hard.npz"
    np.savez(table, X=X, y=problem.y, sample_domain=problem.domain)
    fit = ("fit", table, "--family", "hull", "--radius", 0, "--out", tmp_path, "--html")
    assert run(*fit).code == 0
    c = certificate_from_dict(json.loads((tmp_path / "certificate.json").read_text()))
    assert c.sources[1].accuracy < c.sources[0].accuracy - 0.1
    assert (
        c.sources[1].risk_bound <= c.risk_bound and c.sources[1].accuracy_bound >= c.accuracy_bound
    )
    figure = read_report(tmp_path).chapters[0].figure
    assert figure is not None and figure.number == f"at least {100 * c.accuracy_bound:.1f}%"


def test_what_makes_little_sense_is_told(problem: Problem, tmp_path: Path, run: Run) -> None:
    rows = [0, 1, 2, 3, *range(300, 360)]
    lines = ["row,a,b,label,domain"]
    lines += [
        f"{i},{problem.X[k, 0]},{problem.X[k, 1]},{problem.y[k]},{problem.domain[k]}"
        for i, k in enumerate(rows)
    ]
    (tmp_path / "few.csv").write_text("\n".join(lines) + "\n")
    ran = run("fit", tmp_path / "few.csv", "--out", tmp_path / "run")
    assert ran.code == 0 and "2 features ('a' to 'b')" in ran.out
    assert "domain source 0 has 4 rows: what is said about so few is mostly noise" in ran.err
    assert "columns left out: 'row' numbers the rows" in ran.err


def test_the_other_cell_of_the_demo_tells_its_own_story(run_once: RunOnce) -> None:
    folder, _ = run_once("demo-of-the-other-cell", "demo", "--cell", "+90%", "--json")
    chapter = read_report(folder).chapters[0]
    assert "holds in +90%" in chapter.asked and "other label" not in chapter.asked
    erm = json.loads((folder / "demo.json").read_text())["rows"][0]
    assert f"and {100 * erm['source_accuracy']:.1f}%." in chapter.verdict


def test_parts_have_headings_and_warnings_are_kept(table: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "run"
    assert run("fit", table, "--out", out).code == 0
    assert "fitted on these very rows" in run("audit", out, table, "--out", out, "--html").err
    text = (out / "report.html").read_text()
    headings = re.findall(r'<h2 class="part" id="part-(\d)">(.*?)</h2>', text)
    assert [int(number) for number, _ in headings] == [2]
    assert headings[0][1] == "2. An audit by hidden groups" and 'href="#part-2"' in text
    fit, audit = read_report(out).chapters
    assert any("the model was fitted on these very rows" in doubt for doubt in audit.doubts)
    assert not any("fitted on these very rows" in doubt for doubt in fit.doubts)
    assert "Before you rely on this" in words(out / "report.html")


def test_what_is_wrong_in_the_folder_does_not_cost_the_result(
    table: Path, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "provenance.json").write_text("[]")
    ran = run("frontier", table, "--prior-shifts", 1, "--out", tmp_path)
    assert ran.code == 2 and "provenance.json is damaged" in ran.err
    assert not (tmp_path / "frontier.json").exists()  # told before anything was computed
    (tmp_path / "provenance.json").unlink()
    (tmp_path / "collect.json").write_text("{}")
    ran = run("frontier", table, "--prior-shifts", 1, "--out", tmp_path, "--html", "--json")
    assert ran.code == 2 and "collect.json is damaged" in ran.err
    assert json.loads(ran.out)["points"][0]["prior_shift"] == 1


def test_collecting_again_sees_the_same_data(tmp_path: Path, run: Run) -> None:
    data, sweep = write_bank(tmp_path / "data"), tmp_path / "sweep"
    train = ("train", "--dataset", "toy", "--data", data, "--steps", 20, "--seed", 3)
    assert run(*train, "--out", sweep, "--quiet").code == 0
    checksums = []
    for _ in range(2):
        assert run("collect", sweep, "--out", sweep, "--html").code == 0
        checksums.append(read_report(sweep).provenance["collect"].data)
    assert checksums[0] == checksums[1]
    provenance = read_provenance(sweep)
    assert provenance["collect"].seed is None and provenance["train"].seed == 3
    assert provenance["train"].data[0].path == str(data)


@pytest.mark.parametrize("sources", [1, 2])
def test_a_diagnosis_begins_with_the_advice(sources: int) -> None:
    checks = ("heterogeneity", "closure", "angles", "invariance", "basis")
    found = answer_questions(make_evidence(sources=sources))
    document = {check: {"verdict": "violated"} for check in checks} | {
        "answers": [each.to_dict() for each in found],
        "rows": 9,
        "domains": {"a": 4, "b": 5} if sources == 2 else {"a": 9},
        "summary": [*(each.sentence for each in found), "A premise."],
        "tables": [],
    }
    chapter = diagnosis_chapter(document)
    assert chapter.verdict == found[-1].sentence
    assert f"9 rows of {'2 sources' if sources == 2 else '1 source'} show" in chapter.asked
    answers, premises = chapter.sections
    assert answers.parts[0].rows == tuple((e.question, e.answer, e.number) for e in found)
    assert premises.parts[1:] == (Text("A premise."),)
    assert len(premises.parts[0].rows) == len(premises.parts[0].marked) == 5
