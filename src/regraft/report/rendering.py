"""From a report to one HTML file that loads nothing."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from regraft._version import __version__
from regraft.report.elements import Chart, Report
from regraft.support.extras import require

# What a reader who knows regression, but not this method, may ask.
WORDS = {
    "head": "A linear softmax classifier on given features.",
    "ERM": "Empirical risk minimization: the usual regression on all sources together.",
    "CRO": "Causal Robust Optimization: the head that is best in the worst plausible domain, as "
    "far as noise lets one tell.",
    "plausible domain": "One whose head is a weighted sum of the sources' heads, weights adding up "
    "to one and negative ones allowed: it moves what the sources disagree about, and nothing else.",
    "radius, nats": "How far such a domain may lie from the mean of the sources: by how much it "
    "moves the logits, root mean square over rows and classes. With two classes, 1 nat makes even "
    "odds 7.4 to 1.",
    "risk": "Mean cross-entropy in nats; log 2 = 0.69 is guessing between two classes.",
    "effective rows": "How many rows of equal weight a reweighted sample is worth.",
}


def render(report: Report) -> str:
    """The page, with its style, its script and the charts' library inside.

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
        words=WORDS,
        style=_read("report.css"),
        script=_read("report.js"),
        warnings=list(dict.fromkeys(w for p in report.provenance.values() for w in p.warnings)),
        has_charts=has_charts,
        library=_library() if has_charts else "",
    )
    return text


def _embedded(spec: Any) -> Any:
    """JSON for a script element, in which no text can end the element."""
    markupsafe = require("markupsafe", "report")
    text = json.dumps(spec, allow_nan=False)
    return markupsafe.Markup(
        text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")
    )


def _library() -> str:
    """The script of Vega-Lite, Vega and Vega-Embed, which may not end its element either."""
    script: str = require("vl_convert", "report").javascript_bundle()
    return script.replace("</script", r"<\/script")


def _read(name: str) -> str:
    return (files("regraft") / "report" / "page" / name).read_text(encoding="utf-8")
