"""--quiet, --json and --html change what is said and written, never what is computed."""

import json
from pathlib import Path
from typing import Any

import pytest

from regraft.core import heads, hull_game
from regraft.estimators import audit, cro, frontier, linear
from tests.helpers.commands import MORAL, Once, Ran, Run, RunOnce, call, list_names
from tests.helpers.problems import make_problem, write_npz

# What says when, or how long it took, pictures, and the page.
TIMED = ("provenance.json", "comparison.json", "comparison.csv", ".jsonl", ".png", "report.html")
CLOCKS = ("seconds", "run")  # and the id that follows from all


@pytest.fixture(scope="module")
def place(once: Once) -> Path:
    """A table, other rows, which no model was fitted on, and a model of the table's."""

    def make(folder: Path) -> None:
        folder.mkdir()
        for name, seed in (("data", 3), ("other", 4)):
            write_npz(folder / f"{name}.npz", make_problem(seed=seed, n=100, d=3, sources=3))
        data = folder / "data.npz"
        call(
            ["fit", data, "--family", "hull", "--radius", 0.5, "--out", folder / "model", "--quiet"]
        )

    return once("variants", make)


@pytest.fixture(scope="module")
def data(place: Path) -> Path:
    return place / "data.npz"


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith((".lock", *TIMED))
    }


def results(folder: Path) -> dict[str, Any]:
    """All documents but the provenance, without what a clock tells."""
    return {
        path.name: json.loads(
            path.read_text(), object_hook=lambda d: {k: d[k] for k in d if k not in CLOCKS}
        )
        for path in folder.glob("*.json")
        if path.name != "provenance.json"
    }


LINES = {
    "fit": "fit {data}",
    "fit of the hull": "fit {data} --family hull --radius 0.5",
    "predict": "predict {model} {data}",
    "abduct": "abduct {data}",
    "audit": "audit {model} {other}",
    "audit of the hull": "audit {model} {other} --family hull --radii 0,1",
    "frontier": "frontier {data} --prior-shifts 0,inf",
    "frontier of the hull": "frontier {data} --family hull --radii 0,1",
    "compare": "compare {data} --radii 1",
    "diagnose": "diagnose {data}",
    "moral run": " ".join(map(str, MORAL)),
}


@pytest.mark.parametrize("name", LINES)
def test_the_files_are_the_same_and_a_page_comes_again(
    name: str, place: Path, data: Path, tmp_path: Path, run: Run, run_once: RunOnce
) -> None:
    line = LINES[name].format(data=data, other=place / "other.npz", model=place / "model")

    def write(folder: str, *options: str) -> Ran:
        return run(*line.split(), "--out", tmp_path / folder, *options)

    quiet = write("quiet", "--quiet")
    assert (quiet.code, quiet.out) == (0, "")
    pytest.importorskip("vl_convert")
    page = () if name == "predict" else ("--html",)
    if name == "moral run":  # which warns of so few records, and takes long
        assert all(said.startswith("warning: ") for said in quiet.err.splitlines())
        other, _ = run_once("moral-page", *MORAL, "--html")
    else:
        assert quiet.err == ""
        spoken, both = write("spoken"), write("both", "--quiet", "--json", *page)
        assert spoken.code == 0 and spoken.out
        assert contents(tmp_path / "quiet") == contents(tmp_path / "spoken")
        assert list_names(tmp_path / "quiet") == list_names(tmp_path / "spoken")
        assert both.code == 0 and both.err == ""
        assert json.loads(both.out)["files"] and both.out.count("\n") == 1
        other = tmp_path / "both"
    assert contents(tmp_path / "quiet") == contents(other)
    if page:
        assert results(tmp_path / "quiet") and results(tmp_path / "quiet") == results(other)
        again = tmp_path / "again.html"
        assert run("report", other, "--out", again, "--quiet").code == 0
        assert again.read_text() == (other / "report.html").read_text()


def test_fit_fits_source_heads_once_and_plays_one_game(
    data: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits: list[int] = []
    games: list[tuple[int, float]] = []

    def fit_source_heads(domains: Any) -> Any:
        fits.append(len(domains.y))
        return heads.fit_source_heads(domains)

    def play_hull(sources: Any, *, radius: float, **options: Any) -> Any:
        games.append((len(sources.y), radius))
        return hull_game.play_hull(sources, radius=radius, **options)

    for module in (audit, linear, cro, frontier):
        monkeypatch.setattr(module, "fit_source_heads", fit_source_heads)
    for module in (cro, frontier):
        monkeypatch.setattr(module, "play_hull", play_hull)
    hull = ("--family", "hull", "--radius", 0.5, "--out", tmp_path / "run", "--html", "--quiet")
    assert run("fit", data, *hull) == Ran(0, "", "")
    assert fits == [300] and games == [(300, 0.5)]


def test_quiet_tells_by_its_code_and_says_warnings_all_the_same(
    tmp_path: Path, data: Path, place: Path, run: Run
) -> None:
    model = place / "model"
    assert run("predict", model, data, "--quiet") == Ran(0, "", "")
    ran = run("predict", model, tmp_path / "none.npz", "--quiet")
    assert (ran.code, ran.out) == (2, "") and "does not exist" in ran.err
    ran = run("audit", model, data, "--quiet")
    assert (ran.code, ran.out, ran.err.count("\n")) == (0, "", 1)
    assert ran.err.startswith("warning: the model was fitted on these very rows")
    ran = run("frontier", data, "--family", "hull", "--objective", "luck", "--quiet")
    assert (ran.code, ran.out) == (2, "") and ran.err.startswith("regraft: objective is 'luck'")
    twice = [run("frontier", data, "--prior-shifts", "0", "--json", "--quiet") for _ in range(2)]
    assert twice[0] == twice[1] and json.loads(twice[0].out)["points"]


def test_a_page_with_the_results_or_after_them(tmp_path: Path, data: Path, run: Run) -> None:
    pytest.importorskip("vl_convert")
    with_page, without = tmp_path / "with", tmp_path / "without"
    line = ("frontier", data, "--prior-shifts", "0,2")
    ran = run(*line, "--out", with_page, "--html", "--json")
    assert ran.code == 0
    page = with_page / "report.html"
    assert json.loads(ran.out)["files"][-1] == str(page)
    assert "<html" in page.read_text()
    assert run(*line, "--out", without).code == 0 and not (without / "report.html").exists()

    ran = run("report", without)
    assert ran.code == 0 and ran.err == ""
    assert ran.out.splitlines()[-1] == f"Written: {without / 'report.html'}"
    elsewhere = tmp_path / "new" / "page.html"
    ran = run("report", without, "--out", elsewhere, "--json", "--quiet")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == {"report": str(elsewhere), "files": [str(elsewhere)]}
    assert elsewhere.read_text() == (without / "report.html").read_text()
    table = tmp_path / "table.csv"
    table.write_text("a,b\n")
    ran = run("report", without, "--out", table)
    assert (
        ran.code == 2
        and "is there, and no page: name another" in ran.err
        and table.read_text() == "a,b\n"
    )
    assert run("report", without, "--quiet") == Ran(0, "", "")
