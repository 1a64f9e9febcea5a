"""Chapters on heads: demo, fit, audit, frontier and comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regraft.core.certificate import Certificate
from regraft.core.certificates import certificate_from_dict
from regraft.core.group_certificate import GroupCertificate
from regraft.core.head_certificate import HeadCertificate
from regraft.estimators.audit import AuditCurve
from regraft.estimators.evidence_tables import name_domains
from regraft.estimators.free_audit import FreeAudit
from regraft.estimators.frontier import Frontier
from regraft.estimators.group_audit import COLUMNS, GroupAudit, evidence_rows
from regraft.estimators.plots import comparison_chart, evidence_chart, group_chart
from regraft.report.abduction_chapter import abduction_sections
from regraft.report.elements import Chapter, Chart, Document, Section, Text
from regraft.report.premise_chapters import diagnosis_chapter
from regraft.report.sections import (
    accuracies_section,
    factor_section,
    frontier_section,
    proof_sections,
    stress_section,
)
from regraft.support.table import Table, percent

_MOST_CLASSES = 12  # with a column each
_MOST_SOURCES = 6  # by name
_FIT = "A head for domains that nobody has data from"


def demo_chapter(document: Document) -> Chapter:
    """Build the chapter for ``demo.json``."""
    certificate = certificate_from_dict(document["certificate"])
    audits = {name: GroupAudit.from_dict(audit) for name, audit in document["audits"].items()}
    rows, target = [*document["rows"], document["ceiling"]], document["target"]
    unseen = f"{target} (unseen)"
    accuracies = {row["name"]: {**row["by_source"], unseen: row["target_accuracy"]} for row in rows}
    erm, cro = document["rows"][0], document["rows"][-1]
    sections = list(abduction_sections(document["abduction"]))
    sections.append(accuracies_section(accuracies, "rows that no head was fitted on"))
    sections.append(_heads_section(audits, "rows that no head was fitted on"))
    sections += proof_sections(certificate)
    if document["diagnosis"] is not None:
        sections += diagnosis_chapter(document["diagnosis"]).sections
    return Chapter(
        "Colored MNIST, and a domain that nobody saw",
        f"Which head, trained on {' and '.join(document['sources'])}, holds in {target}, which "
        "none has seen? (A domain is named after how its colours go with its labels.)",
        f"From the seen domains to the unseen one, ERM goes from "
        f"{percent(erm['source_accuracy'])} to {percent(erm['target_accuracy'])}, and CRO, which "
        f"refuses to lean on what the sources disagree about, from "
        f"{percent(cro['source_accuracy'])} to {percent(cro['target_accuracy'])}.",
        tuple(sections),
    )


def fit_chapter(document: Document) -> Chapter:
    """Build the chapter for ``fit.json``."""
    certificate = certificate_from_dict(document["certificate"])
    rows = document["rows"]
    n = sum(sum(counts.values()) for counts in rows.values())
    given = f"From {n} rows of {document['n_features']} features in {_sources(rows)}, fit the head"
    if isinstance(certificate, GroupCertificate):
        asked = f"{given} that is best in the worst domain that mixes their hidden groups."
        parts = factor_section(certificate), *proof_sections(certificate)
        sections = [_rows_section(document), *parts]
        return Chapter(_FIT, asked, _certified_verdict(certificate), tuple(sections))
    assert isinstance(certificate, HeadCertificate)
    if certificate.radius is None:
        raise ValueError("its certificate has no radius")
    asked = (
        f"{given} with the smallest worst {certificate.objective} over every plausible unseen "
        f"domain within {certificate.radius:.3g} nats of their mean."
    )
    sections = [_rows_section(document), _scale_section(certificate.distances)]
    sections += proof_sections(certificate)
    return Chapter(_FIT, asked, _certified_verdict(certificate), tuple(sections))


def audit_chapter(document: Document) -> Chapter:
    """Build the chapter for ``audit.json``; files without a family are the hull's."""
    if document.get("family") == "latent":
        return _group_audit_chapter(GroupAudit.from_dict(dict(document)))
    if document.get("family") == "free":
        return _free_audit_chapter(FreeAudit.from_dict(dict(document)))
    curve = AuditCurve.from_dict({k: document[k] for k in ("points", "source_accuracy")})
    worst = curve.points[-1]
    return Chapter(
        "An audit in unseen domains",
        "How bad can a fixed predictor get in a plausible unseen domain?",
        f"Measured on the rows audited, it has {percent(curve.source_accuracy)} on the sources and "
        f"{percent(worst.accuracy)} in the worst plausible domain within {worst.radius:g} nats.",
        (stress_section({"predictor": curve}, "the rows audited"), _targets_section(curve)),
    )


