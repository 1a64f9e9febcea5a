"""Networks from model hubs and folders, loaded without progress bars and tracebacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch

from regraft.support.extras import require

TEXT = "text"  # the extra
# A layer for classifying pairs of texts, which no encoder here asks. Many checkpoints lack it, and
# it is then drawn at random.
UNUSED_LAYER = "pooler"
_CHATTERING = ("huggingface_hub", "sentence_transformers")

T = TypeVar("T")


@contextmanager
def loading(name: str, way_out: str) -> Iterator[None]:
    """Turn errors inside into ``FileNotFoundError`` or ``ValueError`` with one sentence."""
    try:
        with _errors_only():
            yield
    except Exception as error:  # of whichever library meets the problem
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        if isinstance(error, OSError):  # those of downloads too
            raise FileNotFoundError(
                f"the network {name} can be neither found nor downloaded ({reason}): {way_out}."
            ) from None
        raise ValueError(f"the network {name} does not load ({reason}): {way_out}.") from None


def load_pretrained(name: str, load: Callable[[], T], way_out: str) -> T:
    """Load the model ``name`` by calling ``load``, with the errors of ``loading``."""
    # Initial weights are drawn, only to be replaced.
    with loading(name, way_out), torch.random.fork_rng(devices=[]):
        return load()


def load_text_model(name: str, load: Callable[[], T]) -> T:
    """Load a text model by calling ``load``, with the errors of ``loading``."""
    way_out = "go online once, pass a folder that holds it, or choose minilm, which is installed"
    with _no_bars():
        return load_pretrained(name, load, way_out)


def public_name(name: str) -> str:
    """Return ``name``, or the last part of a folder, so that no bank shows where folders lie."""
    return Path(name).resolve().name if Path(name).is_dir() else name


def batch_size(device: str) -> int:
    """Return how many texts, padded to the longest, go through a network together.

    A CPU is fastest where little is padded and what is computed stays in its caches.
    """
    return 8 if torch.device(device).type == "cpu" else 128


@contextmanager
def _errors_only() -> Iterator[None]:
    """Keep back warnings of failed tries to download; the last one is an error."""
    with ExitStack() as stack:
        for name in _CHATTERING:
            logger = logging.getLogger(name)
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
        yield


@contextmanager
def _no_bars() -> Iterator[None]:
    """Switch off the progress bars of transformers inside."""
    bars: Any = require("transformers.utils.logging", TEXT)
    was_on = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            bars.enable_progress_bar()
