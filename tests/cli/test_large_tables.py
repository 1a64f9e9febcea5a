"""``--engine``: tables that are read in parts, by the commands that can."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft import load, make_confounded_domains, write_bank
from regraft.cli.option_groups import EngineSettings
from regraft.core import closure_test
from regraft.estimators import streamed, streamed_place
from tests.helpers.commands import Run
from tests.helpers.row_tables import list_numbers


def _write(folder: Path, seed: int, *strengths: float) -> Path:
    drawn = make_confounded_domains(500, strengths=strengths, n_features=5, random_state=seed)
    write_bank(folder, drawn.X.astype(np.float32), drawn.y, drawn.sample_domain)
    return folder


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    return _write(tmp_path / "bank", 0, 0.95, 0.7)


@pytest.fixture
def model(run: Run, bank: Path, tmp_path: Path) -> Path:
    assert run("fit", bank, "--out", tmp_path / "run").code == 0
    return tmp_path / "run" / "model"


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


def _ask(run: Run, *arguments: object) -> dict[str, Any]:
    done = run(*arguments, "--json")
    assert done.code == 0, done.err
    answer: dict[str, Any] = json.loads(done.out)
    return answer


def test_a_large_table_is_audited_on_all_rows(
    run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = _write(tmp_path / "other", 1, 0.9, 0.6)
    theirs = _ask(run, "audit", model, other)
    assert _ask(run, "audit", model, other, "--engine", "local") == theirs
    monkeypatch.setattr(streamed, "SAMPLE_ROWS", 600)
    ours = _ask(run, "audit", model, other, "--engine", "local", "--memory", "1MB")
    assert sum(each["rows"] for each in ours["sources"]) == pytest.approx(1000)
    for one, two in zip(ours["sources"], theirs["sources"], strict=True):
        assert list_numbers(one) == pytest.approx(list_numbers(two), abs=1e-9)
    assert ours["accuracy"] == pytest.approx(theirs["accuracy"], abs=0.03)


@pytest.mark.parametrize("memory", ["1MB", "1GB"], ids=["from disk", "in memory"])
def test_a_bank_is_placed_as_in_memory(
    run: Run, model: Path, tmp_path: Path, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (closure_test, streamed_place):
        monkeypatch.setattr(module, "MAX_ROWS", 200)
    other = _write(tmp_path / "other", 1, 0.8)
    theirs = _ask(run, "place", model, other)
    ours = _ask(run, "place", model, other, "--engine", "local", "--memory", memory)
    assert ours["alien"] == theirs["alien"] and ours["summary"] == theirs["summary"]
    assert list_numbers(ours) == pytest.approx(list_numbers(theirs), abs=1e-9)


def test_folders_of_parquet_files_are_audited_and_placed(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    import pyarrow as pa
    import pyarrow.parquet as pq

    for folder, seed, strengths in (("old", 0, (0.95, 0.7)), ("new", 1, (0.9, 0.6))):
        drawn = make_confounded_domains(500, strengths=strengths, n_features=4, random_state=seed)
        columns = {f"x{i}": drawn.X[:, i].astype(np.float32) for i in range(4)}
        columns |= {"label": drawn.y, "domain": drawn.sample_domain.tolist()}
        table = pa.table(columns)
        (tmp_path / folder).mkdir()
        for part in range(2):
            pq.write_table(table.slice(500 * part, 500), tmp_path / folder / f"{part}.parquet")
        pq.write_table(table, tmp_path / f"{folder}.parquet")
    local = "--engine", "local"
    assert run("fit", tmp_path / "old", *local, "--out", tmp_path / "run").code == 0
    model, new = tmp_path / "run" / "model", tmp_path / "new"
    audits = [
        _ask(run, "audit", model, *rest) for rest in ((new, *local), (new.with_suffix(".parquet"),))
    ]
    assert list_numbers(audits[0]) == pytest.approx(list_numbers(audits[1]), abs=1e-9)
    warned = run("place", model, new, *local)
    assert warned.code == 0 and "the target has 2 domains (source 0, source 1)" in warned.err
    places = [
        _ask(run, "place", model, *rest) for rest in ((new, *local), (new.with_suffix(".parquet"),))
    ]
    # Features of tables are kept with 32 bits.
    assert places[0]["shares"] == pytest.approx(places[1]["shares"], abs=1e-5)
    assert places[0]["alien"] == places[1]["alien"]


def test_gaps_matter_only_in_columns_that_are_needed(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    import pyarrow as pa
    import pyarrow.parquet as pq

    drawn = make_confounded_domains(250, strengths=(0.95, 0.7), n_features=4, random_state=0)
    columns: dict[str, Any] = {f"x{i}": drawn.X[:, i] for i in range(4)}
    columns |= {"label": drawn.y, "domain": drawn.sample_domain.tolist()}
    pq.write_table(pa.table(columns), tmp_path / "old.parquet")
    columns |= {f"x{i}": drawn.X[:, i] + 0.01 for i in range(4)}
    columns["domain"][3] = None
    new = tmp_path / "new.parquet"
    pq.write_table(pa.table(columns), new)
    assert run("fit", tmp_path / "old.parquet", "--out", tmp_path / "run", "--quiet").code == 0
    model, local = tmp_path / "run" / "model", ("--engine", "local")
    ours, theirs = (_ask(run, "place", model, new, *rest) for rest in (local, ()))
    assert ours["alien"] == theirs["alien"] and ours["rows"] == theirs["rows"] == 500
    done = run("place", model, new, "--domain", "domain", *local)
    assert done.code == 2 and f"a row of {new} after row 0 has no domain" in done.err


def test_a_folder_of_parquet_files_needs_an_engine(run: Run, model: Path, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "1.parquet").write_bytes(b"")
    for words in (
        ("fit", parts, "--out", tmp_path / "out"),
        ("abduct", parts),
        ("audit", model, parts),
        ("place", model, parts),
    ):
        done = run(*words)
        assert done.code == 2 and "is a folder of Parquet files" in done.err, words
        assert "add --engine local" in done.err and done.err.count("\n") == 1
        shown = run(words[0], "--help").out
        assert "--engine also a folder of Parquet files" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--family", "hull"], "needs all rows in memory"),
        (["--features", "a"], "the model knows its columns"),
    ],
)
def test_audits_that_need_all_rows_are_refused(
    run: Run, bank: Path, model: Path, options: list[str], sentence: str
) -> None:
    done = run("audit", model, bank, "--engine", "local", *options)
    assert done.code == 2 and sentence in done.err
    done = run("audit", bank / "bank.json", bank, "--engine", "local")
    assert done.code == 2 and "is a file of probabilities" in done.err


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
