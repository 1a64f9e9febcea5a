"""Text encoders of transformers: the network's output at the first token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regraft.encoders.base import TextEncoder
from regraft.encoders.pretrained import (
    TEXT,
    UNUSED_LAYER,
    batch_size,
    load_text_model,
    public_name,
)
from regraft.encoders.weights import fingerprint
from regraft.support.extras import require

PREFIX = "transformers:"
_NO_LIMIT = 1_000_000  # tokens; a tokenizer that allows more does not know its limit
_RESERVED = 2  # places that some networks keep for padding


def load_transformer(name: str, device: str) -> TextEncoder:
    """Load the model ``name``, such as roberta-base, or the one in the folder ``name``."""
    library: Any = require("transformers", TEXT)
    tokenizer = load_text_model(name, lambda: library.AutoTokenizer.from_pretrained(name))
    network, loaded = load_text_model(
        name,
        lambda: library.AutoModel.from_pretrained(
            name,
            output_loading_info=True,
            use_safetensors=True,  # other files of weights may run code
        ),
    )
    missing = sorted(key for key in loaded["missing_keys"] if UNUSED_LAYER not in key.split("."))
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
    return _FirstTokenEncoder(PREFIX + public_name(name), tokenizer, network, device)


class _FirstTokenEncoder(TextEncoder):
    def __init__(self, name: str, tokenizer: Any, network: Any, device: str) -> None:
        self.name = name
        self.n_features = int(network.config.hidden_size)
        self.fingerprint = fingerprint(network, without=UNUSED_LAYER)
        self._limit = _limit(tokenizer, network.config)
        self.preprocessing = {"tokens": self._limit, "pooling": "first token"}
        tokenizer.padding_side = "right"  # else the first token may be a filling
        self._tokenizer, self._together = tokenizer, batch_size(device)
        self._network = network.float().eval().to(device)
        self.device = self._network.device.type

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
