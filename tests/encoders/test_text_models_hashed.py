import json
from pathlib import Path

import numpy as np
import pytest

from regraft.data.banks import open_bank, verify
from regraft.encoders import load_image_encoder, load_text_encoder
from regraft.encoders.text_models import _split_revision
from tests.helpers.commands import Run

TEXTS = ("A fine kettle.", "", "It broke after two days, and nobody answered.", "a FINE kettle!")


def test_words_are_hashed_to_unit_rows_whatever_their_block() -> None:
    encoder = load_text_encoder("hashed")
    features = encoder.encode(TEXTS)
    assert (encoder.name, encoder.device) == ("hashed", "cpu")
    assert features.shape == (4, encoder.n_features) == (4, 384)
    assert features.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), [1, 0, 1, 1], rtol=1e-6)
    np.testing.assert_array_equal(features[0], features[3])
    # fine, kettle and the two together, all alike but for the sign
    assert sorted(abs(features[0][features[0] != 0])) == pytest.approx([3**-0.5] * 3)
    assert abs(features[0] @ features[2]) < 0.5
    dog, man = encoder.encode(["dog bites man", "man bites dog"])
    # The three words are shared, the two pairs are not.
    assert dog @ man == pytest.approx(3 / 5, abs=1e-6)
    rows = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_array_equal(encoder.encode(TEXTS), rows)
    assert load_text_encoder("hashed").fingerprint == encoder.fingerprint
    assert len(encoder.fingerprint) == 64
    with pytest.raises(ValueError, match="hashed encodes texts: run regraft embed text"):
        load_image_encoder("hashed")


def test_a_bank_is_made_in_a_shell(tmp_path: Path, run: Run) -> None:
    table, out = tmp_path / "texts.csv", tmp_path / "bank"
    rows = ["good kettle,1,a", "bad kettle,0,a", "good book,1,b", "bad book,0,b"]
    table.write_text("\n".join(["text,label,domain", *rows]))
    assert run("embed", "text", table, "--encoder", "hashed", "--out", out, "--json").code == 0
    bank = open_bank(out)
    verify(bank)
    encoder = load_text_encoder("hashed")
    texts = [row.split(",")[0] for row in rows]
    np.testing.assert_array_equal(bank.X, encoder.encode(texts))
    described = json.loads((out / "bank.json").read_text())["encoder"]
    assert described == {"name": "hashed", "fingerprint": encoder.fingerprint}


def test_a_revision_of_the_hub_is_told_apart_from_folders(tmp_path: Path) -> None:
    assert _split_revision("org/name@0123abc") == ("org/name", "0123abc")
    assert _split_revision("org/name") == ("org/name", None)
    folder = tmp_path / "mine@home"
    folder.mkdir()
    assert _split_revision(str(folder)) == (str(folder), None)
