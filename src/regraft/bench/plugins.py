"""Algorithms and datasets from outside the package: files of code, and entry points of packages."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from regraft.bench.algorithms import Algorithm, Entry, algorithms
from regraft.bench.algorithms.base import ENTRIES
from regraft.bench.algorithms.domainbed_style import adapt_class, is_domainbed_style
from regraft.bench.datasets import RegisteredDataset, datasets
from regraft.bench.datasets.base import REGISTERED
from regraft.core.features import join_names
from regraft.support.digests import digest_parts

GROUPS = ("regraft.algorithms", "regraft.datasets")
_DIGITS = 12  # of a file's sha256 that tell it from others of the same name
# Names in a plugin's module, as in DomainBed's files: which classes are algorithms, and what
# hyperparameters each has.
_LIST, _SPACES = "ALGORITHMS", "HPARAMS"
_SHOWN = 3  # names of algorithms of ours in a warning
_LOADED: dict[Path, str] = {}  # the origin of each file that was loaded


def load_plugins(paths: Iterable[Path] = ()) -> None:
    """Run the files ``paths``, so that their algorithms and datasets are found by name.

    Those of installed packages, which name them as entry points, are found too. A file is run
    once, and again if it has changed. Raises ``ValueError`` or ``FileNotFoundError`` with one
    sentence.
    """
    algorithms(), datasets()  # first, so that names that are taken are known
    _load_entry_points()
    for path in paths:
        _load_file(path.absolute())


def _load_file(path: Path) -> None:
    try:
        code = path.read_bytes()
    except OSError as error:
        raise FileNotFoundError(
            f"there is no plugin {path} ({error.strerror}): name a Python file with --plugins."
        ) from None
    origin = f"{path.name} sha256 {digest_parts([code])[:_DIGITS]}"
    if _LOADED.get(path) == origin:
        return
    _forget(_LOADED.pop(path, ""))
    module = ModuleType(f"regraft_plugin_{path.stem}")
    module.__file__ = str(path)
    with _adding(origin, str(path)) as added:
        sys.modules[module.__name__] = module  # where dataclasses look for it
        exec(compile(code, str(path), "exec"), vars(module))
        _add_module(module, origin)
        if not added():
            raise ValueError(
                "it has no algorithm and no dataset: a class in DomainBed's style takes "
                "input_shape, num_classes, num_domains and hparams, and has update and predict"
            )
    _LOADED[path] = origin


@cache
def _load_entry_points() -> None:
    """Load what installed packages offer; one that does not load is left out, with a warning."""
    for group in GROUPS:
        for point in entry_points(group=group):
            try:
                _load_entry_point(point)
            except ValueError as error:
                warnings.warn(str(error), stacklevel=3)


def _load_entry_point(point: EntryPoint) -> None:
    package = point.dist
    origin = f"{package.name} {package.version}" if package is not None else point.value
    with _adding(origin, f"the entry point {point.name} of {origin}") as added:
        value = point.load()
        if isinstance(value, ModuleType):
            _add_module(value, origin)
        elif not added():  # by a decorator
            _add_class(point.name, value, {}, origin)


@contextmanager
def _adding(origin: str, source: str) -> Iterator[Callable[[], bool]]:
    """Give what is registered inside its ``origin``; take it back at an error, in one sentence."""
    before = dict(ENTRIES), dict(REGISTERED)

    def added() -> bool:
        return len(ENTRIES) + len(REGISTERED) > len(before[0]) + len(before[1])

    try:
        yield added
    except Exception as error:
        _put_back(ENTRIES, before[0])
        _put_back(REGISTERED, before[1])
        reason = " ".join(str(error).split()).rstrip(".")
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(
            f"{source} cannot be used ({kind}{reason.replace('. ', '; ')}): mend it or leave it "
            "out."
        ) from None
    for name in ENTRIES.keys() - before[0]:
        ENTRIES[name] = replace(ENTRIES[name], origin=origin)
    for name in REGISTERED.keys() - before[1]:
        REGISTERED[name].origin = origin


def _add_module(module: ModuleType, origin: str) -> None:
    """Register the DomainBed-style classes of a module: those that it lists, or all public ones."""
    spaces: Mapping[str, Any] = getattr(module, _SPACES, {})
    own = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and name[0] != "_"
    }
    listed = list(getattr(module, _LIST, own))
    ours = _ours_among(module, listed) if hasattr(module, _LIST) else []
    if ours:  # in a copy of DomainBed's file with some added
        _warn_of_ours(ours, module)
    for name in listed:
        value = getattr(module, name, None)
        if name in ours:
            continue
        if is_domainbed_style(value):
            _add_class(name, value, spaces.get(name, {}), origin)
        elif name not in own and name not in ENTRIES:
            raise ValueError(f"{_LIST} has {name!r}, which is no algorithm in it")


def _ours_among(module: ModuleType, names: Iterable[str]) -> list[str]:
    """List the DomainBed-style classes of a module whose names the package itself has."""
    return [
        name
        for name in names
        if name in ENTRIES
        and not ENTRIES[name].origin
        and is_domainbed_style(getattr(module, name, None))
    ]


def _warn_of_ours(names: Sequence[str], module: ModuleType) -> None:
    warnings.warn(
        f"{module.__file__} lists {join_names(names, _SHOWN)} in {_LIST}, which regraft has as "
        "well: its own are used, so give one that you have changed another name.",
        stacklevel=2,
    )


def _add_class(name: str, value: Any, own: Mapping[str, Any], origin: str) -> None:
    if name in ENTRIES or name in REGISTERED:
        raise ValueError(f"there are two called {name!r}: rename one of them")
    if is_domainbed_style(value):
        ENTRIES[name] = adapt_class(name, own, value, origin)
    elif inspect.isclass(value) and issubclass(value, Algorithm):
        ENTRIES[name] = Entry(name, value, own)
    elif inspect.isclass(value) and issubclass(value, RegisteredDataset):
        value.name = name
        REGISTERED[name] = value
    else:
        raise ValueError("it is neither an algorithm nor a dataset")


def _forget(origin: str) -> None:
    """Remove what an earlier version of a file registered."""
    _put_back(ENTRIES, {k: v for k, v in ENTRIES.items() if not origin or v.origin != origin})
    _put_back(REGISTERED, {k: v for k, v in REGISTERED.items() if not origin or v.origin != origin})


def _put_back(registry: dict[str, Any], content: dict[str, Any]) -> None:
    registry.clear()
    registry.update(content)
