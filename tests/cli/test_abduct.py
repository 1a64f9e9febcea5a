"""``regraft abduct``: what it says of tables, images and texts, and what it writes."""

import base64
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from regraft import make_confounded_domains, write_bank
from regraft.encoders.embedding import embed_images, embed_texts
from regraft.encoders.text_models import HashedEncoder
from tests.helpers.commands import Once, Run, list_names
from tests.helpers.hostile_table import HOSTILE, write_hostile_table
from tests.helpers.tables import write_columns
from tests.helpers.toy_encoders import ToyImages

STRENGTHS = {"day": 0.9, "night": 0.55}
COLOURS = {True: (200, 90, 90), False: (90, 90, 200)}
WORDS = {True: "cheap parcel", False: "fine voyage"}


@pytest.fixture(scope="module")
def table(once: Once) -> Path:
    """A table whose column ``colour`` is the hidden factor, in each source tied to the label."""

    def make(folder: Path) -> None:
        folder.mkdir()
        columns: dict[str, list[Any]] = {
            name: [] for name in ("label", "domain", "size", "colour", "<b>noise</b>")
        }
        for domain, label, factor, random in rows(150):
            numbers = factor * 4.0, random.normal() + label, random.normal()
            values = (f"y{label}", domain, numbers[1], numbers[0] + random.normal(), numbers[2])
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
        write_columns(folder / "table.csv", columns)

    return once("abduct-table", make) / "table.csv"


@pytest.fixture(scope="module")
def images(once: Once) -> Path:
    """A folder with ``images`` and the bank made of them, ``bank``."""

    def make(folder: Path) -> None:
        for i, (domain, label, factor, random) in enumerate(rows(60)):
            place = folder / "images" / domain / f"y{label}"
            place.mkdir(parents=True, exist_ok=True)
            noise = random.normal(0, 15, (8, 10, 3))
            pixels = (np.array(COLOURS[factor]) + noise).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(place / f"{i:03}.png")
        embed_images(folder / "images", ToyImages(), folder / "bank")

    return once("abduct-images", make)


def rows(each: int) -> Any:
    """Yield domain, label and factor of ``each`` rows a class and source, and a generator."""
    random = np.random.default_rng(0)
    for domain, strength in STRENGTHS.items():
        for label in (0, 1):
            for i in range(each):
                agrees = i < strength * each
                yield domain, label, agrees == bool(label), random


def document(run: Run, *arguments: object) -> dict[str, Any]:
    ran = run("abduct", *arguments, "--json", "--quiet")
    assert ran.code == 0
    found: dict[str, Any] = json.loads(ran.out)
    return found


def is_red(picture: str) -> bool:
    with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
        red, _, blue = np.asarray(image).mean(axis=(0, 1))
    return bool(red > blue)


def test_a_table_shows_its_most_different_columns(table: Path, run: Run) -> None:
    ran = run("abduct", table, "--show", 3)
    assert (ran.code, ran.err) == (0, "")
    assert "A hidden factor was found" in ran.out
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["source", "all", "rows", "y0", "y1"] in lines
    after = [lines[i + 4][0] for i, line in enumerate(lines) if "columns" in line]
    assert after == ["colour", "colour"]
    assert len(re.findall(r"^  row \d+: colour -?[\d.]+, ", ran.out, re.MULTILINE)) == 12
    assert "class y0, more in " in ran.out and "class y1, less in " in ran.out


