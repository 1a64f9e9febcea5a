"""The command line: what it prints, what it writes, and how it fails."""

import csv
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft import CROClassifier, GroupCertificate, TableFeatures, load
from regraft._version import __version__
from regraft.estimators.abduction import summarize_factor
from tests.helpers.commands import Run, apart, list_names
from tests.helpers.problems import make_problem, write_table

# Tests compare with arrays, which have no names.
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")

FITTED = ["certificate.json", "fit.json", "model", "provenance.json"]


def test_one_line_tells_an_error_or_a_warning(run: Run, tmp_path: Path, problem: Any) -> None:
    assert run("--version").out == f"regraft {__version__}\n"
    ran = run("fit", tmp_path / "none.csv", "--out", tmp_path / "o", "--json")
    assert ran.code == 2 and ran.out == ""
    assert ran.err.splitlines()[-1].startswith("regraft: ")
    path = write_table(tmp_path / "one.csv", problem, rows=200)
    ran = run("fit", path, "--out", tmp_path / "o", "--json")
    lines = [line for line in ran.err.splitlines() if line.startswith("warning: ")]
    assert len(lines) == 1 and "one domain" in lines[0]
    assert json.loads(ran.out)["certificate"]["n_groups"] == 1


def test_fit_tells_rounds_and_replaces_models(tmp_path: Path, folder: Path, run: Run) -> None:
    hull = ("--family", "hull", "--objective", "regret")
    ran = run("fit", folder / "data.csv", "--out", tmp_path / "o", *hull)
    assert ran.code == 0 and ran.err == ""
    for text in (
        "round 1: regret in the worst domain",
        "source 0",
        "held-out rows",
        "Not certified",
    ):
        assert text in ran.out
    assert list_names(tmp_path / "o") == FITTED
    certificate = json.loads((tmp_path / "o" / "certificate.json").read_text())
    assert certificate["objective"] == "regret"
    assert f"Its regret is at most {certificate['regret']:.3f} nats." in ran.out
    assert f"within {certificate['radius']:.3g} nats" in ran.out
    assert load(tmp_path / "o" / "model").feature_names_in_.tolist() == [f"f{i}" for i in range(6)]
    (tmp_path / "o" / "notes.txt").write_text("mine")
    hull = ("--family", "hull", "--radius", 2)
    ran = run("fit", folder / "data.npz", "--out", tmp_path / "o", *hull)
    assert ran.code == 0 and load(tmp_path / "o" / "model").get_params()["radius"] == 2
    assert "warning: a radius of 2 nats is 10 times what the sources support (0.21" in ran.err
    assert list_names(tmp_path / "o") == sorted([*FITTED, "notes.txt"])


def test_fit_by_default_tells_what_was_found_and_what_is_held_out(
    tmp_path: Path, folder: Path, run: Run
) -> None:
    ran = run("fit", folder / "data.npz", "--out", tmp_path)
    assert ran.code == 0 and ran.err == "" and list_names(tmp_path) == FITTED
    model = load(tmp_path / "model")
    assert isinstance(model, CROClassifier) and model.get_params() == CROClassifier().get_params()
    c = model.certificate_
    assert isinstance(c, GroupCertificate) and c.n_groups == 2 and c.abduction["warnings"]
    said = " ".join(ran.out.split())
    assert "training" not in said and "held-out rows" in said and "round 1:" in said
    for ours, erm in zip(c.sources, c.pooled_sources, strict=True):
        assert f"{ours.name} {100 * erm.accuracy:.1f}% {100 * ours.accuracy:.1f}%" in said
    for sentence in (summarize_factor(c.abduction), *c.abduction["warnings"], *c.paragraphs()):
        assert sentence in said
    document = json.loads((tmp_path / "fit.json").read_text())
    assert GroupCertificate.from_dict(document["certificate"]) == c
    assert document["source_accuracy"] == {each.name: each.accuracy for each in c.sources}


def test_fit_passes_the_settings_of_the_latent_family_on(
    tmp_path: Path, folder: Path, run: Run
) -> None:
    settings = ("--prior-shift", 1.5, "--class-groups", "--ridge", 0.01)
    assert run("fit", folder / "data.npz", "--out", tmp_path, *settings).code == 0
    given = load(tmp_path / "model").get_params()
    assert [given[name] for name in ("prior_shift", "class_groups", "ridge")] == [1.5, True, 0.01]


