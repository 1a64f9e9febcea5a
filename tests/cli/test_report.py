"""--html and ``regraft report``: where the page is, and how they fail."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import Ran, Run, hide_packages, run_apart
from tests.helpers.problems import make_problem


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    problem = make_problem(seed=3, n=40, d=3)
    path = tmp_path_factory.mktemp("report") / "data.npz"
    np.savez(path, X=problem.X, label=problem.y, domain=problem.domain)
    return path


def test_a_page_with_the_results_or_after_them(tmp_path: Path, data: Path, run: Run) -> None:
    pytest.importorskip("vl_convert")
    with_page, without = tmp_path / "with", tmp_path / "without"
    line = ("frontier", data, "--radii", "0,2")
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
    assert run("report", without, "--quiet") == Ran(0, "", "")


def test_without_the_extra(tmp_path: Path, data: Path) -> None:
    """Told before anything is computed."""
    path = [hide_packages(tmp_path / "path", "vl_convert")]
    ran = run_apart("frontier", data, "--out", tmp_path / "out", "--html", path=path)
    assert ran.code == 2 and not (tmp_path / "out").exists()
    assert ran.err == 'regraft: vl_convert is not installed: run pip install "regraft[report]".\n'
