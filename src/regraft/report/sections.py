"""Sections that several chapters share: radius, price, accuracies, evidence and certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regraft.core.certificate import Certificate
from regraft.core.group_certificate import GroupCertificate
from regraft.core.head_certificate import HeadCertificate
from regraft.core.source_mixtures import SourceCheck
from regraft.estimators.audit import AuditCurve
from regraft.estimators.certificate_terms import explain_certificate
from regraft.estimators.evidence_tables import evidence_table, name_domains, track_record
from regraft.estimators.frontier import Frontier
from regraft.estimators.plots import frontier_chart, stress_chart
from regraft.report.elements import Chart, Document, Part, Section, Terms, Text
from regraft.report.prevalence import NOT_A_MIXTURE, ORDINARY, OUTSIDE, ROBUST
from regraft.support.charts import game_chart
from regraft.support.measured import MeasuredShare
from regraft.support.measured_charts import accuracy_chart
from regraft.support.table import Table, at_least, percent

_HELD_OUT = (
    "Measured on held-out rows: each row is judged by heads that were fitted without it; the head "
    "that you keep was fitted on all rows. "
)
_BY_GROUP = "A group weighs the rows of all sources by how surely they are in it."
_BY_HEAD = "A plausible domain weighs the rows of all sources, so that its head becomes theirs."
_SHOWN = 4  # terms of a certificate before one unfolds the rest
_ON_SOURCES = "accuracy on the sources"  # the term that is measured, not certified


def stress_section(curves: Mapping[str, AuditCurve], rows: str) -> Section:
    """Show the lowest accuracy by radius; ``rows`` says on which it was measured."""
    radii = [point.radius for point in next(iter(curves.values())).points]
    lines = tuple(
        (f"{radius:g}", *(percent(curve.points[i].accuracy) for curve in curves.values()))
        for i, radius in enumerate(radii)
    )
    sizes = min(point.sample_size for curve in curves.values() for point in curve.points)
    ends = ", ".join(f"{name} {percent(c.points[-1].accuracy)}" for name, c in curves.items())
    description = f"Lowest accuracy within {radii[-1]:g} nats: {ends}."
    return Section(
        "The worst plausible domain, by radius",
        (
            Text(
                "Each point is the lowest accuracy over all plausible unseen domains within that "
                f"radius of the sources' mean and the sources themselves, measured on {rows}."
            ),
            Chart(
                "Lowest accuracy over the radius; bars: 95 % intervals",
                stress_chart(curves),
                description,
            ),
            Table(
                "Lowest accuracy by radius (nats)",
                ("radius", *curves),
                lines,
                note=f"The least certain of these stands on {sizes:.0f} effective rows.",
            ),
        ),
    )


def frontier_section(frontier: Frontier) -> Section:
    """Show what robustness costs on the sources and buys in the worst domain."""
    title = "The price of robustness"
    if not frontier.has_factor:
        return Section(title, (Text(frontier.summary()),))
    rows: list[tuple[str, ...]] = [
        (p.label, str(p.source), str(p.worst_case)) for p in frontier.points
    ]
    columns: tuple[str, ...] = frontier.trained, "sources", frontier.scope
    if frontier.points[-1].worst_case_bound is not None:
        columns = *columns, "at least", "fit returns"
        more = ((p.at_least, p.returned) for p in frontier.points)
        rows = [(*row, *cells) for row, cells in zip(rows, more, strict=True)]
    first = frontier.points[0].label
    is_erm = " Radius 0 is plain ERM." if frontier.family != "latent" and first == "0" else ""
    trained = frontier.trained
    return Section(
        title,
        (
            Text(
                f"One model for each step ({trained}): its accuracy where domains look like the "
                f"sources (to the right is better), and in the {frontier.scope} (up is "
                f"better).{is_erm} {frontier.summary()}"
            ),
            Chart(
                f"Labels: {trained}; bars: 95 % intervals",
                frontier_chart(frontier),
                frontier.summary(),
            ),
            Table("Measured on rows not seen", columns, tuple(rows)),
        ),
    )


def domains_section(
    measured: Mapping[str, Mapping[str, MeasuredShare]],
    rows: str,
    head: str,
    checks: Sequence[SourceCheck] = (),
) -> Section:
    """Show the accuracy of each head in each domain on ``rows``; mark the worst of ``head``.

    ``head`` comes first: a narrow screen shows the first columns. ``checks`` say what the groups of
    each domain predict for it.
    """
    measured = {head: measured[head], **measured}
    domains = list(dict.fromkeys(name for row in measured.values() for name in row))
    accuracies = {h: {name: m.value for name, m in row.items()} for h, row in measured.items()}
    lines = tuple((name, *(_cell(row, name) for row in measured.values())) for name in domains)
    ours = accuracies[head]
    worst = min(ours, key=ours.__getitem__)
    marked = frozenset({domains.index(worst)} if len(domains) > 1 else ())
    described = "; ".join(
        f"{name}'s worst domain is {min(row, key=row.__getitem__)} with "
        f"{percent(min(row.values()))}"
        for name, row in accuracies.items()
    )
    has_intervals = any(m.low < m.high for row in measured.values() for m in row.values())
    bars = "; bars: 95 % intervals" if has_intervals else ""
    note = f"▼ worst domain of a model; the row marked is that of the {head}."
    note += " In brackets: 95 % intervals." if has_intervals else ""
    columns: tuple[str, ...] = "domain", *measured
    if checks:
        predicted = {each.name: _predicted(each) for each in checks}
        lines = tuple((*line, predicted[name]) for line, name in zip(lines, domains, strict=True))
        columns = *columns, "its groups predict"
        if not all(each.is_mixture for each in checks):
            note += f" {OUTSIDE} {NOT_A_MIXTURE[0].upper()}{NOT_A_MIXTURE[1:]}"
    table = Table("Accuracy by domain", columns, lines, marked, note=note)
    chart = Chart(f"Accuracy on {rows}{bars}", accuracy_chart(measured), f"{described}.")
    return Section("Domain by domain", (chart, table))


def certificate_section(certificate: Certificate, *, with_measured: bool = True) -> Section:
    """Show what a certificate says, and its terms; measured accuracies may stand elsewhere."""
    *said, limits = certificate.paragraphs()
    terms = explain_certificate(certificate)
    if not with_measured:
        said, terms = said[:1], tuple(term for term in terms if term.name != _ON_SOURCES)
    shown = Terms("The other terms, each explained", terms, shown=_SHOWN)
    closing = [text for text in (limits, track_record(certificate)) if text]
    parts: tuple[Part, ...] = *map(Text, said), shown, *map(Text, closing)
    return Section("The certificate", parts, folded=True)


def proof_sections(certificate: Certificate) -> tuple[Section, ...]:
    """Show what a certificate rests on, a game if one was played, and what it says."""
    return (
        evidence_section(certificate),
        *game_sections(certificate),
        certificate_section(certificate),
    )


def evidence_section(certificate: Certificate) -> Section:
    """Show the measurements behind a certificate, with their bounds."""
    c, pairs = certificate, list(certificate.pair_evidence())
    heads = {ROBUST: {name: each.measured for name, each, _ in pairs}}
    heads[ORDINARY] = {name: each.measured for name, _, each in pairs}
    if c.reason:
        del heads[ROBUST]  # which is the same head
    described = (
        f"Certified in {name_domains(c)}: this head {at_least(c.accuracy_bound)}, ERM "
        f"{at_least(c.pooled_accuracy_bound)} ({c.confidence:.0%} confidence)."
    )
    title = "Accuracy on held-out rows; bars: 95 % intervals, ticks: bounds of the certificate"
    by_group = isinstance(c, GroupCertificate)
    words = Text(_HELD_OUT + (_BY_GROUP if by_group else _BY_HEAD))
    parts = words, Chart(title, accuracy_chart(heads), described), evidence_table(c)
    what = "Group by group" if by_group else "The worst plausible domains"
    return Section(f"{what}, source by source", parts, folded=True)


def game_sections(certificate: Certificate) -> tuple[Section, ...]:
    """Show the rounds of the game between adversary and learner, if one was played."""
    rounds = certificate.rounds
    if not rounds:
        return ()
    kind, added = "risk", "the ridge added"
    if isinstance(certificate, HeadCertificate):
        kind = certificate.objective
        added += f", {certificate.ridge_term:.3f} nats at the end"
    rows = tuple(
        (str(i), f"{r.attack_value:.4f}", f"{r.value:.4f}", f"{r.gap:.0e}", f"{r.sample_size:.0f}")
        for i, r in enumerate(rounds, start=1)
    )
    columns = "round", "worst domain found", "learner's answer", "duality gap", "effective rows"
    chart = game_chart([r.attack_value for r in rounds], [r.value for r in rounds], kind)
    description = (
        f"In {len(rows)} rounds the worst {kind} found went from "
        f"{rounds[0].attack_value:.3f} to {rounds[-1].attack_value:.3f} nats and the "
        f"learner's answer ended at {rounds[-1].value:.3f}."
    )
    text = Text(
        "In each round an adversary names the plausible domain that is worst for the present "
        "head, and a learner answers with the head that is best against all domains named so far. "
        f"The game ends when the learner's line stops rising; it has {added}."
    )
    parts = (
        text,
        Chart("Value of the game by round", chart, description),
        Table(f"Rounds: {kind} in nats, on the rows fitted on", columns, rows),
    )
    return (Section("The game, round by round", parts, folded=True),)


def tables_sections(tables: Sequence[Document]) -> tuple[Section, ...]:
    """Show tables as the commands print them: one section, or none without tables."""
    parts = tuple(map(Table.from_dict, tables))
    return (Section("The numbers", parts, folded=True),) if parts else ()


def _predicted(check: SourceCheck) -> str:
    return str(check.predicted) if check.is_mixture else f"{OUTSIDE} {check.predicted}"


def _cell(row: Mapping[str, MeasuredShare], domain: str) -> str | None:
    if domain not in row:
        return None
    own = row[domain]
    is_worst = len(row) > 1 and own.value == min(each.value for each in row.values())
    text = str(own) if own.low < own.high else percent(own.value)
    return f"▼ {text}" if is_worst else text
