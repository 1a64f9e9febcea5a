"""Algorithms of the protocol: every module of this package that registers one is found by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from regraft.bench.algorithms.base import ENTRIES, Algorithm, Entry, Task, algorithm

__all__ = ["Algorithm", "Entry", "Task", "algorithm", "algorithms", "find_algorithm"]


@cache
def _import_all() -> None:
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")


def algorithms() -> Mapping[str, Entry]:
    """Return all algorithms by name, with those that plugins have added."""
    _import_all()
    return dict(sorted(ENTRIES.items()))


def find_algorithm(name: str) -> Entry:
    """Return the algorithm ``name``, or raise ``ValueError``."""
    known = algorithms()
    if name not in known:
        raise ValueError(f"algorithm is {name!r}: choose from {', '.join(known)}.")
    return known[name]
