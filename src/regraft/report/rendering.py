"""Render a report as one HTML file that loads nothing."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from regraft._version import __version__
from regraft.report.elements import Chart, Report
from regraft.support.extras import require
from regraft.support.glossary import meaning

# What a reader who knows regression, but not this method, may ask.
WORDS = (
    *("domain", "source", "head", "ERM", "GroupDRO", "CRO", "plausible domain", "radius", "nat"),
    *("hidden factor", "group"),
    *("worst case", "risk", "regret", "effective rows", "ridge", "transplant", "closure"),
)


def render(report: Report) -> str:
    """Return the page, with its style, its script and the charts' library inside.

    All text of the report is escaped. Needs the extra ``report``.
    """
    jinja2 = require("jinja2", "report")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["embedded"] = _embedded
    template = environment.from_string(_read("report.html.jinja"))
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
        style=_read("report.css"),
        script=_read("report.js"),
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


def _read(name: str) -> str:
    return (files("regraft") / "report" / "page" / name).read_text(encoding="utf-8")
