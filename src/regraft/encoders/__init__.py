"""Frozen networks that turn images and texts into features, by name, and a hash of words.

A name with a prefix says which library has the network. Of names without one, regraft's own come
first; then an image encoder is one of timm's, and a text encoder is one of transformers', or of
sentence-transformers' if the name starts with ``sentence-transformers/``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

# The libraries are imported where they are used, so that --help does not wait for them.
if TYPE_CHECKING:
    from regraft.encoders.base import ImageEncoder, TextEncoder

IMAGE_DEFAULT = "efficientnet_lite0"
TEXT_DEFAULT = "minilm"
_HASHED = "hashed"
_MNIST = "mnist_cnn"
_TIMM = "timm:"
_SENTENCES, _SENTENCE_MODELS = "sentence-transformers:", "sentence-transformers/"
_TRANSFORMERS = "transformers:"


def load_image_encoder(
    name: str, *, device: str = "cpu", weights: Path | None = None
) -> ImageEncoder:
    """Load the image encoder ``name``, with the parameters in the file ``weights`` if given.

    The names are ``efficientnet_lite0``, ``mnist_cnn`` (which needs ``weights``, a Phase 1
    checkpoint) and all names of timm's models, with or without ``timm:`` before them. Raises
    ``ValueError`` or ``FileNotFoundError`` with one sentence.
    """
    from regraft.core.domains import check_device

    check_device(device)
    if name in (TEXT_DEFAULT, _HASHED):
        raise ValueError(f"{name} encodes texts: run regraft embed text, or name another encoder.")
    encoder = _load_images(name, device, weights)
    if weights is not None:
        encoder.weights = weights.name
    return encoder


def _load_images(name: str, device: str, weights: Path | None) -> ImageEncoder:
    if name == IMAGE_DEFAULT:
        from regraft.encoders.efficientnet_lite import load_efficientnet_lite0

        return load_efficientnet_lite0(device, weights)
    if name == _MNIST:
        from regraft.encoders.mnist_cnn import load_mnist_cnn

        return load_mnist_cnn(device, weights)
    from regraft.encoders.timm import load_timm

    return load_timm(name.removeprefix(_TIMM), device, weights)


def load_text_encoder(name: str, *, device: str = "cpu") -> TextEncoder:
    """Load the text encoder ``name``.

    The names are ``minilm``, ``hashed`` (no network, and always on the CPU),
    ``sentence-transformers:NAME`` and ``transformers:NAME``, where NAME is that of a model or a
    folder that holds one; a bare NAME is one of transformers', unless it starts with
    ``sentence-transformers/``. Raises ``ValueError`` or ``FileNotFoundError`` with one sentence.
    """
    from regraft.core.domains import check_device

    check_device(device)
    if name in (IMAGE_DEFAULT, _MNIST):
        raise ValueError(
            f"{name} encodes images: run regraft embed images, or name another encoder."
        )
    from regraft.encoders import text_models

    if name == TEXT_DEFAULT:
        return text_models.load_minilm(device)
    if name == _HASHED:
        return text_models.HashedEncoder()
    if name.startswith((_SENTENCES, _SENTENCE_MODELS)):
        return text_models.load_sentence_transformer(name.removeprefix(_SENTENCES), device)
    return text_models.load_transformer(name.removeprefix(_TRANSFORMERS), device)
