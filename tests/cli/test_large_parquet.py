"""``--engine`` on Parquet files with texts and ids: what is said of them is what memory says."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft import make_confounded_domains
from regraft.estimators import streamed
from tests.helpers.commands import Run
from tests.helpers.tables import write_columns

pytest.importorskip("pyarrow", reason="the extra parquet is not installed")

LOCAL = "--engine", "local"
SEEN = "fitted on these very rows"
N = 1000


def _columns(seed: int, *strengths: float, rare: str = "green") -> dict[str, Any]:
    """Return numbers of several sizes, a text, of which the last three rows are rare, and ids."""
    size = N // len(strengths)
    drawn = make_confounded_domains(size, strengths=strengths, n_features=4, random_state=seed)
    columns: dict[str, Any] = {f"x{i}": drawn.X[:, i] * 10.0 ** (2 * i) + 0.1 + i for i in range(4)}
    columns["kind"] = ["red" if i % 2 else "blue" for i in range(N - 3)] + [rare] * 3
    columns["patient"] = [f"P{seed}-{i:04}" for i in range(N)]
    return columns | {"label": drawn.y, "domain": drawn.sample_domain.tolist()}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return write_columns(tmp_path / "old.parquet", _columns(0, 0.95, 0.7))


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an engine, such tables count as too large for memory."""
    monkeypatch.setattr(streamed, "SAMPLE_ROWS", 600)


def _fit(run: Run, table: Path, out: Path, *options: str) -> Path:
    done = run("fit", table, "--id", "patient", "--out", out, *options)
    assert done.code == 0, done.err
    return out / "model"


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("fit", [(), LOCAL], ids=["memory", "engine"])
def test_rows_of_the_fit_are_recognized_however_they_are_read(
    run: Run, old: Path, tmp_path: Path, fit: tuple[str, ...]
) -> None:
    model = _fit(run, old, tmp_path / "run", *fit)
    changed = _columns(0, 0.95, 0.7)
    changed["x2"][7] += 3e4  # as large as its numbers are
    other = write_columns(tmp_path / "other.parquet", changed)
    for audit in ((), LOCAL):
        assert SEEN in run("audit", model, old, *audit).err, audit
        assert SEEN not in run("audit", model, other, *audit).err, audit


@pytest.mark.usefixtures("in_parts")
def test_unknown_categories_are_counted_in_all_rows(run: Run, old: Path, tmp_path: Path) -> None:
    """The sample leaves out the three green rows of the table, and every white one is new."""
    known = _columns(0, 0.95, 0.7, rare="red")
    model = _fit(run, write_columns(tmp_path / "known.parquet", known), tmp_path / "run")
    new = write_columns(tmp_path / "new.parquet", _columns(1, 0.8, rare="white"))
    said = "did not occur in fit and count for nothing: 'kind' (3 rows)."
    for command in ("audit", "place"):
        for engine in ((), LOCAL):
            done = run(command, model, new, *engine)
            assert done.code == 0 and done.err.count(said) == 1, (command, engine, done.err)
            assert done.err.count("count for nothing") == 1


def test_a_fit_counts_what_its_sample_lacks(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed, "SAMPLE_ROWS", 300)
    columns = _columns(0, 0.95, 0.7)
    lone = list(columns["kind"])
    for seed in range(20):  # until the sample lacks the only row of a kind
        columns["kind"] = [*lone[: N - 3 - seed], "lone", *lone[N - 2 - seed :]]
        table = write_columns(tmp_path / "table.parquet", columns)
        done = run("fit", table, "--out", tmp_path / "run", "--drop", "patient", *LOCAL)
        assert done.code == 0
        if "did not occur in the sample" in done.err:
            break
    assert "count for nothing: 'kind' (1 row)." in done.err


def test_place_names_rows_by_their_ids(run: Run, old: Path, tmp_path: Path) -> None:
    model = _fit(run, old, tmp_path / "run")
    columns = _columns(1, 0.8)
    new = write_columns(tmp_path / "new.parquet", columns)
    answers = []
    for engine in ((), LOCAL):
        done = run("place", model, new, "--json", *engine)
        assert done.code == 0, done.err
        answers.append(json.loads(done.out)["alien"])
        first = answers[-1][0]["number"]
        named = f"row {first} (P1-{first - 1:04}): "
        assert named in run("place", model, new, *engine).out
        assert [row["name"] for row in answers[-1]] == [
            f"P1-{row['number'] - 1:04}" for row in answers[-1]
        ]
    assert answers[0] == answers[1]
    columns["subject"] = columns.pop("patient")
    renamed = write_columns(tmp_path / "renamed.parquet", columns)
    for engine in ((), LOCAL):
        assert named in run("place", model, renamed, "--id", "subject", *engine).out
        assert f"row {first}: " in run("place", model, renamed, *engine).out
        refused = run("place", model, renamed, "--id", "client", *engine)
        assert refused.code == 2 and "has no id column 'client'" in refused.err
    refused = run("fit", new, "--id", "client", "--out", tmp_path / "none", *LOCAL)
    assert refused.code == 2 and "has no id column 'client'" in refused.err


def test_what_engines_cannot_do_is_said_before_anything_is_read(run: Run, tmp_path: Path) -> None:
    gone, remedy = tmp_path / "gone.parquet", "leave it out, or leave out --engine."
    for options, named in (
        (("--class-groups",), "--class-groups"),
        (("--family", "hull"), "--family hull"),
    ):
        sentence = f"regraft: {named} needs all rows in memory: {remedy}\n"
        for words in (("fit", gone, "--out", tmp_path / "run"), ("audit", tmp_path, gone)):
            done = run(*words, *LOCAL, *options)
            assert (done.code, done.err) == (2, sentence), words
    done = run("audit", tmp_path, gone, *LOCAL, "--prior-shift", "-1")
    assert done.err == (
        "regraft: --prior-shift is -1.0: pass a number of nats, 0 or more, or leave it out for any "
        "mixture of the groups.\n"
    )


