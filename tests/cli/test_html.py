"""--html changes what is written, never what is computed; a page can be drawn again later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft.core import heads, hull_game
from regraft.estimators import audit, baselines, cro, frontier
from tests.helpers.commands import Ran, Run
from tests.helpers.problems import make_problem

pytest.importorskip("vl_convert")
CLOCKS = ("seconds",)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    problem = make_problem(seed=3, n=40, d=3, sources=3)
    path = tmp_path_factory.mktemp("html") / "data.npz"
    np.savez(path, X=problem.X, label=problem.y, domain=problem.domain)
    probabilities = np.random.default_rng(0).dirichlet([1, 1], len(problem.y))
    np.savez(path.with_name("p.npz"), probabilities=probabilities)
    return path


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
    "fit": "fit {data} --radius 2",
    "audit": "audit {folder}/p.npz {data} --radii 0,1",
    "frontier": "frontier {data} --radii 0,1",
    "compare": "compare {data} --radii 1",
    "diagnose": "diagnose {data}",
    "moral run": "moral run --records 40",
}


@pytest.mark.parametrize("name", LINES)
def test_the_results_are_the_same_and_the_page_comes_again(
    name: str, data: Path, tmp_path: Path, run: Run
) -> None:
    words = LINES[name].format(data=data, folder=data.parent).split()
    plain, with_page = tmp_path / "plain", tmp_path / "html"
    assert run(*words, "--out", plain, "--quiet").code == 0
    assert run(*words, "--out", with_page, "--quiet", "--html").code == 0
    assert results(plain) and results(plain) == results(with_page)
    assert run("report", with_page, "--out", tmp_path / "again.html", "--quiet").code == 0
    assert (tmp_path / "again.html").read_text() == (with_page / "report.html").read_text()


def test_fit_fits_source_heads_twice_and_plays_no_game_twice(
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

    for module in (audit, baselines, cro, frontier):
        monkeypatch.setattr(module, "fit_source_heads", fit_source_heads)
    for module in (cro, frontier):
        monkeypatch.setattr(module, "play_hull", play_hull)
    ran = run("fit", data, "--radius", 2, "--out", tmp_path / "run", "--html", "--quiet")
    assert ran == Ran(0, "", "")
    assert fits == [120, 80]  # all rows, and the two thirds that are not held out
    assert games == [(120, 2.0), *((80, radius) for radius in (0, 0.5, 1, 2, 4, 8, 16))]
