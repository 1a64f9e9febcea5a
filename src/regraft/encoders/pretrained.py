"""Networks from model hubs and folders, loaded without progress bars and tracebacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import torch

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


@contextmanager
def _errors_only() -> Iterator[None]:
    """Keep back warnings of failed tries to download; the last one is an error."""
    with ExitStack() as stack:
        for name in _CHATTERING:
            logger = logging.getLogger(name)
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
        yield
