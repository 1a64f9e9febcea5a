"""Write the report of all results in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from regraft.report import (
    abduction_chapter,
    head_chapters,
    premise_chapters,
    protocol_chapters,
    target_chapters,
)
from regraft.report.elements import Chapter, Report
from regraft.report.provenance import read_provenance
from regraft.report.rendering import render
from regraft.support.files import write_text

REPORT = "report.html"
# What a folder may hold, in the order of the report.
_KINDS: dict[str, Callable[[Any], Chapter]] = {
    "demo.json": head_chapters.demo_chapter,
    "fit.json": head_chapters.fit_chapter,
    "place.json": target_chapters.place_chapter,
    "adapt.json": target_chapters.adapt_chapter,
    "abduct.json": abduction_chapter.abduction_chapter,
    "audit.json": head_chapters.audit_chapter,
    "frontier.json": head_chapters.frontier_chapter,
    "comparison.json": head_chapters.comparison_chapter,
    "moral.json": premise_chapters.moral_chapter,
    "diagnosis.json": premise_chapters.diagnosis_chapter,
    "reproduction.json": protocol_chapters.reproduction_chapter,
    "collect.json": protocol_chapters.collection_chapter,
}


def write_report(folder: str | Path, path: str | Path | None = None) -> Path:
    """Write the report of all results in ``folder``; return its path, by default report.html in it.

    Raises ``ValueError`` with one sentence if there are none or if one is damaged, and
    ``MissingExtra`` without the extra ``report``.
    """
    folder = Path(folder)
    path = folder / REPORT if path is None else Path(path)
    write_text(path, render(read_report(folder)))
    return path


def read_report(folder: Path) -> Report:
    """Build the report of the results in ``folder``; errors as in :func:`write_report`."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder: pass the --out of a finished command.")
    found = list(_results(folder))
    if not found:
        known = ", ".join(_KINDS)
        raise ValueError(
            f"{folder} holds no results ({known}): pass the --out of a finished command."
        )
    return Report(tuple(_read(file) for file in found), read_provenance(folder))


def _results(folder: Path) -> Iterator[Path]:
    """Yield the files of results in the folder, those in its subfolders after its own."""
    for name in _KINDS:
        yield from (path for path in (folder / name,) if path.is_file())
        # An experiment keeps each reading of the method in a folder of its own.
        yield from sorted(folder.glob(f"*/{name}")) if name == "reproduction.json" else ()


def _read(path: Path) -> Chapter:
    try:
        text = path.read_text(encoding="utf-8")
        return _KINDS[path.name](json.loads(text, parse_constant=_refuse))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged or of another version ({type(error).__name__}: {error}): run its "
            "command again."
        ) from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"it holds {constant}")
