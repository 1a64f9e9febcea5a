"""Write the report of all results in a folder as one HTML file that loads nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

from regraft._version import __version__
from regraft.report import (
    abduction_chapter,
    drift_chapter,
    head_chapters,
    premise_chapters,
    protocol_chapters,
    target_chapters,
)
from regraft.report.elements import Chapter, Chart, Report
from regraft.report.provenance import read_provenance
from regraft.support.extras import require
from regraft.support.files import write_text
from regraft.support.glossary import meaning

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
    "drift.json": drift_chapter.drift_chapter,
    "moral.json": premise_chapters.moral_chapter,
    "diagnosis.json": premise_chapters.diagnosis_chapter,
    "reproduction.json": protocol_chapters.reproduction_chapter,
    "collect.json": protocol_chapters.collection_chapter,
}

# What a reader who knows regression, but not this method, may ask.
WORDS = (
    *("domain", "source", "head", "ERM", "GroupDRO", "CRO", "plausible domain", "radius", "nat"),
    *("hidden factor", "group"),
    *("worst case", "risk", "regret", "effective rows", "ridge", "transplant", "closure"),
)


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


def render(report: Report) -> str:
    """Return the page, with its style, its script and the charts' library inside.

    All text of the report is escaped. Needs the extra ``report``.
    """
    jinja2 = require("jinja2", "report")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["embedded"] = _embedded
    template = environment.from_string(_read_page("report.html.jinja"))
    has_charts = any(
        isinstance(part, Chart)
        for chapter in report.chapters
        for section in chapter.sections
        for part in section.parts
    )
    text: str = template.render(
        report=report,
        version=__version__,
        words={word: meaning(word) for word in WORDS},
        style=_read_page("report.css"),
        script=_read_page("report.js"),
        warnings=list(dict.fromkeys(w for p in report.provenance.values() for w in p.warnings)),
        has_charts=has_charts,
        library=_library() if has_charts else "",
    )
    return text


def _embedded(spec: Any) -> Any:
    """Write JSON for a script element, so that no text can end the element."""
    markupsafe = require("markupsafe", "report")
    text = json.dumps(spec, allow_nan=False)
    return markupsafe.Markup(
        text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")
    )


def _library() -> str:
    """Return the script of Vega-Lite, Vega and Vega-Embed, which may not end its element either."""
    script: str = require("vl_convert", "report").javascript_bundle()
    return script.replace("</script", r"<\/script")


def _read_page(name: str) -> str:
    return (files("regraft") / "report" / "page" / name).read_text(encoding="utf-8")
