"""Chapters on a head that was fitted: fit and demo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regraft.core.certificate import Certificate
from regraft.core.certificates import certificate_from_dict
from regraft.core.evidence import accuracy_interval
from regraft.core.group_certificate import GroupCertificate
from regraft.core.head_certificate import HeadCertificate
from regraft.estimators.evidence_tables import name_domains
from regraft.estimators.group_audit import GroupAudit
from regraft.estimators.placing import Placement
from regraft.report.elements import Chapter, Document, Figure, Section, Text, fold
from regraft.report.factor_sections import (
    ends_section,
    group_section,
    sureness_section,
    tie_section,
)
from regraft.report.premise_chapters import diagnosis_chapter
from regraft.report.prevalence import (
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
_FIT = "A head for domains that nobody has data from"
_NOT_SETTLED = "The game had not settled when it ended, so a better head may exist."


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
        f"Which head, trained on {' and '.join(document['sources'])}, holds in {target}, which "
        "none has seen? (A domain is named after how its colours go with its labels.)",
        f"In {target}, which no head had seen, CRO has {percent(there['CRO'].value)} accuracy and "
        f"the usual head (ERM) {percent(there['ERM'].value)}; in domains like the seen ones, CRO "
        f"has {seen['CRO']} and ERM {seen['ERM']}. CRO does not lean on a hidden factor that the "
        "sources disagree about.",
        tuple(sections),
        Figure(
            percent(there["CRO"].value),
            f"accuracy of CRO in {target} (95 % interval {there['CRO'].interval}), measured; ERM "
            f"has {there['ERM']}.",
        ),
        tuple(found["warnings"]),
    )


def fit_chapter(document: Document) -> Chapter:
    """Build the chapter for ``fit.json``."""
    c = certificate_from_dict(document["certificate"])
    rows = document["rows"]
    n = sum(sum(counts.values()) for counts in rows.values())
    given = f"From {n} rows of {document['n_features']} features in {_sources(rows)}, fit the head"
    doubts: tuple[str, ...] = () if c.converged else (_NOT_SETTLED,)
    accuracies = accuracies_of(c)
    if isinstance(c, GroupCertificate):
        asked = f"{given} that is best in the worst domain that mixes their hidden groups."
        doubts = (*c.abduction["warnings"], *doubts)
        places = source_places(c.abduction, accuracies)
        first = _factor_sections(document["abduction"], c, places)
        sure = (sureness_section(document["abduction"]),)
    else:
        assert isinstance(c, HeadCertificate)
        if c.radius is None:
            raise ValueError("its certificate has no radius")
        asked = (
            f"{given} with the smallest worst {c.objective} over every plausible unseen "
            f"domain within {c.radius:.3g} nats of their mean."
        )
        first, sure = (), (_scale_section(c.distances),)
    sections = (
        *first,
        domains_section(accuracies, "held-out rows", "ERM" if c.reason else "CRO"),
        evidence_section(c),
        *sure,
        certificate_section(c),
        *game_sections(c),
        _rows_section(document),
    )
    return Chapter(_FIT, asked, _verdict(c), sections, _figure(c), doubts)


def _factor_sections(
    found: Document, certificate: GroupCertificate, places: Sequence[PlacedDomain]
) -> tuple[Section, ...]:
    """Show the hidden factor in pictures, if one was found."""
    if not found["ends"]:
        return ()
    heads = heads_of(certificate)
    return (
        ends_section(found),
        tie_section(found),
        group_section(heads, found),
        prevalence_section(found, heads, places),
    )


def _demo_factor(
    document: Document, measured: Mapping[str, Mapping[str, MeasuredShare]], unseen: str
) -> Iterator[Section]:
    """Yield the factor in pictures, with the heads that were audited on rows new to them."""
    found = document["abduction"]
    if not found["ends"]:
        return
    yield ends_section(found)
    yield tie_section(found)
    audits = {name: GroupAudit.from_dict(audit) for name, audit in document["audits"].items()}
    placement = Placement.from_dict(document["placement"])
    sizes = {len(placement.shares), *(audit.n_groups for audit in audits.values())}
    if sizes != {found["n_groups"]}:  # the rows held out are too few to show the same groups
        return
    heads = {name: audit.groups for name, audit in audits.items()}
    audited = {name: measured[name] for name in audits}
    there = {name: row[unseen] for name, row in audited.items()}
    places = [*source_places(found, audited), new_place(unseen, placement, there)]
    yield group_section(heads, found)
    yield prevalence_section(found, heads, places)


def _verdict(c: Certificate) -> str:
    """Say what is certified beside ERM's, or why the head is ERM's; everything held out."""
    certified = f"certified to have at least {percent(c.accuracy)} accuracy in {name_domains(c)}"
    has_factor = isinstance(c, GroupCertificate) and c.n_groups > 1
    found = "A hidden factor was found" if has_factor else ""
    if isinstance(c, GroupCertificate) and c.n_groups == 1:
        return (
            f"No hidden factor was found, so this is the usual head (ERM's), {certified}. Nothing "
            "is known about domains unlike the sources."
        )
    if c.reason:
        but = f"{found}, but this" if found else "This"
        return f"{but} is the usual head (ERM's), because {c.reason}. It is {certified}."
    this = f"{found}, and this head" if found else "This head"
    if isinstance(c, GroupCertificate) and c.prior_shift is None:
        this += ", however common the factor is,"
    if isinstance(c, HeadCertificate) and c.kept:
        certified += f" (at least {percent(c.kept_accuracy)} if the inputs stay the sources')"
    return f"{this} is {certified}; the usual head (ERM's), at least {percent(c.pooled_accuracy)}."


def _figure(c: Certificate) -> Figure:
    """Return the certified accuracy, or the measured one where domains like the sources are all."""
    rows = len(c.sources) ** 2 / sum(1 / each.rows for each in c.sources)
    own, erm = (
        MeasuredShare(accuracy, *accuracy_interval(accuracy, rows))
        for accuracy in (c.source_accuracy, c.pooled_source_accuracy)
    )
    if isinstance(c, GroupCertificate) and c.n_groups == 1:
        meaning = "accuracy measured on held-out rows of the sources"
        return Figure(percent(own.value), f"{meaning} (95 % interval {own.interval}).")
    beside = "" if c.reason else f", and ERM's {erm}"
    return Figure(
        f"at least {percent(c.accuracy)}",
        f"accuracy in {name_domains(c)}, with {c.confidence:.0%} confidence. Measured on held-out "
        f"rows of the sources, the head has {own}{beside} (95 % intervals).",
    )


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
    count = "1 source domain" if len(rows) == 1 else f"{len(rows)} source domains"
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
