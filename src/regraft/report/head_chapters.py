"""Chapters that measure heads: audits, frontier and comparison."""

from __future__ import annotations

from regraft.core.evidence import Evidence, accuracy_interval
from regraft.estimators.audit import AuditCurve
from regraft.estimators.comparison_metrics import Estimate, describe_gain
from regraft.estimators.free_audit import FreeAudit
from regraft.estimators.frontier import Frontier
from regraft.estimators.group_audit import COLUMNS, GroupAudit, evidence_rows
from regraft.estimators.plots import comparison_chart, evidence_chart
from regraft.report.elements import Chapter, Chart, Document, Figure, Section, Text
from regraft.report.factor_sections import group_section, without_bound
from regraft.report.prevalence import prevalence_section, source_places
from regraft.report.sections import domains_section, frontier_section, stress_section
from regraft.support.measured import MeasuredShare, around
from regraft.support.table import Table, percent

_PREDICTOR = "predictor"


def audit_chapter(document: Document) -> Chapter:
    """Build the chapter for ``audit.json``; files without a family are the hull's."""
    if document.get("family") == "latent":
        return _group_audit_chapter(GroupAudit.from_dict(dict(document)))
    if document.get("family") == "free":
        return _free_audit_chapter(FreeAudit.from_dict(dict(document)))
    curve = AuditCurve.from_dict({k: document[k] for k in ("points", "source_accuracy")})
    worst = curve.points[-1]
    interval = accuracy_interval(worst.accuracy, worst.sample_size)
    return Chapter(
        "An audit in unseen domains",
        "How bad can a fixed predictor get in a plausible unseen domain?",
        f"Measured on the rows audited, it has {percent(curve.source_accuracy)} on the sources and "
        f"{percent(worst.accuracy)} in the worst plausible domain within {worst.radius:g} nats.",
        (stress_section({_PREDICTOR: curve}, "the rows audited"), _targets_section(curve)),
        Figure(
            percent(worst.accuracy),
            f"accuracy in the worst plausible domain within {worst.radius:g} nats (95 % interval "
            f"{MeasuredShare(worst.accuracy, *interval).interval}).",
        ),
    )


def frontier_chapter(document: Document) -> Chapter:
    """Build the chapter for ``frontier.json``."""
    frontier = Frontier.from_dict(dict(document))
    last = frontier.points[-1]
    known = ""
    if last.worst_case_bound is not None:
        known = f" if the group of every row is known, at least {last.at_least} if not"
    return Chapter(
        "The price of robustness",
        "What does robustness cost on the sources, and what does it buy in the worst domain?",
        f"{frontier.price()} {frontier.decision()}".strip()
        if frontier.has_factor
        else frontier.summary(),
        (frontier_section(frontier),),
        Figure(
            percent(last.worst_case.value),
            f"of the most robust model's answers are right in the {frontier.scope} (95 % interval "
            f"{last.worst_case.interval}{known}); {last.source} are on the sources (mean over "
            "them). Measured on rows set aside.",
        ),
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
    accuracies = {
        row["head"]: {name: _estimate(document, row, name) for name in row["accuracy"]}
        for row in fixed
    }
    average = cro.get("metrics", {}).get("accuracy")
    gain = cro.get("minus_erm", {}).get("accuracy")
    compared = ""
    if gain:
        compared = f" {describe_gain(Estimate(**gain), cro['head'], erm['head'])}"
    return Chapter(
        "Models compared, each domain left out",
        f"Which model holds where none has been? Each of {len(targets)} domains was left out in "
        "turn.",
        f"The robust model, {cro['head']}, has {percent(cro['average'])} accuracy on average over "
        f"the unseen domains and {percent(cro['worst'])} in the worst ({cro['worst_target']}), the "
        f"ordinary model, {erm['head']}, {percent(erm['average'])} and {percent(erm['worst'])}."
        f"{compared}",
        (
            domains_section(accuracies, "the domain left out", cro["head"]),
            Section("All heads, each domain left out", parts),
        ),
        average
        and Figure(
            percent(average["value"]),
            f"accuracy of {cro['head']} on average over the unseen domains (95 % interval over "
            f"rows {MeasuredShare(**average).interval}).",
        ),
    )


def _estimate(document: Document, row: Document, target: str) -> MeasuredShare:
    """Return the accuracy of a head in a domain left out, with its interval if it has one."""
    found = next(
        cell.get("metrics", {}).get("accuracy")
        for cell in document["cells"]
        if (cell["head"], cell["target"]) == (row["head"], target)
    )
    return MeasuredShare(**found) if found else around(row["accuracy"][target], None)


def _group_audit_chapter(audit: GroupAudit) -> Chapter:
    """Build the chapter for an ``audit.json`` by groups."""
    found = audit.abduction
    heads = {_PREDICTOR: audit.groups}
    sources = {_PREDICTOR: {each.name: without_bound(each) for each in audit.sources}}
    sections = []
    if audit.n_groups > 1:
        places = source_places(found, sources)
        sections += [group_section(heads, found), prevalence_section(found, heads, places)]
    sections += [domains_section(sources, "the rows audited", _PREDICTOR), _accuracy_section(audit)]
    worst = min(audit.targets, key=lambda each: each.accuracy)
    scope = "the worst mixture of the groups" if audit.n_groups > 1 else "the sources, pooled"
    return Chapter(
        "An audit by hidden groups",
        "How good is a fixed predictor in each hidden group, and in a domain that mixes them "
        "otherwise than the sources do?",
        audit.summary(),
        tuple(sections),
        _figure(worst, f"accuracy in {scope}, on the rows audited"),
        tuple(found["warnings"]),
    )


def _figure(worst: Evidence, meaning: str) -> Figure:
    interval = f"95 % interval {worst.measured.interval}"
    return Figure(percent(worst.accuracy), f"{meaning} ({interval}).")


def _free_audit_chapter(audit: FreeAudit) -> Chapter:
    """Build the chapter for an ``audit.json`` of the free adversary."""
    evidence = (audit.target, *audit.sources)
    rows = Table(
        f"Risk in nats and accuracy; bounds with {audit.confidence:.0%} confidence",
        COLUMNS,
        tuple(evidence_rows(evidence)),
    )
    chart = Chart(
        "Accuracy in the worst domain found and each source; bars: 95 % intervals, ticks: bounds",
        evidence_chart({_PREDICTOR: evidence}),
        audit.summary(),
    )
    return Chapter(
        "An audit by the free adversary",
        "How bad is a fixed head in the worst domain that the paper's own adversary finds?",
        audit.summary(),
        (Section("Domain by domain", (chart, rows)),),
        _figure(audit.target, "accuracy in the worst domain found"),
    )


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
    return Section("Group by group: the bounds", (text, rows), folded=True)


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
    return Section("Which domain is the worst?", (text, table), folded=True)
