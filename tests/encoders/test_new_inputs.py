"""New inputs of a model: what they are taken for, and which encoder may make their features."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import regraft.encoders
from regraft.data.banks import write_bank
from regraft.encoders.new_inputs import NewInputs
from regraft.encoders.text_models import HashedEncoder
from regraft.estimators.encoder_record import EncoderRecord
from tests.helpers.errors import refused
from tests.helpers.toy_encoders import ToyImages, write_images

HASHED = HashedEncoder()
TEXTS = EncoderRecord("hashed", HASHED.fingerprint, "", "texts", HASHED.preprocessing)
IMAGES = EncoderRecord("toy", "f" * 64, "", "images", {"size": 4, "mean": [0.5, 0.5, 0.5]})


def model(record: EncoderRecord | None = None, n_features: int = 384) -> Any:
    known = {} if record is None else {"encoder_": record}
    return SimpleNamespace(n_features_in_=n_features, **known)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_images(tmp_path / "photos", n=1)
    write_bank(tmp_path / "bank", np.eye(2), [0, 1], ["a", "b"])
    (tmp_path / "begun" / ".unfinished").mkdir(parents=True)
    (tmp_path / "empty" / "inside").mkdir(parents=True)
    (tmp_path / "new.txt").write_text("fine")
    (tmp_path / "texts.csv").write_text("id,text\n1,fine\n")
    (tmp_path / "paths.csv").write_text("path\nphotos/a/x/0000.png\n")
    (tmp_path / "numbers.csv").write_text("a,b,c\n1,2,3\n")
    np.savez(tmp_path / "rows.npz", X=np.eye(3))
    monkeypatch.setattr(regraft.encoders, "load_image_encoder", lambda name, **_: ToyImages())
    return tmp_path


@pytest.mark.parametrize(
    ("name", "record", "kind"),
    [
        ("photos", IMAGES, "images"),
        ("photos/a/x/0000.png", IMAGES, "images"),
        ("photos", EncoderRecord("toy", "0f"), "images"),  # of a model that knows no more
        ("paths.csv", IMAGES, "images"),
        ("new.txt", TEXTS, "texts"),
        ("texts.csv", TEXTS, "texts"),
        ("texts.csv", EncoderRecord("hashed", "0f"), "texts"),
        ("texts.csv", None, None),
        ("numbers.csv", None, None),
        ("numbers.csv", TEXTS, None),
        ("rows.npz", TEXTS, None),
        ("bank", IMAGES, None),
        ("begun", IMAGES, None),
    ],
)
def test_what_inputs_are_taken_for(
    place: Path, name: str, record: EncoderRecord | None, kind: str | None
) -> None:
    assert NewInputs(place / name).find_kind(model(record, 3)) == kind


@pytest.mark.parametrize(
    ("name", "record", "options", "message"),
    [
        ("photos", None, {}, "photos holds images, but the model was fitted on plain features"),
        ("empty", None, {}, "empty is a folder without a bank and without images: pass a table"),
        ("new.txt", None, {}, "new.txt holds texts, but the model was fitted on plain features"),
        ("photos", TEXTS, {}, "photos holds images, but the model was fitted on texts"),
        ("new.txt", IMAGES, {}, "new.txt holds texts, but the model was fitted on images"),
        ("paths.csv", TEXTS, {}, "no text column 'text' (it has 'path'): name the right one with"),
        ("texts.csv", IMAGES, {}, "name the right one with --path"),
        ("numbers.csv", TEXTS, {"text": "review"}, "no text column 'review'"),
    ],
)
def test_what_a_model_cannot_take(
    place: Path, name: str, record: EncoderRecord | None, options: dict[str, str], message: str
) -> None:
    inputs = NewInputs(place / name, **options)  # type: ignore[arg-type]
    with refused(re.escape(message), path=place / name):
        inputs.find_kind(model(record, 3))


@pytest.mark.parametrize(
    ("record", "kind", "options", "message"),
    [
        (IMAGES._replace(kind="arrays"), "images", {}, "arrays that toy made outside of regraft"),
        (IMAGES._replace(weights="w.safetensors"), "images", {}, "weights in w.safetensors: pass"),
        (IMAGES._replace(fingerprint="0f"), "images", {}, "the same ones with --weights"),
        (TEXTS._replace(fingerprint="0f"), "texts", {}, "the same ones with --encoder"),
        (
            IMAGES._replace(preprocessing={"size": 5}),
            "images",
            {},
            "prepares images in another way",
        ),
        (TEXTS, "texts", {"weights": Path("w")}, "--weights is for images"),
    ],
)
@pytest.mark.usefixtures("place")
def test_another_encoder_is_refused(
    record: EncoderRecord, kind: str, options: dict[str, Any], message: str
) -> None:
    with refused(re.escape(message)):
        NewInputs(Path("new"), **options).load_encoder(record, kind)


@pytest.mark.usefixtures("place")
def test_the_same_encoder_is_loaded_again() -> None:
    assert NewInputs(Path("new")).load_encoder(IMAGES, "images").name == "toy"
    assert NewInputs(Path("new")).load_encoder(TEXTS, "texts").name == "hashed"
    moved = TEXTS._replace(name="elsewhere", preprocessing=None, kind="")
    assert NewInputs(Path("new"), encoder="hashed").load_encoder(moved, "texts").name == "hashed"