def test_many_classes_have_few_rows_each_in_the_terminal(run: Run, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    n, names = 700, np.array(["dog", "elephant", "giraffe", "guitar", "horse", "house", "person"])
    label = np.tile(np.arange(7), 3 * n // 7)
    domain = np.repeat(["art", "photo", "sketch"], n)
    X = random.normal(size=(3 * n, 8))
    X[np.arange(3 * n), label] += 2.5
    X[:, 7] += 5 * (random.random(3 * n) < np.repeat([0.85, 0.3, 0.5], n))
    columns = {f"f{j}": X[:, j] for j in range(8)} | {"label": names[label], "domain": domain}
    write_columns(tmp_path / "seven.csv", columns)
    ran = run("abduct", tmp_path / "seven.csv", "--out", tmp_path / "out")
    assert ran.code == 0
    assert len(re.findall(r"^  row \d+: ", ran.out, re.MULTILINE)) == 14
    assert ran.out.count("  groups differ most in: f7 (+") == 7
    assert "More rows: --show 6" in ran.out
    found = json.loads((tmp_path / "out" / "abduct.json").read_text())
    assert all(len(each["last"]["rows"]) == 6 for each in found["ends"])
    asked = run("abduct", tmp_path / "seven.csv", "--show", 6).out
    assert len(re.findall(r"^  row \d+: ", asked, re.MULTILINE)) == 84
    assert "More rows" not in asked


def test_few_rows_of_a_class_are_told_as_fit_tells_them(run: Run, tmp_path: Path) -> None:
    data = make_confounded_domains(100, strengths=(0.9, 0.6), random_state=0)
    kept = (data.y == 0) | (data.sample_domain != "source 1") | (np.arange(len(data.y)) % 8 == 0)
    columns = {"a": data.X[kept, 0], "b": data.X[kept, 1], "label": data.y[kept]}
    write_columns(tmp_path / "few.csv", columns | {"domain": data.sample_domain[kept]})
    said = "class 1 of source source 1 has "
    ran = run("abduct", tmp_path / "few.csv", "--out", tmp_path / "out")
    assert ran.code == 0 and f"But: {said}" in ran.out
    assert json.loads((tmp_path / "out" / "abduct.json").read_text())["warnings"][0].startswith(
        said
    )
    ran = run("fit", tmp_path / "few.csv", "--out", tmp_path / "fit")
    assert ran.code == 0 and f"But: {said}" in ran.out and f"warning: {said}" in ran.err


def test_the_document_says_how_the_factor_is_tied_to_the_label(table: Path, run: Run) -> None:
    found = document(run, table)
    assert found["n_groups"] == 2 and found["rows"] == 600 and found["files"] == []
    assert found["domains"] == ["day", "night"] and found["classes"] == ["y0", "y1"]
    for by_class in np.array(found["class_shares"])[:, :, -1].T:
        gap = abs(by_class[0] - by_class[1])
        assert 0.2 < gap < 0.5  # .9 and .55
    for ends in found["ends"]:
        assert len(ends["last"]["rows"]) == len(ends["first"]["rows"]) == 6
        assert ends["columns"][0]["name"] == "colour"


def test_images_show_their_pictures(images: Path, run: Run, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    ran = run("abduct", images / "bank", "--show", 4, "--out", tmp_path, "--html")
    assert (ran.code, ran.err) == (0, "")
    assert re.search(r"^  day/y0/\d{3}\.png$", ran.out, re.MULTILINE)
    assert "in the report (--html)" in ran.out
    assert list_names(tmp_path) == ["abduct.json", "provenance.json", "report.html"]
    found = json.loads((tmp_path / "abduct.json").read_text())
    seen = [
        {is_red(row["picture"]) for row in ends[end]["rows"]}
        for ends in found["ends"]
        for end in ("last", "first")
    ]
    red, blue = {True}, {False}
    assert seen in ([red, blue, blue, red], [blue, red, red, blue])
    page = (tmp_path / "report.html").read_text()
    pictures = re.findall(r'<img src="data:image/png;base64,([^"]*)" alt="([^"]*)"', page)
    assert len(pictures) == 16 and {is_red(picture) for picture, _ in pictures[:4]} == seen[0]
    assert re.fullmatch(r"day/y0/\d{3}\.png, day|night/.*", pictures[0][1])


def test_images_that_were_moved_are_named(images: Path, run: Run, tmp_path: Path) -> None:
    bank = shutil.copytree(images / "bank", tmp_path / "bank")
    ran = run("abduct", bank)
    assert ran.code == 0 and re.search(r"^  day/y0/\d{3}\.png$", ran.out, re.MULTILINE)
    assert ran.err.startswith("warning: the images are not shown: there is no ")
    assert ran.err.count("\n") == 1 and "--inputs" in ran.err
    found = document(run, bank, "--inputs", images / "images")
    assert all(row["picture"] for ends in found["ends"] for row in ends["last"]["rows"])


def test_texts_are_shown_as_lines(run: Run, tmp_path: Path) -> None:
    columns: dict[str, list[str]] = {"text": [], "label": [], "domain": []}
    for i, (domain, label, factor, random) in enumerate(rows(60)):
        topic = ("book", "lamp")[label]
        filler = " ".join(random.choice([*"abcdefgh"], 3))
        columns["text"].append(f"<b>{topic}</b>\n{WORDS[factor]} {filler} {i}")
        columns["label"].append(topic)
        columns["domain"].append(domain)
    table = write_columns(tmp_path / "texts.jsonl", columns)
    embed_texts(table, HashedEncoder(), tmp_path / "bank")
    ran = run("abduct", tmp_path / "bank", "--show", 2, "--out", tmp_path / "out")
    assert ran.code == 0 and "not shown" not in ran.err
    lines = re.findall(r"^  <b>(\w+)</b> (\w+ \w+)", ran.out, re.MULTILINE)
    assert [topic for topic, _ in lines] == ["book"] * 4 + ["lamp"] * 4
    factors = [words for _, words in lines[::2]]
    assert factors == [words for _, words in lines[1::2]]
    assert factors[0] == factors[3] != factors[1] == factors[2]


def test_banks_of_arrays_show_columns(run: Run, tmp_path: Path) -> None:
    data = make_confounded_domains(200, strengths=(0.9, 0.5), n_features=6, random_state=0)
    write_bank(tmp_path / "bank", data.X, data.y, data.sample_domain)
    found = document(run, tmp_path / "bank")
    assert re.fullmatch(r"column \d", found["ends"][0]["columns"][0]["name"])


def test_without_a_factor_the_answer_is_no(run: Run, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    X, y = random.standard_normal((400, 5)), random.integers(2, size=400)
    domain = random.choice(["a", "b"], 400)
    np.savez(tmp_path / "alike.npz", X=X, y=y, domain=domain)
    ran = run("abduct", tmp_path / "alike.npz", "--out", tmp_path / "out")
    assert ran.code == 0 and "No hidden factor was found (p = " in ran.out
    assert "class " not in ran.out
    assert json.loads((tmp_path / "out" / "abduct.json").read_text())["ends"] == []


def test_one_source_cannot_tell(table: Path, run: Run, tmp_path: Path) -> None:
    lines = table.read_text().replace(",night,", ",day,")
    (tmp_path / "one.csv").write_text(lines)
    ran = run("abduct", tmp_path / "one.csv")
    assert ran.code == 0 and "But: All rows are of one source" in ran.out


def test_hostile_names_stay_text(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    write_hostile_table(tmp_path / "table.csv")
    ran = run("abduct", tmp_path / "table.csv", "--out", tmp_path / "out", "--html")
    assert ran.code == 0
    page = (tmp_path / "out" / "report.html").read_text()
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert not any(name in shown for name in (*HOSTILE, "<i>0</i>", "<img"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--show", 0), "show is 0: pass 1 or more."),
        (("--device", "abacus"), "device 'abacus' is not available here"),
        (("--label", "size2"), "has no label column 'size2'"),
        (("--html",), "add --out"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    table: Path, run: Run, options: tuple[Any, ...], told: str
) -> None:
    ran = run("abduct", table, *options)
    assert (ran.code, ran.err.count("\n")) == (2, 1) and told in ran.err


def test_pictures_are_drawn_in_a_terminal(
    images: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    ran = run("abduct", images / "bank")
    lines = [line.count("▀") for line in ran.out.splitlines() if "▀" in line]
    assert ran.code == 0 and set(lines) == {4 * 10}  # as many as fit, of six
    assert ".png" not in ran.out
