"""``regraft adapt``: the model that it writes, its learning curve, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from regraft import AdaptedClassifier, load
from regraft.data.banks import write_bank
from tests.helpers.commands import Run, list_names
from tests.helpers.tables import write_columns

WRITTEN = ["adapt.json", "model", "provenance.json"]


def test_labels_lead_to_a_model_that_predicts_and_is_audited(
    newcomer: Path, run: Run, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = ("adapt", newcomer / "latent", newcomer / "labelled.npz", "--draws", 2)
    ran = run(*command, "--out", out)
    assert (ran.code, ran.err) == (0, "") and list_names(out) == WRITTEN
    adapted = load(out / "model")
    assert isinstance(adapted, AdaptedClassifier)
    for sentence in adapted.certificate_.paragraphs():
        assert sentence in ran.out
    document = json.loads((out / "adapt.json").read_text())
    assert document["certificate"] == json.loads(json.dumps(adapted.certificate_.to_dict()))
    assert document["curve"]["labels"] == [0, 10, 30, 100] and document["curve"]["draws"] == 2
    assert "labels adapt refit no adaptation" in " ".join(ran.out.split())
    said = run("predict", out, newcomer / "labelled.npz")
    data = np.load(newcomer / "labelled.npz")
    assert f"accuracy: {100 * adapted.score(data['X'], data['y']):.1f}%" in said.out
    ran = run("predict", out, newcomer / "rows.npz", "--interval")
    assert (ran.code, ran.err.count("\n")) == (2, 1) and "so it has no interval" in ran.err
    ran = run("audit", out, newcomer / "sources.npz")
    assert ran.code == 0 and "was fitted on these very rows" in ran.err
    for again in ("place", "adapt"):
        more = ("--out", tmp_path / "more")
        ran = run(again, out, newcomer / "labelled.npz", *more)
        assert (ran.code, ran.err.count("\n")) == (2, 1) and "made by regraft fit" in ran.err
        assert list_names(tmp_path / "more") == []


def test_empty_cells_are_rows_without_labels(newcomer: Path, run: Run, tmp_path: Path) -> None:
    data = np.load(newcomer / "labelled.npz")
    labels = [str(label) if i < 12 else "" for i, label in enumerate(data["y"])]
    columns = {"truth": labels, **{f"x{i}": column for i, column in enumerate(data["X"].T)}}
    write_columns(tmp_path / "some.csv", columns)
    columns["truth"] = [int(label) if label else None for label in labels]
    write_columns(tmp_path / "some.parquet", columns)
    some = ("--label", "truth")
    given = [(newcomer / "some.npz",), (tmp_path / "some.csv", *some)]
    given += [(tmp_path / "some.parquet", *some)]
    found = []
    for i, arguments in enumerate(given):
        out = tmp_path / str(i)
        ran = run("adapt", newcomer / "latent", *arguments, "--out", out, "--json", "--quiet")
        found.append(json.loads(ran.out))
        assert found[-1].pop("files") == [str(out / n) for n in ("model", *WRITTEN[::2])]
    assert found[0]["certificate"]["labels"] == 12 and found[0]["curve"] is None
    assert found[0] == found[1] == found[2]


def test_labels_may_be_left_out(newcomer: Path, run: Run, tmp_path: Path) -> None:
    found = []
    for name, options in (("rows", ()), ("labelled", ("--no-labels",))):
        more = (*options, "--out", tmp_path / name, "--json", "--quiet")
        ran = run("adapt", newcomer / "latent", newcomer / f"{name}.npz", *more)
        found.append(json.loads(ran.out)["certificate"])
    assert found[0] == found[1] and found[0]["labels"] == 0


def test_the_hull_adapts_by_labels(newcomer: Path, run: Run, tmp_path: Path) -> None:
    command = ("adapt", newcomer / "hull", newcomer / "labelled.npz", "--draws", 0)
    ran = run(*command, "--out", tmp_path)
    assert (ran.code, ran.err) == (0, "") and "Weights of the sources' heads" in ran.out
    assert json.loads((tmp_path / "adapt.json").read_text())["curve"] is None


def test_a_page_shows_both_chapters(newcomer: Path, run: Run, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    rows, labelled = newcomer / "rows.npz", newcomer / "labelled.npz"
    assert run("place", newcomer / "latent", rows, "--out", tmp_path, "--quiet").code == 0
    command = ("adapt", newcomer / "latent", labelled, "--draws", 1, "--html")
    assert run(*command, "--out", tmp_path, "--quiet").code == 0
    page = (tmp_path / "report.html").read_text()
    for title in ("Where a new domain lies", "A model for a new domain", "What labels are worth"):
        assert f"{title}</h" in page


@pytest.mark.parametrize(
    ("model", "target", "options", "told"),
    [
        ("hull", "rows", (), "pass labels to adapt"),
        ("latent", "one_class", (), "all labels of the target are 1"),
        ("latent", "strange", (), "the target has the label 6"),
        ("latent", "narrow", (), "has 5 feature(s) but the model was fitted on 8"),
        ("latent", "source", (), "holds the rows of the source source 1"),
        ("latent", "three", (), "the target has 3 rows and no labels"),
        ("latent", "gap", (), "NaN or infinity"),
        ("latent", "labelled", ("--label", "truth"), "has no label column 'truth'"),
        ("latent", "labelled", ("--draws", -1), "draws is -1"),
    ],
)
def test_bad_input_is_told_in_one_line_and_writes_nothing(
    newcomer: Path,
    run: Run,
    tmp_path: Path,
    model: str,
    target: str,
    options: tuple[object, ...],
    told: str,
) -> None:
    command = ("adapt", newcomer / model, newcomer / f"{target}.npz", *options)
    ran = run(*command, "--out", tmp_path / "out")
    assert (ran.code, ran.err.count("\n")) == (2, 1) and told in ran.err
    assert not (tmp_path / "out").exists()


def test_a_model_is_not_replaced_by_its_own_adaptation(
    newcomer: Path, run: Run, tmp_path: Path
) -> None:
    shutil.copytree(newcomer / "latent", tmp_path / "run")
    for model in (tmp_path / "run", tmp_path / "run" / "model"):
        ran = run("adapt", model, newcomer / "rows.npz", "--out", tmp_path / "run")
        assert ran.code == 2 and "is the model to adapt: choose another folder" in ran.err


def test_features_of_another_encoder_are_refused(newcomer: Path, run: Run, tmp_path: Path) -> None:
    data, target = np.load(newcomer / "sources.npz"), np.load(newcomer / "labelled.npz")
    rows = data["X"], data["y"], data["domain"]
    write_bank(tmp_path / "bank", *rows, encoder="ours", fingerprint="a")
    assert run("fit", tmp_path / "bank", "--out", tmp_path / "run", "--quiet").code == 0
    fitted = tmp_path / "run"
    for name, encoder, fingerprint in (("same", "ours", "a"), ("other", "theirs", "b")):
        place = tmp_path / name
        domain = np.full(len(target["y"]), "new")
        write_bank(
            place, target["X"], target["y"], domain, encoder=encoder, fingerprint=fingerprint
        )
    same = run("adapt", fitted, tmp_path / "same", "--draws", 0, "--out", tmp_path / "out")
    assert (same.code, same.err) == (0, "")
    told = "features of theirs, but the model was fitted on those of ours"
    for model in (fitted, tmp_path / "out"):  # adapted models know it too
        ran = run("predict", model, tmp_path / "other")
        assert (ran.code, ran.err.count("\n")) == (2, 1) and told in ran.err