def frontier_chapter(document: Document) -> Chapter:
    """Build the chapter for ``frontier.json``."""
    frontier = Frontier.from_dict(dict(document))
    return Chapter(
        "The price of robustness",
        "What does robustness cost on the sources, and what does it buy in the worst domain?",
        frontier.summary(),
        (frontier_section(frontier),),
    )


def comparison_chapter(document: Document) -> Chapter:
    """Build the chapter for ``comparison.json``."""
    rows, targets = document["rows"], document["targets"]
    fixed = [row for row in rows if row["radius"] is None]
    swept = {row["radius"]: row["average"] for row in rows if row["radius"] is not None}
    erm, cro = fixed[0], fixed[-1]
    others = {row["head"]: row["average"] for row in fixed}
    ends = ", ".join(f"{name} {percent(average)}" for name, average in others.items())
    cells = tuple(
        (row["head"], *map(percent, (*row["accuracy"].values(), row["average"], row["worst"])))
        for row in rows
    )
    table = Table(
        "Accuracy in the domain left out",
        ("head", *targets, "average", "worst"),
        cells,
        note="One domain left out is one observation: this table shows what a radius would have "
        "done, and does not choose one.",
    )
    title = "average accuracy, unseen domains (%)"
    parts: tuple[Chart | Table, ...] = (table,)
    if swept:
        chart = Chart("Over the radius", comparison_chart(swept, others, title), f"{ends}.")
        parts = (chart, table)
    accuracies = {row["head"]: row["accuracy"] for row in fixed}
    return Chapter(
        "Heads compared, each domain left out",
        f"Which head holds where none has been? Each of {len(targets)} domains was left out in "
        "turn.",
        f"{cro['head']} has {percent(cro['average'])} on average over the unseen domains and "
        f"{percent(cro['worst'])} in the worst ({cro['worst_target']}), {erm['head']} "
        f"{percent(erm['average'])} and {percent(erm['worst'])}.",
        (
            Section("All heads, each domain left out", parts),
            accuracies_section(accuracies, "the domain left out", cro["head"]),
        ),
    )


def _group_audit_chapter(audit: GroupAudit) -> Chapter:
    """Build the chapter for an ``audit.json`` by groups."""
    found = audit.abduction
    sections = [_accuracy_section(audit)]
    if audit.n_groups > 1:
        columns = ("source", *(each.name for each in audit.groups))
        rows = tuple(
            (name, *(f"{share:.0%}" for share in shares))
            for name, shares in zip(found["domains"], found["shares"], strict=True)
        )
        shares = Table("Share of the groups in each source", columns, rows)
        sections.append(Section("Where the groups are", (*map(Text, found["warnings"]), shares)))
    return Chapter(
        "An audit by hidden groups",
        "How good is a fixed predictor in each hidden group, and in a domain that mixes them "
        "otherwise than the sources do?",
        audit.summary(),
        tuple(sections),
    )


