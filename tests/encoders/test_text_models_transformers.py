from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regraft.encoders import load_text_encoder
from regraft.encoders.embedding import embed_texts

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

SPECIAL = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>"}
WORDS = [*SPECIAL.values(), *(f"w{i}" for i in range(50))]
PLACES = 34  # of which RoBERTa keeps two for padding
TEXTS = tuple(" ".join(f"w{(3 * i + j) % 50}" for j in range(i % 23 + 1)) for i in range(45))


def make_tokenizer(limit: int | None) -> Any:
    vocabulary = {word: i for i, word in enumerate(WORDS)}
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel(vocabulary, unk_token=SPECIAL["unk"])
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.RobertaProcessing(
        (SPECIAL["sep"], vocabulary[SPECIAL["sep"]]), (SPECIAL["cls"], vocabulary[SPECIAL["cls"]])
    )
    names = {f"{name}_token": word for name, word in SPECIAL.items()}
    options = {} if limit is None else {"model_max_length": limit}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names, **options)


def save(folder: Path, limit: int | None = None, network: Any = None) -> Any:
    config = transformers.RobertaConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=PLACES, pad_token_id=1,
    )  # fmt: skip
    torch.manual_seed(0)
    # Without the layer that RoBERTa's own checkpoint does not have either.
    network = network or transformers.RobertaModel(config, add_pooling_layer=False)
    network.save_pretrained(folder)
    make_tokenizer(limit).save_pretrained(folder)
    return network.eval()


@pytest.mark.parametrize("prefix", ["", "transformers:"])
def test_features_are_the_last_state_of_the_first_token(prefix: str, tmp_path: Path) -> None:
    plain, tokenizer = save(tmp_path / "tiny"), make_tokenizer(None)
    encoder = load_text_encoder(f"{prefix}{tmp_path / 'tiny'}")
    assert encoder.name == "transformers:tiny"
    with torch.no_grad():
        expected = [
            plain(**tokenizer(text, return_tensors="pt")).last_hidden_state[0, 0] for text in TEXTS
        ]
    features = encoder.encode(TEXTS)
    assert features.shape == (len(TEXTS), encoder.n_features) == (len(TEXTS), 16)
    np.testing.assert_allclose(features, torch.stack(expected), atol=1e-5)
    np.testing.assert_array_equal(encoder.encode(TEXTS), features)


def test_a_slow_machine_tells_its_progress_and_loses_little(tmp_path: Path) -> None:
    save(tmp_path / "tiny")
    encoder = load_text_encoder(str(tmp_path / "tiny"))
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS * 8) + "\n")
    counted: list[int] = []
    embed_texts(
        texts,
        encoder,
        tmp_path / "bank",
        label=None,
        domain=None,
        on_count=lambda done, total: counted.append(done),
    )
    assert encoder.device == "cpu" and counted == [0, 128, 256, 360]


def test_fingerprint_does_not_depend_on_layers_drawn_at_random(tmp_path: Path) -> None:
    save(tmp_path)
    torch.manual_seed(1)
    first = load_text_encoder(str(tmp_path))
    torch.manual_seed(2)
    expected = torch.rand(1)
    torch.manual_seed(2)
    assert load_text_encoder(str(tmp_path)).fingerprint == first.fingerprint
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize(("limit", "tokens"), [(10, 10), (None, PLACES - 2)])
def test_long_texts_are_cut(limit: int | None, tokens: int, tmp_path: Path) -> None:
    plain, tokenizer = save(tmp_path, limit), make_tokenizer(None)
    encoder = load_text_encoder(str(tmp_path))
    assert encoder.preprocessing["tokens"] == tokens
    text = " ".join(f"w{i % 50}" for i in range(100))
    cut = tokenizer(text, truncation=True, max_length=tokens, return_tensors="pt")
    with torch.no_grad():
        expected = plain(**cut).last_hidden_state[:, 0]
    np.testing.assert_allclose(encoder.encode([text]), expected, atol=1e-5)


def test_models_that_lack_something_are_refused(tmp_path: Path) -> None:
    plain = save(tmp_path)
    state = plain.state_dict()
    del state["encoder.layer.1.output.dense.weight"]
    plain.save_pretrained(tmp_path, state_dict=state)
    with pytest.raises(ValueError, match=r"lack 1 weights \(encoder.layer.1.output.dense.weight"):
        load_text_encoder(str(tmp_path))
    save(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ValueError, match=r"^.*does not load.*\Z"):
        load_text_encoder(str(tmp_path))
    plain = save(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(plain.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors"):
        load_text_encoder(str(tmp_path))
    save(tmp_path)
    tokenizer = make_tokenizer(None)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="no token to fill up short texts with"):
        load_text_encoder(str(tmp_path))


@pytest.mark.usefixtures("offline")
def test_models_that_cannot_be_had(tmp_path: Path) -> None:
    for name in ("no-such-model", str(tmp_path / "absent")):
        with pytest.raises(FileNotFoundError, match=r"^.*neither found nor downloaded.*\Z"):
            load_text_encoder(name)
