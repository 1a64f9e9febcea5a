"""``--engine``: tables that are read in parts, by the commands that can."""

import json
from pathlib import Path

import numpy as np
import pytest

from regraft import load, make_confounded_domains, write_bank
from regraft.cli.option_groups import EngineSettings
from regraft.estimators import streamed
from tests.helpers.commands import Run


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    drawn = make_confounded_domains(500, strengths=(0.95, 0.7), n_features=5, random_state=0)
    write_bank(tmp_path / "bank", drawn.X.astype(np.float32), drawn.y, drawn.sample_domain)
    return tmp_path / "bank"


def test_a_small_table_gives_the_fit_in_memory(run: Run, bank: Path, tmp_path: Path) -> None:
    for name, options in (("ours", ["--engine", "local"]), ("theirs", [])):
        assert run("fit", bank, "--out", tmp_path / name, *options).code == 0
    for file in ("certificate.json", "fit.json", "model/model.safetensors"):
        ours, theirs = ((tmp_path / name / file).read_bytes() for name in ("ours", "theirs"))
        assert ours == theirs, file


def test_a_large_table_is_fitted_and_searched_by_a_sample(
    run: Run, bank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed, "SAMPLE_ROWS", 600)
    done = run("fit", bank, "--engine", "local", "--memory", "1MB", "--out", tmp_path / "run")
    assert done.code == 0
    assert "all 1000 rows decide the head" in done.out
    document = json.loads((tmp_path / "run" / "fit.json").read_text())
    assert sum(sum(cells.values()) for cells in document["rows"].values()) == 1000
    assert sum(document["certificate"]["source_rows"]) == 1000
    assert load(tmp_path / "run" / "model").n_features_in_ == 5
    found = run("abduct", bank, "--engine", "local", "--json")
    answer = json.loads(found.out)
    assert answer["rows"] == 1000 and 500 < answer["sampled_rows"] < 700
    shown = [row["number"] for each in answer["ends"] for row in each["last"]["rows"]]
    assert max(shown) <= 1000


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--engine", "spark"], "engine is 'spark': pass local or ray."),
        (["--memory", "2GB"], "--memory is for --engine local"),
        (["--engine", "local", "--workers", "2"], "--workers is for --engine ray"),
        (["--engine", "local", "--memory", "much"], "memory is 'much'"),
        (["--engine", "local", "--family", "hull"], "needs all rows in memory"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    run: Run, bank: Path, tmp_path: Path, options: list[str], sentence: str
) -> None:
    done = run("fit", bank, "--out", tmp_path / "run", *options)
    assert done.code == 2 and sentence in done.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "size"), [("2GB", 2 * 10**9), ("1.5 gb", 15 * 10**8), ("500MB", 5 * 10**8), ("7", 7)]
)
def test_memory_is_a_size(text: str, size: int) -> None:
    assert EngineSettings("local", text).memory_bytes == size
