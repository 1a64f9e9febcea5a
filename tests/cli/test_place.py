"""``regraft place``: where a domain lies, the rows that are alien to it, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from regraft import CROClassifier, Placement, load, place
from regraft.encoders.embedding import embed_images
from tests.helpers.commands import Once, Run, list_names
from tests.helpers.toy_encoders import ToyImages

RED, BLUE, GREEN = (200, 90, 90), (90, 90, 200), (60, 220, 60)


def draw(folder: Path, colours: dict[tuple[str, str], list[tuple[int, int, int]]]) -> None:
    """Write noisy images of these colours for each domain and class."""
    random = np.random.default_rng(0)
    for (domain, label), wanted in colours.items():
        (folder / domain / label).mkdir(parents=True)
        for i, colour in enumerate(wanted):
            pixels = np.array(colour) + random.normal(0, 20, (8, 10, 3)) + random.normal(0, 12, 3)
            image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
            image.save(folder / domain / label / f"{i:03}.png")


@pytest.fixture(scope="module")
def images(once: Once) -> Path:
    """A model of red and blue images, and the bank of a domain that has green ones too."""

    def make(folder: Path) -> None:
        day = {("day", "a"): [RED] * 54 + [BLUE] * 6, ("day", "b"): [RED] * 6 + [BLUE] * 54}
        night = {("night", "a"): [RED] * 30 + [BLUE] * 30, ("night", "b"): [RED, BLUE] * 30}
        draw(folder / "sources", day | night)
        draw(folder / "target", {("new", "a"): [RED] * 20 + [GREEN] * 6 + [BLUE] * 30})
        for name in ("sources", "target"):
            embed_images(folder / name, ToyImages(), folder / f"{name} bank")
        draw(folder / "other", {("new", "a"): [RED] * 12})
        embed_images(folder / "other", ToyImages(fingerprint="e" * 64), folder / "other bank")

    return once("place-images", make)


def test_it_says_what_place_says_and_writes_it(newcomer: Path, run: Run, tmp_path: Path) -> None:
    ran = run("place", newcomer / "latent", newcomer / "rows.npz", "--out", tmp_path)
    assert (ran.code, ran.err) == (0, "")
    model = load(newcomer / "latent" / "model")
    assert isinstance(model, CROClassifier)
    expected = place(model, np.load(newcomer / "rows.npz")["X"])
    for sentence in expected.paragraphs():
        assert sentence in ran.out
    said = " ".join(ran.out.split())
    certified = model.certificate_.accuracy_bound
    assert f"expected to have {100 * expected.expected_accuracy:.1f}% accuracy" in said
    assert f"at least {100 * certified:.1f}% in every mixture of the groups" in said
    source = list(expected.source_shares.values())
    numbers = (expected.shares[0], expected.lower[0], expected.upper[0], *(s[0] for s in source))
    assert " ".join(["0", *(f"{100 * number:.1f}%" for number in numbers)]) in said
    listed = ", ".join(str(row + 1) for row in expected.alien_rows)
    assert f"rows {listed} (the first row is 1)" in said
    assert list_names(tmp_path) == ["place.json", "provenance.json"]
    (tmp_path / "report.html").write_text("from before")
    again = run("place", newcomer / "latent", newcomer / "rows.npz", "--out", tmp_path)
    assert "report.html is out of date" in again.out + again.err
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "report.html").write_text("of another command")
    other = run("predict", newcomer / "latent", newcomer / "rows.npz", "--out", tmp_path / "p")
    assert other.code == 0 and "from before" not in other.out + other.err
    shutil.rmtree(tmp_path / "p")
    document = json.loads((tmp_path / "place.json").read_text())
    assert Placement.from_dict(document) == expected
    assert document["certified_accuracy"] == certified
    assert [row["number"] - 1 for row in document["alien"]] == list(expected.alien_rows)


def test_labels_make_no_difference(newcomer: Path, run: Run) -> None:
    found = [
        json.loads(run("place", newcomer / "latent", newcomer / f"{name}.npz", "--json").out)
        for name in ("rows", "labelled", "some")
    ]
    assert found[0] == found[1] == found[2]


def test_banks_show_what_is_alien(images: Path, run: Run, tmp_path: Path) -> None:
    assert run("fit", images / "sources bank", "--out", tmp_path / "run", "--quiet").code == 0
    command = ("place", tmp_path / "run", images / "target bank")
    ran = run(*command, "--out", tmp_path / "out")
    assert (ran.code, ran.err) == (0, "")
    assert "Your domain is not a mixture of what the sources hold" in ran.out
    shown = re.findall(r"^  new/a/(\d{3})\.png$", ran.out, re.MULTILINE)
    assert len(shown) == 6 and "in the report (--html)" in ran.out
    green = {f"{i:03}" for i in range(20, 26)}
    assert len(green & set(shown)) >= 5
    document = json.loads((tmp_path / "out" / "place.json").read_text())
    assert all(row["picture"] and row["domain"] == "new" for row in document["alien"])
    ran = run("place", tmp_path / "run", images / "other bank", "--out", tmp_path / "none")
    assert ran.code == 2 and list_names(tmp_path / "none") == []
    assert "features of other weights of toy, but the model was fitted on those of toy" in ran.err


@pytest.mark.parametrize(
    ("model", "target", "told"),
    [
        ("hull", "rows", "the family hull learns nothing from unlabelled rows"),
        ("latent", "three", "the target has 3 rows: pass 10 or more"),
        ("latent", "narrow", "has 5 feature(s) but the model was fitted on 8"),
        ("latent", "gap", "NaN or infinity"),
        ("latent", "source", "holds the rows of the source source 1"),
        ("latent", "missing", "does not exist"),
    ],
)
def test_bad_input_is_told_in_one_line_and_writes_nothing(
    newcomer: Path, run: Run, tmp_path: Path, model: str, target: str, told: str
) -> None:
    ran = run("place", newcomer / model, newcomer / f"{target}.npz", "--out", tmp_path / "out")
    assert (ran.code, ran.err.count("\n")) == (2, 1) and told in ran.err
    assert not (tmp_path / "out").exists()


def test_without_the_rows_of_the_sources(newcomer: Path, run: Run, tmp_path: Path) -> None:
    model = shutil.copytree(newcomer / "latent" / "model", tmp_path / "model")
    (model / "reference.safetensors").unlink()
    ran = run("place", model, newcomer / "rows.npz")
    assert (ran.code, ran.err.count("\n")) == (2, 1) and "reference.safetensors" in ran.err
    assert run("predict", model, newcomer / "rows.npz").code == 0


def test_several_domains_are_warned_of(newcomer: Path, run: Run, tmp_path: Path) -> None:
    X: Any = np.load(newcomer / "rows.npz")["X"]
    np.savez(tmp_path / "two.npz", X=X, domain=np.arange(len(X)) % 2)
    ran = run("place", newcomer / "latent", tmp_path / "two.npz")
    assert ran.code == 0 and "warning: the target has 2 domains (0, 1)" in ran.err


def test_domains_may_be_texts_and_numbers(newcomer: Path, run: Run, tmp_path: Path) -> None:
    X: Any = np.load(newcomer / "rows.npz")["X"]
    rows = [
        {f"f{j}": value for j, value in enumerate(x)} | {"domain": ("a", 3)[i % 2]}
        for i, x in enumerate(X.tolist())
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (tmp_path / "two.jsonl").write_text(lines, encoding="utf-8")
    ran = run("place", newcomer / "latent", tmp_path / "two.jsonl", "--domain", "domain")
    assert ran.code == 0 and "warning: the target has 2 domains (3, a)" in ran.err
