"""``regraft predict`` on new images and texts: from files to labels in one command."""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from regraft.cli.command import RESUMES
from regraft.data import feature_blocks
from regraft.data.banks import is_bank, open_bank
from regraft.encoders.mnist_cnn import N_FEATURES, mnist_cnn
from regraft.encoders.text_models import HashedEncoder
from tests.helpers.commands import Once, Ran, Run, call, kill_when
from tests.helpers.paths import ROOT

HULL = ("--family", "hull", "--radius", "1", "--quiet")
GOOD, BAD = "I love this wonderful", "I hate this terrible"
NEW = [
    f"{praise} {thing} {i}" for i in range(20) for praise, thing in ((GOOD, "tea"), (BAD, "pan"))
]


def write_digits(folder: Path, n: int) -> Path:
    """Bright and dark pictures of 28 x 28 pixels, in turn."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(len(folder.name))
    for i in range(n):
        pixels = np.zeros((28, 28, 3), np.uint8)
        pixels[..., i // 2 % 2] = rng.integers(0, 60, (28, 28)) + 180 * (i % 2)
        Image.fromarray(pixels).save(folder / f"{i:03}.png")
    return folder


@pytest.fixture(scope="session")
def fitted(once: Once) -> Path:
    """A model of texts and a model of images, each with the encoder that made its features."""

    def make(folder: Path) -> None:
        folder.mkdir()
        rows = [
            {"text": f"{praise} {thing} {i}", "label": stars, "domain": shop}
            for shop, thing in (("books", "novel"), ("food", "jam"))
            for i in range(10)
            for stars, praise in ((5, GOOD), (1, BAD))
        ]
        (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        call(["embed", "text", folder / "t.jsonl", "--encoder", "hashed", "--out", folder / "tb"])
        call(["fit", folder / "tb", "--out", folder / "texts", "--quiet"])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = nn.Sequential(mnist_cnn(), nn.Linear(N_FEATURES, 2))
        save_file(network.state_dict(), folder / "digits.safetensors")
        for domain in "ab":
            drawn = write_digits(folder / "drawn" / domain, 16)
            for i, path in enumerate(sorted(drawn.iterdir())):
                place = folder / "photos" / domain / ("dark", "light")[i % 2]
                place.mkdir(parents=True, exist_ok=True)
                path.rename(place / path.name)
        options = ("--encoder", "mnist_cnn", "--weights", folder / "digits.safetensors")
        call(["embed", "images", folder / "photos", *options, "--out", folder / "ib"])
        call(["fit", folder / "ib", "--out", folder / "images", *HULL])

    return once("predict_inputs", make)


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows_of(folder: str) -> list[dict[str, str]]:
    with Path(folder, "predictions.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def write_new(name: str, **columns: list[Any]) -> Path:
    with Path(name).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return Path(name)


def test_forty_new_reviews(fitted: Path, run: Run) -> None:
    model = fitted / "texts"
    ids = [f"r{i}" for i in range(40)]
    write_new("new.csv", id=ids, review=NEW)
    ran = run("predict", model, "new.csv", "--text", "review", "--out", "p")
    assert ran.code == 0 and ran.err == ""
    rows = rows_of("p")
    assert list(rows[0])[:6] == ["row", "id", "text", "label", "probability_1", "probability_5"]
    assert [row["label"] for row in rows] == ["5", "1"] * 20
    assert [row["id"] for row in rows] == ids and rows[1]["text"] == NEW[1]
    assert ["5", "20"] in [line.split() for line in ran.out.splitlines()]
    # The same features as in a bank of these texts, and so the same answers.
    run("embed", "text", "new.csv", "--text", "review", "--encoder", "hashed", "--out", "bank")
    document = json.loads(run("predict", model, "bank", "--json").out)
    found = [[float(row["probability_1"]), float(row["probability_5"])] for row in rows]
    assert found == document["probabilities"]
    np.testing.assert_array_equal(open_bank("p/features").X, open_bank("bank").X)
    Path("new.txt").write_text("\n".join(NEW))
    document = json.loads(run("predict", model, "new.txt", "--interval", "--json").out)
    assert document["inputs"] == list(range(1, 41)) and len(document["least"]) == 40
    assert document["predicted"] == {"1": 20, "5": 20} and document["accuracy"] is None


def test_labels_are_scored_where_a_table_has_them_all(fitted: Path, run: Run) -> None:
    stars, shops = [5, 1] * 19 + [5, 5], ["pets"] * 20 + ["tools"] * 20
    write_new("new.csv", text=NEW, label=stars, domain=shops)
    ran = run("predict", fitted / "texts", "new.csv", "--out", "p")
    assert "accuracy: 97.5%" in ran.out and "accuracy on tools: 95.0%" in ran.out
    assert rows_of("p")[39]["domain"] == "tools"
    write_new("gap.csv", text=NEW, label=["", *stars[1:]])
    ran = run("predict", fitted / "texts", "gap.csv", "--out", "q")
    assert ran.code == 0 and len(rows_of("q")) == 40


def test_a_folder_of_new_photographs(fitted: Path, run: Run) -> None:
    new = write_digits(Path("new"), 40)
    (new / "later").mkdir()
    (new / "039.png").rename(new / "later" / "039.png")
    weights = ("--weights", fitted / "digits.safetensors")
    ran = run("predict", fitted / "images", new, *weights, "--interval", "--out", "p")
    assert ran.code == 0 and ran.err == ""
    rows = rows_of("p")
    assert [row["path"] for row in rows] == [*(f"{i:03}.png" for i in range(39)), "later/039.png"]
    assert [row["label"] for row in rows] == ["dark", "light"] * 20
    assert {"least_dark", "largest_light", "decided"} < set(rows[0])
    one = run("predict", fitted / "images", new / "003.png", *weights)
    assert ["003.png", "light"] in [line.split()[:2] for line in one.out.splitlines()]
    before = Path("p/predictions.csv").read_bytes()
    again = run("predict", fitted / "images", new, *weights, "--interval", "--out", "p")
    assert "The features of these images are in p/features already." in again.out
    assert Path("p/predictions.csv").read_bytes() == before
    (new / "000.png").unlink()
    ran = run("predict", fitted / "images", new, *weights, "--out", "p")
    assert ran.code == 2 and "some were added, removed or changed" in ran.err
    assert Path("p/predictions.csv").read_bytes() == before


def test_a_table_of_photographs_of_which_one_is_broken(fitted: Path, run: Run) -> None:
    new = write_digits(Path("new"), 6)
    (new / "002.png").write_bytes(b"")
    paths = [str(path) for path in sorted(new.iterdir())]
    write_new("new.csv", path=paths, id=list("abcdef"))
    weights = ("--weights", fitted / "digits.safetensors")
    ran = run("predict", fitted / "images", "new.csv", *weights, "--out", "p")
    assert (
        ran.code == 2
        and "002.png cannot be read" in ran.err
        and not Path("p/predictions.csv").exists()
    )
    ran = run(
        "predict", fitted / "images", "new.csv", *weights, "--on-broken", "skip", "--out", "p"
    )
    assert ran.code == 0 and "Left out as broken: " in ran.out
    assert re.search(r"Without a prediction: \S+\.\w+\.$", ran.out.strip())
    assert "predictions: " in ran.out and len(re.findall(r"images: (\d+) of \1\b", ran.out)) == 1
    assert [(row["id"], row["path"][-5]) for row in rows_of("p")] == [
        *zip("abdef", "01345", strict=True)
    ]


@pytest.mark.parametrize(
    ("model", "new", "message"),
    [
        ("images", "new", "were made with the weights in digits.safetensors: pass that file with"),
        ("texts", "new", "new holds images, but the model was fitted on texts"),
        ("images", "new.txt", "new.txt holds texts, but the model was fitted on images"),
        ("texts", "empty.txt", "empty.txt has no rows"),
        ("texts", "none.csv", "there is no file none.csv"),
    ],
)
def test_failures_are_one_line(fitted: Path, run: Run, model: str, new: str, message: str) -> None:
    write_digits(Path("new"), 1)
    Path("new.txt").write_text("fine")
    Path("empty.txt").touch()
    ran = run("predict", fitted / model, new, "--out", "p")
    assert ran.code == 2 and ran.err.startswith("regraft: ") and ran.err.count("\n") == 1
    assert message in ran.err and not Path("p/predictions.csv").exists()


def test_a_model_of_plain_features_takes_no_photographs(folder: Path, run: Run) -> None:
    ran = run("predict", folder / "fit", write_digits(Path("new"), 1))
    assert ran.code == 2 and "new holds images, but the model was fitted on plain" in ran.err


def test_banks_without_labels_serve_where_none_are_needed(fitted: Path, run: Run) -> None:
    write_new("new.csv", text=NEW)
    ran = run("embed", "text", "new.csv", "--encoder", "hashed", "--out", "bank")
    assert ran.code == 0 and "has no column 'label' and 'domain'" in ran.err
    assert ran.out.splitlines()[-1] == "Next: regraft predict model bank --out predictions"
    quiet = ("embed", "text", "new.csv", "--encoder", "hashed", "--out", "bank", "--unlabelled")
    assert run(*quiet, "--quiet") == Ran(0, "", "")
    assert json.loads(run("embed", "verify", "bank", "--json").out)["domains"] is None
    assert run("place", fitted / "texts", "bank").code == 0
    ran = run("place", fitted / "texts", "new.csv")
    assert ran.code == 2 and "are kept in the folder of results: add --out" in ran.err
    ran = run("place", fitted / "texts", "new.csv", "--out", "p")
    assert ran.code == 0 and NEW[0][:20] in ran.out
    assert open_bank("p/features").checksum == open_bank("bank").checksum
    for words in (
        ("fit", "bank", "--out", "m"),
        ("abduct", "bank"),
        ("compare", "bank"),
        ("diagnose", "bank"),
        ("audit", fitted / "texts", "bank"),
        ("frontier", "bank", "--out", "m"),
        ("sweep", "--datasets", "bank", "--out", "m"),
    ):
        ran = run(*words)
        assert ran.code == 2 and ran.err.count("\n") == 1, words
        assert "bank is a bank without labels, which are needed here" in ran.err, words


SLOW = """
import time
from regraft.cli.app import main
from regraft.encoders.text_models import HashedEncoder
encode = HashedEncoder.encode
def slow(self, texts):
    time.sleep(0.3)
    return encode(self, texts)