def _free_audit_chapter(audit: FreeAudit) -> Chapter:
    """Build the chapter for an ``audit.json`` of the free adversary."""
    evidence = (audit.target, *audit.sources)
    rows = Table(
        f"Risk in nats and accuracy; bounds with {audit.confidence:.0%} confidence",
        COLUMNS,
        tuple(evidence_rows(evidence)),
    )
    chart = Chart(
        "Accuracy in the worst domain found and in each source; the line ends at the bound",
        evidence_chart({"predictor": evidence}),
        audit.summary(),
    )
    return Chapter(
        "An audit by the free adversary",
        "How bad is a fixed head in the worst domain that the paper's own adversary finds?",
        audit.summary(),
        (Section("Domain by domain", (chart, rows)),),
    )


def _heads_section(audits: Mapping[str, GroupAudit], rows: str) -> Section:
    """Show several heads in each group and source; ``rows`` says on which rows."""
    ends = ", ".join(f"{name} {percent(audit.accuracy)}" for name, audit in audits.items())
    chart = Chart(
        "Accuracy by group and source; the line ends at the bound",
        group_chart(audits),
        f"In the hardest mixture of the groups: {ends}.",
    )
    text = Text(
        f"Measured on {rows}. A new domain may mix the groups in any other way than the sources "
        "do; the hardest mixture is what a head can be sure of."
    )
    return Section("Group by group", (text, chart))


def _accuracy_section(audit: GroupAudit) -> Section:
    text = Text(
        "Sources are taken for different mixtures of the same groups of rows, found from the "
        "sources' names alone. A domain that mixes them in any other way is no worse than the "
        "worst mixture below. Bounds are one-sided, at the effective number of rows."
    )
    rows = Table.from_sections(
        f"Risk in nats and accuracy; bounds with {audit.confidence:.0%} confidence",
        COLUMNS,
        evidence_rows(audit.mixtures),
        evidence_rows(audit.sources),
    )
    chart = Chart(
        "Accuracy by group and source; the line ends at the bound",
        group_chart({"predictor": audit}),
        audit.summary(),
    )
    return Section("Group by group", (text, chart, rows))


def _certified_verdict(c: Certificate) -> str:
    """Say what is certified beside ERM's, or why the head is ERM's; everything held out."""
    sources = f"Measured on held-out rows of the sources it has {percent(c.source_accuracy)}"
    if isinstance(c, HeadCertificate) and c.kept:
        sources = (
            f"If the inputs stay those of the sources, at least {percent(c.kept_accuracy)}. "
            f"{sources}"
        )
    certified = f"certified to have at least {percent(c.accuracy)} accuracy in {name_domains(c)}"
    confident = f"{c.confidence:.0%} confidence"
    if c.reason:
        return (
            f"This is ERM's head, because {c.reason}. It is {certified} ({confident}). {sources}."
        )
    return (
        f"This head is {certified}, and ERM's at least {percent(c.pooled_accuracy)} ({confident}). "
        f"{sources}, and ERM's {percent(c.pooled_source_accuracy)}."
    )


def _rows_section(document: Document) -> Section:
    rows, classes = document["rows"], document["classes"]
    shown = classes if len(classes) <= _MOST_CLASSES else []
    counts = tuple(
        (name, *(str(row.get(label, 0)) for label in shown), str(sum(row.values())), str(len(row)))
        for name, row in rows.items()
    )
    columns = ("source", *shown, "all rows", "classes")
    return Section("The data", (Table("Rows by source", columns, counts),))


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
    return Section("How far is far?", (text, table))


def _targets_section(curve: AuditCurve) -> Section:
    names = list(curve.points[0].accuracy_target)
    rows = tuple(
        (f"{p.radius:g}", *(f"{p.accuracy_target[name]:+.2f}" for name in names))
        for p in curve.points
    )
    table = Table("Weights of the sources there", ("radius", *names), rows)
    text = Text(
        "A plausible domain weighs what the sources differ in; weights sum to one, and negative "
        "ones go beyond the sources, away from the one they stand under."
    )
    return Section("Which domain is the worst?", (text, table))
