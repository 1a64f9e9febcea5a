"""Chapters on measured domains: a predictor in each hidden group, or in the worst one found."""

from __future__ import annotations

from collections.abc import Mapping

from regraft.estimators.free_audit import FreeAudit
from regraft.estimators.group_audit import COLUMNS, GroupAudit, evidence_rows
from regraft.estimators.plots import evidence_chart, group_chart
from regraft.report.elements import Chapter, Chart, Section, Text
from regraft.support.table import Table, percent


def group_audit_chapter(audit: GroupAudit) -> Chapter:
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


def free_audit_chapter(audit: FreeAudit) -> Chapter:
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


def heads_section(audits: Mapping[str, GroupAudit], rows: str) -> Section:
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