def test_predict_takes_a_head_of_the_latent_family(
    tmp_path: Path, folder: Path, problem: Any, run: Run
) -> None:
    run("fit", folder / "data.csv", "--out", tmp_path, "--quiet")
    document = json.loads(run("predict", tmp_path, folder / "data.csv", "--json").out)
    X = TableFeatures().fit_transform(problem.X)  # numbers of named columns are scaled
    expected = CROClassifier().fit(X, problem.y, problem.domain).predict_proba(X)
    np.testing.assert_allclose(document["probabilities"], expected)


def test_every_format_gives_the_same_model(
    tmp_path: Path, folder: Path, problem: Any, run: Run
) -> None:
    documents = []
    X = TableFeatures().fit_transform(problem.X)  # numbers of named columns are scaled
    np.savez(tmp_path / "data.npz", X=X, y=problem.y, domain=problem.domain)
    for data in (tmp_path / "data.npz", folder / "data.csv", folder / "data.parquet"):
        suffix = data.suffix[1:]
        ran = run("fit", data, "--out", tmp_path / suffix, "--json")
        document = json.loads(ran.out)
        files, _ = document.pop("files"), document.pop("run", None)  # which differ
        assert sorted(files) == [str(tmp_path / suffix / name) for name in FITTED]
        documents.append(document)
    assert documents[0] == documents[1] == documents[2]
    assert set(documents[0]) == {"certificate", "source_accuracy"}
    assert set(documents[0]["source_accuracy"]) == {"source 0", "source 1"}


