"""Optional dependencies: imported where they are needed, with one sentence if missing."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import ModuleType

_USERS_OF_TORCHVISION = ("sentence_transformers", "timm", "torchvision", "transformers", "wilds")


class MissingExtra(RuntimeError):
    """An optional dependency is not installed, or does not load."""


def require(module: str, extra: str) -> ModuleType:
    """Import ``module``; raise ``MissingExtra`` with the extra that brings it."""
    package = module.partition(".")[0]
    if package in _USERS_OF_TORCHVISION:
        repair_torchvision()
    try:
        return import_module(module)
    except (ImportError, RuntimeError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == package:
            raise MissingExtra(
                f'{package} is not installed: run pip install "regraft[{extra}]".'
            ) from None
        # It lacks a package of its own, or torchvision was built for another torch.
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise MissingExtra(
            f'{module} does not load ({reason}): reinstall it with pip install "regraft[{extra}]".'
        ) from None


@contextmanager
def quiet_loggers(names: Iterable[str], level: int) -> Iterator[None]:
    """Keep back what these loggers of libraries say below ``level``."""
    with ExitStack() as stack:
        for logger in map(logging.getLogger, names):
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(level)
        yield


def repair_torchvision() -> None:
    """Let torchvision be imported where its compiled operators do not load.

    Its import describes two of them and fails if they were never declared, as where it was built
    for another torch. Whatever imports torchvision then fails too, though it calls neither. All
    that works, is absent or is broken in another way is left as it is.
    """
    try:
        import_module("torchvision")
    except ImportError:
        return
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            return
        import torch

        schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        for name in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, name):
                torch.library.define(f"torchvision::{name}", schema)
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]  # imported halfway