@pytest.mark.usefixtures("in_parts")
def test_a_pipeline_sees_the_same_features_of_a_bank_in_parts(run: Run, tmp_path: Path) -> None:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from regraft import CROClassifier, save, write_bank

    drawn = [
        make_confounded_domains(500, strengths=(0.95, 0.7), n_features=4, random_state=seed)
        for seed in range(2)
    ]
    model = make_pipeline(StandardScaler(), CROClassifier())
    data = drawn[0].X * 100.0 + 7.0, drawn[0].y
    model.fit(*data, croclassifier__sample_domain=drawn[0].sample_domain)
    save(model, tmp_path / "model")
    X = (drawn[1].X * 100.0 + 7.0).astype(np.float32)
    write_bank(tmp_path / "bank", X, drawn[1].y, drawn[1].sample_domain)
    answers = [
        run("audit", tmp_path / "model", tmp_path / "bank", "--json", *engine).out
        for engine in ((), LOCAL)
    ]
    places = [[each["accuracy"] for each in json.loads(said)["sources"]] for said in answers]
    assert places[0] == pytest.approx(places[1], abs=1e-9)


def test_columns_of_the_wrong_kind_are_told_as_in_memory(run: Run, tmp_path: Path) -> None:
    columns = _columns(0, 0.95, 0.7)
    for role, values, kind in (
        ("label", np.arange(N) / 7, "measurements"),
        ("domain", [f"d{i}" for i in range(N)], "ids"),
    ):
        table = write_columns(tmp_path / "table.parquet", columns | {role: values})
        for engine in ((), LOCAL):
            done = run("fit", table, "--out", tmp_path / "run", *engine)
            assert done.code == 2 and done.err.count("\n") == 1
            assert f"{role} column" in done.err
            assert f"has 1,000 different values in 1,000 rows, as {kind} have" in done.err


def test_blanks_around_the_names_of_domains_do_not_count(run: Run, tmp_path: Path) -> None:
    columns = _columns(0, 0.95, 0.7)
    columns["domain"] = [name + " " * (i % 3 == 0) for i, name in enumerate(columns["domain"])]
    table = write_columns(tmp_path / "table.parquet", columns)
    answers = []
    for i, engine in enumerate(((), LOCAL)):
        out = tmp_path / f"run{i}"
        done = run("fit", table, "--id", "patient", "--out", out, "--json", *engine)
        assert done.err.count("'source 0', 'source 0 ' differ only in blanks around them") == 1
        answers.append(json.loads(done.out)["source_accuracy"])
    assert answers[0] == answers[1] and list(answers[0]) == ["source 0", "source 1"]


def test_columns_of_ids_are_looked_for_and_known_with_an_engine_too(
    run: Run, old: Path, tmp_path: Path
) -> None:
    new = _columns(1, 0.95, 0.7) | {"key": range(N), "domain": ["a", "b"] * (N // 2)}
    table = write_columns(tmp_path / "table.parquet", new)
    model = _fit(run, old, tmp_path / "run")
    for engine in ((), LOCAL):
        refused = run("audit", model, old, "--id", "nokey", *engine)
        assert refused.code == 2 and "nokey" in refused.err and refused.err.count("\n") == 1
        for command in ("audit", "place"):
            done = run(command, model, table, "--id", "key", *engine)
            assert done.code == 0, done.err
            assert "'key'" not in done.err and "not read: 'patient'" in done.err


def test_files_may_write_features_in_several_ways(run: Run, tmp_path: Path) -> None:
    columns = _columns(0, 0.95, 0.7) | {"kind": [3, 4] * (N // 2)}
    folder = tmp_path / "rows"
    folder.mkdir()
    write_columns(folder / "a.parquet", columns)
    write_columns(folder / "b.parquet", columns | {"kind": ["3", "4"] * (N // 2)})
    empty = {name: cells[:0] for name, cells in columns.items()}
    write_columns(folder / "c.parquet", empty | {"label": np.array([], str)})
    done = run("fit", folder, "--id", "patient", "--out", tmp_path / "run", *LOCAL)
    assert done.code == 0, done.err
    assert f"fitting {2 * N} rows" in done.out + done.err


@pytest.mark.parametrize("role", ["label", "domain"])
def test_files_that_write_a_column_in_another_way_are_refused(
    run: Run, tmp_path: Path, role: str
) -> None:
    columns = _columns(0, 0.95, 0.7) | {"domain": [1, 2] * (N // 2)}
    folder = tmp_path / "rows"
    folder.mkdir()
    write_columns(folder / "a.parquet", columns)
    write_columns(folder / "b.parquet", columns | {role: list(map(str, columns[role]))})
    for command in (("fit",), ("abduct",)):
        done = run(*command, folder, "--out", tmp_path / "run", *LOCAL)
        assert done.code == 2 and done.err.count("\n") == 1
        assert f"column {role!r} holds texts in" in done.err and "and numbers in" in done.err


def test_columns_of_one_name_are_refused(run: Run, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = [*_columns(0, 0.95, 0.7).items(), ("x2", [1.0, 2.0] * (N // 2))]
    table = pa.Table.from_arrays([pa.array(v) for _, v in columns], [k for k, _ in columns])
    parquet.write_table(table, tmp_path / "twice.parquet")
    for engine in ((), LOCAL):
        done = run("fit", tmp_path / "twice.parquet", "--out", tmp_path / "run", *engine)
        assert done.code == 2 and "has more than one column 'x2'" in done.err
