"""A text encoder without weights: words and pairs of words, each hashed to a feature."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer

from regraft.encoders.base import TextEncoder
from regraft.support.digests import digest_text

_FEATURES = 384
_WORDS = (1, 2)  # in a row


class HashedEncoder(TextEncoder):
    """Counts of hashed words and pairs of neighbours, scaled to length one; zeros without words.

    Two that share a feature may cancel out, for their hash gives them a sign too.
    """

    def __init__(self) -> None:
        self.name = "hashed"
        self.n_features = _FEATURES
        self.device = "cpu"
        self.preprocessing = {"words": list(_WORDS), "sign": "alternate", "norm": "l2"}
        settings = self.preprocessing | {"features": _FEATURES}
        self.fingerprint = digest_text(json.dumps(settings, sort_keys=True))
        self._vectorizer = HashingVectorizer(
            n_features=_FEATURES,
            ngram_range=_WORDS,
            alternate_sign=True,
            norm="l2",
            dtype=np.float32,
        )

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Compute features (n, 384) of texts, each independent of the others."""
        features: NDArray[np.float32] = self._vectorizer.transform(texts).toarray()
        return features
