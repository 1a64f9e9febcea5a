"""From the folder of a run to its report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from regraft.files import write_text
from regraft.provenance import read_provenance
from regraft.report import chapters, premises, protocol
from regraft.report.elements import Chapter, Report
from regraft.report.rendering import render

REPORT = "report.html"
# What a folder may hold, in the order of the report: file, title, and what is made of it.
_KINDS: dict[str, tuple[str, Callable[[Any], Chapter]]] = {
    "demo.json": ("Colored MNIST, and a domain that nobody saw", chapters.demo_chapter),
    "fit.json": ("A head for domains that nobody has data from", chapters.fit_chapter),
    "audit.json": ("An audit in unseen domains", chapters.audit_chapter),
    "frontier.json": ("The price of robustness", chapters.frontier_chapter),
    "comparison.json": ("Heads compared, each domain left out", chapters.comparison_chapter),
    "moral.json": ("Moral questions", premises.moral_chapter),
    "diagnosis.json": ("Do the premises hold?", premises.diagnosis_chapter),
    "reproduction.json": ("The paper's experiment", protocol.reproduction_chapter),
    "collect.json": ("Algorithms by DomainBed's protocol", protocol.collection_chapter),
}


def write_report(folder: str | Path, path: str | Path | None = None) -> Path:
    """Write the report of all results in ``folder``, by default to report.html in it; the file.

    Raises ``ValueError`` with one sentence if there are none or if one is damaged, and
    ``MissingExtra`` without the extra ``report``.
    """
    folder = Path(folder)
    path = folder / REPORT if path is None else Path(path)
    write_text(path, render(read_report(folder)))
    return path


def read_report(folder: Path) -> Report:
    """What the results in ``folder`` have to say; errors as in :func:`write_report`."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder: pass the --out of a finished command.")
    found = [(file, *_KINDS[file.name]) for file in _results(folder)]
    if not found:
        known = ", ".join(_KINDS)
        raise ValueError(
            f"{folder} holds no results ({known}): pass the --out of a finished command."
        )
    return Report(
        title=found[0][1],
        chapters=tuple(_read(file, make) for file, _, make in found),
        provenance=read_provenance(folder),
    )


def _results(folder: Path) -> Iterator[Path]:
    """Files of results in the folder, those of its parts after its own."""
    for name in _KINDS:
        yield from (path for path in (folder / name,) if path.is_file())
        # An experiment keeps each reading of the method in a folder of its own.
        yield from sorted(folder.glob(f"*/{name}")) if name == "reproduction.json" else ()


def _read(path: Path, make: Callable[[Any], Chapter]) -> Chapter:
    try:
        return make(json.loads(path.read_text(encoding="utf-8")))
    except (AttributeError, IndexError, KeyError, StopIteration, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged or of another version ({type(error).__name__}: {error}): run its "
            "command again."
        ) from None