HashedEncoder.encode = slow
main()
"""


def test_killed_it_goes_on(fitted: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("new.txt").write_text("\n".join(f"{NEW[i % 2]} {i}" for i in range(3000)))
    words = ("predict", fitted / "texts", "new.txt", "--out")
    journal = Path("p/features/.unfinished/journal.jsonl")

    def is_time() -> bool:
        return journal.exists() and journal.read_bytes().count(b"\n") >= 1

    kill_when(is_time, *words, "p", code=SLOW, path=[ROOT])
    assert not is_bank("p/features") and not Path("p/predictions.csv").exists()
    monkeypatch.setattr(feature_blocks, "_ROWS", 700)  # predicted and written at a time
    calls = []
    encode = HashedEncoder.encode

    def count(self: HashedEncoder, texts: Any) -> NDArray[np.float32]:
        calls.append(len(texts))
        return encode(self, texts)

    with monkeypatch.context() as patch:
        patch.setattr(HashedEncoder, "encode", count)
        assert run(*words, "p").code == 0
    assert 1 <= len(calls) <= 2 and calls[-1] == 3000 % 1024
    assert run(*words, "q").code == 0
    assert Path("p/predictions.csv").read_bytes() == Path("q/predictions.csv").read_bytes()
    assert len(rows_of("p")) == 3000


def test_an_interrupt_says_how_to_go_on(
    fitted: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: HashedEncoder, texts: Any) -> Iterator[Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(HashedEncoder, "encode", interrupt)
    Path("new.txt").write_text("fine")
    ran = run("predict", fitted / "texts", "new.txt", "--out", "p")
    assert (ran.code, ran.err) == (130, f"regraft: interrupted: {RESUMES}.\n")
    ran = run("predict", fitted / "texts", "new.txt")
    assert (ran.code, ran.err) == (130, "regraft: interrupted: nothing was written.\n")
