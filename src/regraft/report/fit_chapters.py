"""Chapters on a head that was fitted: fit and demo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regraft.core.certificates import certificate_from_dict
from regraft.core.evidence import accuracy_interval
from regraft.core.group_certificate import GroupCertificate
from regraft.core.head_certificate import HeadCertificate
from regraft.estimators.fit_answer import answer_fit
from regraft.estimators.group_audit import GroupAudit
from regraft.estimators.placing import Placement
from regraft.estimators.source_mixtures import check_sources
from regraft.report.elements import Chapter, Document, Figure, Section, Text, fold
from regraft.report.factor_sections import (
    ends_section,
    group_section,
    sureness_section,
    tie_section,
)
from regraft.report.premise_chapters import diagnosis_chapter
from regraft.report.prevalence import (
    ORDINARY,
    ROBUST,
    accuracies_of,
    heads_of,
    new_place,
    prevalence_section,
    source_places,
)
from regraft.report.sections import (
    certificate_section,
    domains_section,
    evidence_section,
    game_sections,
)
from regraft.support.factor_charts import PlacedDomain
from regraft.support.measured import MeasuredShare
from regraft.support.table import Table, percent

_MOST_CLASSES = 12  # with a column each
_MOST_SOURCES = 6  # by name
_FIT = "A model for domains that nobody has data from"


def demo_chapter(document: Document) -> Chapter:
    """Build the chapter for ``demo.json``."""
    certificate = certificate_from_dict(document["certificate"])
    found, target = document["abduction"], document["target"]
    unseen = f"{target} (unseen)"
    sizes = document["rows_measured"] | {unseen: document["rows_measured"][target]}
    rows = [*document["rows"], document["ceiling"]]
    measured = {
        row["name"]: {
            name: MeasuredShare(accuracy, *accuracy_interval(accuracy, sizes[name]))
            for name, accuracy in {**row["by_source"], unseen: row["target_accuracy"]}.items()
        }
        for row in rows
    }
    there = {name: row[unseen] for name, row in measured.items()}
    sections = [*_demo_factor(document, measured, unseen)]
    sections.append(domains_section(measured, "rows that no head was fitted on", "CRO"))
    sections += [sureness_section(found), *game_sections(certificate)]
    # What cross-validation measured on fewer rows would be a second accuracy of each head.
    sections.append(certificate_section(certificate, with_measured=False))
    if document["diagnosis"] is not None:
        sections += fold(diagnosis_chapter(document["diagnosis"]).sections)
    seen = {row["name"]: percent(row["source_accuracy"]) for row in rows}
    return Chapter(
        "Colored MNIST, and a domain that nobody saw",
        f"Which model, trained on {' and '.join(document['sources'])}, holds in {target}, which "
        "none has seen? (A domain is named after how its colours go with its labels.)",
        f"In {target}, which no model had seen, {percent(there['CRO'].value)} of the answers of "
        f"the robust model (CRO) are right, and {percent(there['ERM'].value)} of the ordinary "
        f"model's (ERM); in domains like the seen ones, {seen['CRO']} and {seen['ERM']}. The "
        "robust model does not lean on a hidden factor that the sources disagree about.",
        tuple(sections),
        Figure(
            percent(there["CRO"].value),
            f"of the robust model's answers are right in {target} (95 % interval "
            f"{there['CRO'].interval}), measured; of the ordinary model's, {there['ERM']}.",
        ),
        tuple(found["warnings"]),
    )


def fit_chapter(document: Document) -> Chapter:
    """Build the chapter for ``fit.json``."""
    c = certificate_from_dict(document["certificate"])
    rows = document["rows"]
    n = sum(sum(counts.values()) for counts in rows.values())
    asked = (
        f"{n:,} rows came from {_sources(rows)}. Which model holds in a new domain: one like these "
        "that nobody has data from?"
    )
    accuracies = accuracies_of(c)
    checks = check_sources(c)
    if isinstance(c, GroupCertificate):
        places = source_places(c.abduction, accuracies, checks)
        first = _factor_sections(document["abduction"], c, places)
        sure = (sureness_section(document["abduction"]),)
    else:
        assert isinstance(c, HeadCertificate)
        if c.radius is None:
            raise ValueError("its certificate has no radius")
        first, sure = (), (_scale_section(c.distances),)
    sections = (
        *first,
        domains_section(accuracies, "held-out rows", ORDINARY if c.reason else ROBUST, checks),
        evidence_section(c),
        *sure,
        certificate_section(c),
        *game_sections(c),
        _rows_section(document),
    )
    answer = answer_fit(c, rows)
    figure = Figure(answer.number, answer.meaning)
    return Chapter(_FIT, asked, answer.verdict, sections, figure, answer.doubts)


def _factor_sections(
    found: Document, certificate: GroupCertificate, places: Sequence[PlacedDomain]
) -> tuple[Section, ...]:
    """Show the hidden factor in pictures, if one was found."""
    if not found["ends"]:
        return ()
    heads = heads_of(certificate)
    return (
        ends_section(found),
        prevalence_section(found, heads, places),
        tie_section(found),
        group_section(heads, found),
    )


def _demo_factor(
    document: Document, measured: Mapping[str, Mapping[str, MeasuredShare]], unseen: str
) -> Iterator[Section]:
    """Yield the factor in pictures, with the heads that were audited on rows new to them."""
    found = document["abduction"]
    if not found["ends"]:
        return
    yield ends_section(found)
    audits = {name: GroupAudit.from_dict(audit) for name, audit in document["audits"].items()}
    placement = Placement.from_dict(document["placement"])
    sizes = {len(placement.shares), *(audit.n_groups for audit in audits.values())}
    if sizes != {found["n_groups"]}:  # the rows held out are too few to show the same groups
        yield tie_section(found)
        return
    heads = {name: audit.groups for name, audit in audits.items()}
    audited = {name: measured[name] for name in audits}
    there = {name: row[unseen] for name, row in audited.items()}
    places = [*source_places(found, audited), new_place(unseen, placement, there)]
    yield prevalence_section(found, heads, places)
    yield tie_section(found)
    yield group_section(heads, found)


def _rows_section(document: Document) -> Section:
    rows, classes = document["rows"], document["classes"]
    shown = classes if len(classes) <= _MOST_CLASSES else []
    counts = tuple(
        (name, *(str(row.get(label, 0)) for label in shown), str(sum(row.values())), str(len(row)))
        for name, row in rows.items()
    )
    columns = ("source", *shown, "all rows", "classes")
    return Section("The data", (Table("Rows by source", columns, counts),), folded=True)


def _sources(rows: Mapping[str, Any]) -> str:
    count = "1 source" if len(rows) == 1 else f"{len(rows)} sources"
    return count if len(rows) > _MOST_SOURCES else f"{count} ({', '.join(rows)})"


def _scale_section(distances: Mapping[str, float]) -> Section:
    rows = tuple((name, f"{distance:.2f}") for name, distance in distances.items())
    text = Text(
        "How far the sources themselves lie from their mean, as far as their rows can tell, is the "
        "scale for a radius: one that is many times as large prepares for domains that are many "
        "times as different."
    )
    table = Table("Distance from the mean of the sources", ("source", "nats"), rows)
    return Section("How far is far?", (text, table), folded=True)