def test_predict_scores_what_it_can(tmp_path: Path, folder: Path, problem: Any, run: Run) -> None:
    ran = run("predict", folder / "fit", folder / "data.csv", "--out", tmp_path)
    model = load(folder / "fit" / "model")
    correct = model.predict(problem.X) == problem.y
    assert f"accuracy: {100 * correct.mean():.1f}%" in ran.out
    first = 100 * correct[problem.domain == "source 0"].mean()
    assert f"accuracy on source 0: {first:.1f}%" in ran.out
    with (tmp_path / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["row", "domain", "label", "probability_0", "probability_1"]
    assert [row["domain"] for row in rows] == problem.domain.tolist()
    assert [int(row["row"]) for row in rows] == list(range(1, len(rows) + 1))
    assert [int(row["label"]) for row in rows] == model.predict(problem.X).tolist()
    written = [[float(row["probability_0"]), float(row["probability_1"])] for row in rows]
    assert written == model.predict_proba(problem.X).tolist()
    assert list_names(tmp_path) == ["predictions.csv", "provenance.json"]


def test_predict_without_labels_or_domains_and_columns_by_name(
    tmp_path: Path, folder: Path, problem: Any, run: Run
) -> None:
    np.savez(tmp_path / "x.npz", X=problem.X)
    ran = run("predict", folder / "fit" / "model", tmp_path / "x.npz")
    assert ran.code == 0 and "accuracy" not in ran.out
    document = json.loads(run("predict", folder / "fit", tmp_path / "x.npz", "--json").out)
    assert document["accuracy"] is None and document["accuracy_by_domain"] == {}
    assert document["labels"] == load(folder / "fit" / "model").predict(problem.X).tolist()
    assert document["classes"] == [0, 1] and document["files"] == []
    (tmp_path / "gap.csv").write_text("f5,f4,f3,f2,f1,f0,label\n1,2,3,4,5,6,\n1,2,3,4,5,6,1\n")
    ran = run("predict", folder / "fit", tmp_path / "gap.csv")
    assert ran.code == 0 and "accuracy over the 1 of 2 rows" in ran.out and ran.err == ""
    lines = [line.split(",") for line in (folder / "data.csv").read_text().splitlines()]
    (tmp_path / "shuffled.csv").write_text("\n".join(",".join(line[::-1]) for line in lines))
    answers = [
        json.loads(run("predict", folder / "fit", data, "--json").out)["probabilities"]
        for data in (folder / "data.csv", tmp_path / "shuffled.csv")
    ]
    assert answers[0] == answers[1]


def test_audit_of_probabilities_is_the_audit_of_the_model(
    tmp_path: Path, folder: Path, problem: Any, run: Run
) -> None:
    radii = "--family", "hull", "--radii", "0,1,4"
    lines = (folder / "data.csv").read_text().splitlines(keepends=True)
    data = tmp_path / "new.csv"  # not just the rows that it was fitted on
    data.write_text("".join(lines[:1] + lines[6:]))
    run("predict", folder / "fit", data, "--out", tmp_path)
    model = load(folder / "fit" / "model")
    np.savez(tmp_path / "p.npz", probabilities=model.predict_proba(problem.X[5:]))
    # Of a table, domains would be made of features that are scaled by these rows.
    rows = {"y": problem.y[5:], "domain": problem.domain[5:]}
    np.savez(tmp_path / "new.npz", X=model[:-1].transform(problem.X[5:]), **rows)
    curves = [json.loads(run("audit", folder / "fit", data, *radii, "--json").out)]
    for file in ("predictions.csv", "p.npz"):
        ran = run("audit", tmp_path / file, tmp_path / "new.npz", *radii, "--json")
        curves.append(json.loads(ran.out))
    assert curves[0] == curves[1] == curves[2]
    assert [point["radius"] for point in curves[0]["points"]] == [0, 1, 4]


def test_audit_matches_labels_by_name(tmp_path: Path, problem: Any, run: Run) -> None:
    """Text sorts "10" before "2", numbers do not."""
    y = np.where(problem.y == 1, 10, 2)
    curves = []
    for labels in (y, y.astype(str)):
        data = tmp_path / f"{labels.dtype.kind}.npz"
        np.savez(data, X=problem.X, label=labels, domain=problem.domain)
        run("fit", data, "--out", tmp_path / data.stem, "--family", "hull", "--radius", "1")
        run("predict", tmp_path / data.stem, data, "--out", tmp_path / data.stem)
        probabilities = tmp_path / data.stem / "predictions.csv"
        ran = run("audit", probabilities, tmp_path / "i.npz", "--json")
        curves.append(json.loads(ran.out)["source_accuracy"])
    assert curves[0] == pytest.approx(curves[1], abs=0.01)


def test_audit_and_frontier_take_a_rank(tmp_path: Path, run: Run) -> None:
    data = tmp_path / "data.npz"
    problem = make_problem(seed=1, n=60, classes=3)
    np.savez(data, X=problem.X, y=problem.y, domain=problem.domain)
    radii = ("--family", "hull", "--radii", "1", "--json")
    run("fit", data, "--out", tmp_path / "fit", "--family", "hull", "--radius", "1")
    for line in (("audit", tmp_path / "fit", data), ("frontier", data)):
        ranks = [
            json.loads(run(*line, *radii, "--device", "cpu", *rank).out)["points"]
            for rank in ((), ("--rank", 1))
        ]
        assert ranks[0] != ranks[1]


def test_audit_and_frontier_write_json_and_pictures(tmp_path: Path, folder: Path, run: Run) -> None:
    data, out = folder / "data.csv", tmp_path / "new" / "out"
    hull = ("--family", "hull", "--radii", "0,2")
    ran = run("audit", folder / "fit", data, *hull, "--out", out)
    assert ran.code == 0 and "lowest accuracy" in ran.out
    assert "fitted on these very rows" in ran.err
    ran = run("frontier", data, *hull, "--out", out, "--json")
    document = json.loads(ran.out)
    names = ["audit.json", "audit.png", "frontier.json", "frontier.png", "provenance.json"]
    assert list_names(out) == names
    assert document.pop("files") == [str(out / name) for name in names[2:]]
    assert json.loads((out / "frontier.json").read_text()) == document
    assert (out / "audit.png").read_bytes().startswith(b"\x89PNG")
    ran = run("frontier", data, *hull, "--objective", "regret")
    assert ran.code == 0 and "training radius" in ran.out and "fitted at radius 2" in ran.out


@pytest.mark.parametrize("group", ["", "embed", "moral"])
def test_without_a_command_there_is_help(run: Run, group: str) -> None:
    ran = run(*group.split())
    assert ran.code in (0, 2) and "Commands:" in ran.out + ran.err
    assert "regraft: " not in ran.err


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_without_permission(tmp_path: Path, folder: Path, run: Run) -> None:
    tmp_path.chmod(0o500)
    ran = run("fit", folder / "data.csv", "--out", tmp_path / "o")
    tmp_path.chmod(0o700)
    assert ran.code == 2 and "not writable" in ran.err


@pytest.mark.slow
def test_a_terminal_sees_a_spinner_and_a_pipe_sees_lines(folder: Path) -> None:
    # Square brackets are markup to rich, and would be an error in this order.
    (folder / "[").mkdir(exist_ok=True)
    shutil.copy(folder / "data.csv", folder / "[" / "a].csv")
    pty = pytest.importorskip("pty")
    own, other = pty.openpty()
    settings = apart("predict", "fit", "[/a].csv", "--json")
    ran = subprocess.run(**settings, cwd=folder, stdout=subprocess.PIPE, stderr=other)
    os.close(other)
    shown = os.read(own, 100_000).decode()
    os.close(own)
    assert ran.returncode == 0
    assert len(json.loads(ran.stdout)["labels"]) == 600
    assert "\x1b[" in shown and "reading [/a].csv" in shown
