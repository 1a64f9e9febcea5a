"""Optional dependencies: asked for where they are needed, missed in one sentence."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class MissingExtra(RuntimeError):
    """An optional dependency is not installed."""


def require(module: str, extra: str) -> ModuleType:
    """Import ``module``, or say which extra of regraft brings it."""
    try:
        return import_module(module)
    except RuntimeError as error:  # torchvision built for another torch, most likely
        reason = " ".join(str(error).split()).rstrip(".")
        raise MissingExtra(
            f'{module} does not load ({reason}): reinstall it with pip install "regraft[{extra}]".'
        ) from None
    except ImportError:
        package = module.split(".")[0]
        raise MissingExtra(
            f'{package} is not installed: run pip install "regraft[{extra}]".'
        ) from None
