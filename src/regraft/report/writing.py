"""Write the report of all results in a folder as one HTML file that loads nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

from regraft._version import __version__
from regraft.report import (
    abduction_chapter,
    drift_chapter,
    fit_chapters,
    head_chapters,
    premise_chapters,
    protocol_chapters,
    target_chapters,
)
from regraft.report.elements import Chapter, Chart, Report, Slider
from regraft.report.provenance import read_provenance
from regraft.support.extras import require
from regraft.support.files import write_text
from regraft.support.glossary import meaning
from regraft.support.json_files import load_json
from regraft.support.plain_text import show_all_plainly
from regraft.support.reading import read_file
from regraft.support.runs import RUN, check_run

REPORT = "report.html"
_STATIC_WIDTH = 560  # pixels of charts that no script fits to the page
# What a folder may hold, in the order of the report, and the command that writes it.
_KINDS: dict[str, tuple[Callable[[Any], Chapter], str]] = {
    "demo.json": (fit_chapters.demo_chapter, "demo"),
    "fit.json": (fit_chapters.fit_chapter, "fit"),
    "place.json": (target_chapters.place_chapter, "place"),
    "adapt.json": (target_chapters.adapt_chapter, "adapt"),
    "abduct.json": (abduction_chapter.abduction_chapter, "abduct"),
    "audit.json": (head_chapters.audit_chapter, "audit"),
    "frontier.json": (head_chapters.frontier_chapter, "frontier"),
    "comparison.json": (head_chapters.comparison_chapter, "compare"),
    "drift.json": (drift_chapter.drift_chapter, "drift"),
    "moral.json": (premise_chapters.moral_chapter, "moral run"),
    "diagnosis.json": (premise_chapters.diagnosis_chapter, "diagnose"),
    "reproduction.json": (protocol_chapters.reproduction_chapter, "reproduce"),
    "collect.json": (protocol_chapters.collection_chapter, "collect"),
}

# What a reader who knows regression, but not this method, may ask; pages explain what they use.
WORDS = (
    *("domain", "source", "head", "ERM", "GroupDRO", "CRO", "held-out rows", "interval"),
    *("hidden factor", "group", "share", "mixture", "plausible domain", "radius", "nat"),
    *("worst case", "risk", "regret", "effective rows", "ridge", "transplant", "closure"),
    *("p-value", "certificate"),
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


def read_report(folder: Path, newer: Path | None = None) -> Report:
    """Build the report of the results in ``folder``; errors as in :func:`write_report`.

    Those in the folder ``newer``, with their provenance, are going to take the place of others.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder: pass the --out of a finished command.")
    provenance = read_provenance(newer or folder)
    fresh = [] if newer is None else list(_results(newer))
    replaced = {path.name for path in fresh}
    old = [path for path in _results(folder) if path.name not in replaced]
    for path in old:
        check_run(folder, path.relative_to(folder).as_posix())
    order = list(_KINDS)
    found = sorted((*fresh, *old), key=lambda path: order.index(path.name))
    if not found:
        known = ", ".join(_KINDS)
        raise ValueError(
            f"{folder} holds no results ({known}): pass the --out of a finished command."
        )
    chapters = [_read(file) for file in found]
    names = [_KINDS[file.name][1] for file in found]
    for command, origin in provenance.items():
        # What a command warned of stands in its own answer, or else in the first.
        i = names.index(command) if command in names else 0
        doubts = dict.fromkeys((*chapters[i].doubts, *origin.warnings))
        chapters[i] = replace(chapters[i], doubts=tuple(doubts))
    return Report(tuple(chapters), provenance)


def _results(folder: Path) -> Iterator[Path]:
    """Yield the files of results in the folder, those in its subfolders after its own."""
    for name in _KINDS:
        yield from (path for path in (folder / name,) if path.is_file())
        # An experiment keeps each reading of the method in a folder of its own.
        yield from sorted(folder.glob(f"*/{name}")) if name == "reproduction.json" else ()


def _read(path: Path) -> Chapter:
    try:
        document = load_json(read_file(path), parse_constant=_refuse)
        document.pop(RUN, None)  # which is checked already
        return _KINDS[path.name][0](document)
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
    environment.filters |= {"embedded": _embedded, "static": _draw}
    template = environment.from_string(_read_page("report.html.jinja"))
    has_charts = any(
        isinstance(part, Chart | Slider)
        for chapter in report.chapters
        for section in chapter.sections
        for part in section.parts
    )
    text: str = template.render(
        report=report,
        version=__version__,
        words={word: meaning(word) for word in _used(report)},
        style=_read_page("report.css"),
        script=_read_page("report.js"),
        has_charts=has_charts,
        library=_library() if has_charts else "",
    )
    return text


def _used(report: Report) -> Iterator[str]:
    """Yield the words that the page uses and explains."""
    said = repr(report.chapters).lower()
    yield from (word for word in WORDS if re.search(rf"\b{re.escape(word.lower())}", said))


def _draw(spec: Any) -> Any:
    """Draw a chart as SVG, for readers whose browser runs no script."""
    markupsafe = require("markupsafe", "report")
    shown = show_all_plainly({**spec, "width": _STATIC_WIDTH})
    svg = require("vl_convert", "report").vegalite_to_svg(shown)
    return markupsafe.Markup(svg)


def _embedded(spec: Any) -> Any:
    """Write JSON for a script element, so that no text can end the element."""
    markupsafe = require("markupsafe", "report")
    text = json.dumps(show_all_plainly(spec), allow_nan=False)
    return markupsafe.Markup(
        text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")
    )


def _library() -> str:
    """Return the script of Vega-Lite, Vega and Vega-Embed, which may not end its element either."""
    script: str = require("vl_convert", "report").javascript_bundle()
    notice = f"/*!\n{_read_page('vega_license.txt')}*/\n"  # its licence asks for it in every copy
    return notice + script.replace("</script", r"<\/script")


def _read_page(name: str) -> str:
    return (files("regraft") / "report" / "page" / name).read_text(encoding="utf-8")
