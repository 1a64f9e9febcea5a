"""The chapters on a new domain: where it lies, and a head adapted to it."""

from __future__ import annotations

from regraft.estimators.abduction_ends import ShownRow
from regraft.estimators.learning_curve import LearningCurve
from regraft.estimators.placing import Placement
from regraft.estimators.target_certificate import TargetCertificate
from regraft.estimators.target_tables import adapted_table, place_table, placement_table
from regraft.report.elements import Chapter, Chart, Document, Part, Picture, Section, Strip, Text
from regraft.support.charts import labels_chart, shares_chart
from regraft.support.table import percent

_NEW = "new domain"
_ALIEN = (
    "A classifier was fitted to tell rows of the new domain from the mixture of the sources' rows "
    "that is nearest to them. These rows it finds least like the mixture, by a score that was "
    "fitted without them; the first row is 1."
)
_CURVE = (
    "A random half of the labelled rows is judged, and the labels come from the other half. Adapt "
    "starts from the model and also takes the rows without labels; refit knows the labels alone; "
    "no adaptation is the model as it was."
)


def place_chapter(document: Document) -> Chapter:
    """Build the chapter for ``place.json``."""
    placement = Placement.from_dict(document)
    closure, place, accuracy = document["summary"]
    sections = [
        Section("The rows least like the sources", (Text(_ALIEN), _show_rows(document))),
        Section("How good is the model there?", (Text(accuracy),)),
    ]
    if len(placement.shares) > 1:
        sections.insert(0, _shares_section(placement))
    return Chapter(
        "Where a new domain lies",
        f"Is the new domain ({placement.rows:,} rows, no labels used) a mix of what the sources "
        "have, and of what?",
        f"{closure} {place}",
        tuple(sections),
    )


def adapt_chapter(document: Document) -> Chapter:
    """Build the chapter for ``adapt.json``."""
    certificate = TargetCertificate.from_dict(document["certificate"])
    measured = adapted_table(certificate)
    added: list[Part] = [Text(certificate.added())]
    added += [measured] if measured is not None else []
    sections = [Section("What the rows of the domain added", tuple(added))]
    if document["curve"] is not None:
        sections.append(_curve_section(LearningCurve.from_dict(document["curve"])))
    sections += [
        Section("Where the domain lies", (place_table(certificate),)),
        Section("What is not certified", (Text(certificate.limits()),)),
    ]
    return Chapter(
        "A head for a new domain",
        f"How good is the head that {certificate.rows:,} rows of the domain lead to, "
        f"{certificate.labels:,} of them with labels?",
        certificate.claim(),
        tuple(sections),
    )


def _shares_section(placement: Placement) -> Section:
    table = placement_table(placement)
    last = {name: shares[-1] for name, shares in placement.source_shares.items()}
    marks = {
        "estimated": {**last, _NEW: placement.shares[-1]},
        "at least": {_NEW: placement.lower[-1]},
        "at most": {_NEW: placement.upper[-1]},
    }
    described = ", ".join(f"{name} {percent(share)}" for name, share in last.items())
    return Section(
        "Which groups it mixes",
        (
            Chart(
                "Share of the last group",
                shares_chart(marks, of="share"),
                f"The new domain has {percent(placement.shares[-1])} of the last group, "
                f"{percent(placement.lower[-1])} to {percent(placement.upper[-1])}; {described}.",
            ),
            table,
        ),
    )


def _show_rows(document: Document) -> Strip:
    rows = [ShownRow(**row) for row in document["alien"]]
    pictures = tuple(
        Picture(row.picture, f"{row.describe()} of the {_NEW}") for row in rows if row.picture
    )
    lines = () if pictures else tuple(row.describe() for row in rows)
    return Strip("Least alike first", pictures, lines)


def _curve_section(curve: LearningCurve) -> Section:
    lines = curve.lines()
    most = curve.labels[-1]
    described = ", ".join(
        f"{head} {percent(line[most])}" for head, line in lines.items() if most in line
    )
    chart = Chart(
        "Accuracy over the number of labels",
        labels_chart(lines),
        f"With {most} labels: {described}.",
    )
    return Section("What labels are worth", (Text(_CURVE), chart, curve.table()))
