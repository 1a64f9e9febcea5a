"""Every command takes tables as they are, and needs no pandas for it."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.commands import Once, Run, call, run_apart
from tests.helpers.mixed_table import mixed_columns
from tests.helpers.paths import ROOT
from tests.helpers.tables import write_columns

TABLES = ROOT.parent / "shared" / "data" / "tables"
COLUMNS = ("--label", "ill", "--domain", "place")
# As if pandas were not installed: whoever imports it fails.
RUN_ALL = """
import sys, json
class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ImportError(name)
sys.meta_path.insert(0, NoPandas())
from regraft.cli.app import app
for words in json.loads(sys.argv[1]):
    try:
        app(words)
    except SystemExit as end:
        assert not end.code, (words, end.code)
assert "pandas" not in sys.modules
"""


@pytest.fixture(scope="module")
def clinic(once: Once) -> Path:
    """A raw table, a model fitted on it, and a table of a third clinic with other columns."""

    def make(folder: Path) -> None:
        folder.mkdir()
        write_columns(folder / "data.csv", mixed_columns())
        write_columns(folder / "data.parquet", mixed_columns())
        new = mixed_columns(seed=3, n=60)
        del new["place"]
        new["stage"][:4] = "final"
        new["visits"] = np.arange(len(new["age"]))
        write_columns(folder / "new.csv", new)
        options = ("--quiet", "--id", "patient", "--out", folder / "fit")
        call(["fit", folder / "data.csv", *COLUMNS, *options])

    return once("clinic", make)


def predictions(folder: Path) -> list[dict[str, str]]:
    with (folder / "predictions.csv").open() as file:
        return list(csv.DictReader(file))


def test_predictions_carry_ids_and_name_what_is_odd(tmp_path: Path, clinic: Path, run: Run) -> None:
    ran = run("predict", clinic / "fit", clinic / "new.csv", "--interval", "--out", tmp_path)
    assert ran.code == 0, ran.err
    assert "the model does not know are not read: 'visits'" in ran.err and "accuracy: " in ran.out
    assert "'stage' (4 rows)" in ran.err and ran.err.count("\n") == 2
    rows = predictions(tmp_path)
    assert rows[0]["patient"].startswith("P") and len({row["patient"] for row in rows}) == 120
    assert {"probability_no", "probability_yes", "least_no", "largest_no", "decided"} <= {*rows[0]}
    groups = [name for name in rows[0] if name.startswith("group_")]
    assert len(groups) > 1
    assert sum(float(rows[0][name]) for name in groups) == pytest.approx(1)


def test_a_model_knows_its_label_domain_and_id(tmp_path: Path, clinic: Path, run: Run) -> None:
    model, data = clinic / "fit", clinic / "data.csv"
    audited = run("audit", model, data, "--json")
    assert audited.code == 0 and "does not know" not in audited.err
    assert audited.out == run("audit", model, data, *COLUMNS, "--id", "patient", "--json").out
    new, out = clinic / "new.csv", ("--draws", "0", "--out", tmp_path / "out")
    for words in (("place", model, new), ("drift", model, new), ("adapt", model, new, *out)):
        ran = run(*words)
        assert ran.code == 0 and "does not know are not read: 'visits'." in ran.err
    adapted = run("predict", tmp_path / "out", data)  # a model that was adapted knows them, too
    assert adapted.code == 0 and "accuracy on clinic 0" in adapted.out and adapted.err == ""
    seen = "The model was fitted on these very rows: expect less on new ones."
    assert seen in run("predict", model, data).out and seen not in run("predict", model, new).out
    ran = run("predict", model, data, "--label", "il")  # what is typed must be there
    assert ran.code == 2 and "did you mean 'ill'?" in ran.err


def test_formats_agree(tmp_path: Path, clinic: Path, run: Run) -> None:
    for suffix in ("csv", "parquet"):
        ran = run("predict", clinic / "fit", clinic / f"data.{suffix}", "--out", tmp_path / suffix)
        assert ran.code == 0, ran.err
    assert predictions(tmp_path / "csv") == predictions(tmp_path / "parquet")


def test_labels_may_be_missing_and_must_be_classes(tmp_path: Path, clinic: Path, run: Run) -> None:
    columns = mixed_columns(seed=3, n=60)
    columns["ill"][:20] = "NaN"
    arguments = ("predict", clinic / "fit", tmp_path / "t.csv", *COLUMNS)
    write_columns(tmp_path / "t.csv", columns)
    assert "accuracy over the 100 of 120 rows with labels" in run(*arguments).out
    columns["ill"][30:] = "maybe"
    write_columns(tmp_path / "t.csv", columns)
    ran = run(*arguments)
    assert ran.code == 2 and "accuracy" not in ran.out
    assert "90 of 120 rows have a label that is no class of the model ('maybe'" in ran.err
    del columns["age"], columns["stage"]
    write_columns(tmp_path / "t.csv", columns)
    assert "the data lacks 'age', 'stage', which" in run(*arguments).err


def test_columns_are_chosen_once_for_all_commands(tmp_path: Path, clinic: Path, run: Run) -> None:
    data = clinic / "data.csv"
    chosen = ("--features", "age,stage,smoker", "--categorical", "smoker")
    assert run("fit", data, *COLUMNS, *chosen, "--out", tmp_path).code == 0
    assert json.loads((tmp_path / "fit.json").read_text())["n_features"] == 7
    ran = run("abduct", data, *COLUMNS, "--drop", "units,dose", "--id", "patient")
    assert ran.code == 0 and "dose" not in ran.out and "columns left out" not in ran.err
    ran = run("diagnose", data, *COLUMNS, "--drop", "unit")
    assert ran.code == 2 and "drop names 'unit', which the table does not have" in ran.err
    ran = run("audit", clinic / "fit", data, *COLUMNS, "--drop", "age")
    assert ran.code == 2 and "the model knows its columns" in ran.err


def _write_domains(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.slow
@pytest.mark.skipif(not TABLES.is_dir(), reason="the tables are not at hand")
@pytest.mark.parametrize(
    ("name", "label", "domain", "left_out", "options"),
    [
        ("heart", "HeartDisease", "dataset", "VA Long Beach", ()),
        ("adult", "income", "race", "Black", ()),
        ("bank", "y", "month", "jul", ("--drop", "duration")),
    ],
)
def test_every_command_takes_the_raw_tables_without_pandas(
    tmp_path: Path, name: str, label: str, domain: str, left_out: str, options: tuple[str, ...]
) -> None:
    with gzip.open(TABLES / f"{name}.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    if name != "heart":  # some rows of three domains suffice
        kept = {"adult": ("White", "Black", "Asian-Pac-Islander"), "bank": ("may", "jul", "nov")}
        parts = [[row for row in rows if row[domain] == each] for each in kept[name]]
        rows = [row for part in parts for row in part[:200]]
    sources, target = tmp_path / "sources.csv", tmp_path / "target.csv"
    _write_domains(sources, [row for row in rows if row[domain] != left_out])
    _write_domains(target, [row for row in rows if row[domain] == left_out])
    named = ("--label", label, "--domain", domain)
    model, out = tmp_path / "fit", ("--quiet", "--out", tmp_path / "out")
    commands = [
        ("fit", sources, *named, *options, "--quiet", "--out", model),
        ("predict", model, target, *out),
        ("audit", model, target, *out),
        ("place", model, target, *out),
        ("adapt", model, target, "--draws", "0", *out),
        ("predict", tmp_path / "out", target, "--quiet"),
        ("drift", model, target, "--batch", "50", *out),
        ("abduct", sources, *named, *options, *out),
    ]
    if name == "heart":  # these take longer
        commands += [(each, sources, *named, *out) for each in ("frontier", "diagnose")]
    ran = run_apart(json.dumps([list(map(str, c)) for c in commands]), code=RUN_ALL)
    assert ran.code == 0, ran.err
    found = predictions(tmp_path / "out")
    assert len(found) == sum(row[domain] == left_out for row in rows)
    assert ("id" in found[0]) == (name == "heart")
