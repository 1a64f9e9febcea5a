"""Heads over the prevalence of the hidden factor, with a slider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regraft.core.certificate import Certificate
from regraft.core.evidence import Evidence
from regraft.core.group_certificate import GroupCertificate
from regraft.core.source_mixtures import SourceCheck
from regraft.estimators.placing import Placement
from regraft.report.elements import Chart, Document, Section, Slider, Text
from regraft.report.factor_sections import describe_group, source_shares, without_bound
from regraft.support.factor_charts import PlacedDomain, prevalence_chart
from regraft.support.measured import MeasuredShare
from regraft.support.table import Table, percent

_TEXT = (
    "A new domain may hold more or less of the group than any source. Move the slider, or the "
    "arrow keys on it, and see what each head has there: its accuracies in the groups, measured on "
    "held-out rows, mixed in these shares. Bands and bars are 95 % intervals; dashed rules are the "
    "sources."
)
_START = 50  # percent
ROBUST, ORDINARY = "robust model (CRO)", "ordinary model (ERM)"
_NEW = " The solid rule is the new domain."
OUTSIDE = "≠"  # marks a source
NOT_A_MIXTURE = "what was measured there is not what its groups predict; it is not a mixture."


def heads_of(certificate: GroupCertificate) -> dict[str, tuple[Evidence, ...]]:
    """Return the evidence in each group for the head of a certificate and for ERM's."""
    if certificate.reason:
        return {ORDINARY: certificate.groups}
    return {ROBUST: certificate.groups, ORDINARY: certificate.pooled_groups}


def accuracies_of(certificate: Certificate) -> dict[str, dict[str, MeasuredShare]]:
    """Return the accuracy in each source of the head of a certificate and of ERM's."""
    c = certificate
    heads = {ORDINARY: c.sources}
    if not c.reason:
        heads = {ROBUST: c.sources, ORDINARY: c.pooled_sources}
    return {
        head: {each.name: without_bound(each) for each in evidence}
        for head, evidence in heads.items()
    }


def source_places(
    found: Document,
    heads: Mapping[str, Mapping[str, MeasuredShare]],
    checks: Sequence[SourceCheck] = (),
) -> list[PlacedDomain]:
    """Return where the sources lie; ``heads`` holds the accuracy of each head by domain."""
    outside = {each.name for each in checks if not each.is_mixture}
    return [
        PlacedDomain(
            f"{OUTSIDE} {name}" if name in outside else name,
            share,
            {head: row[name] for head, row in heads.items() if name in row},
        )
        for name, share in source_shares(found).items()
    ]


def new_place(
    name: str, placement: Placement, accuracy: Mapping[str, MeasuredShare] | None = None
) -> PlacedDomain:
    """Return where a new domain lies, with what heads were measured to have there, if any."""
    ends = (each[-1] for each in (placement.shares, placement.lower, placement.upper))
    return PlacedDomain(name, MeasuredShare(*ends), accuracy or {}, is_new=True)


def prevalence_section(
    found: Document, heads: Mapping[str, Sequence[Evidence]], places: Sequence[PlacedDomain]
) -> Section:
    """Show how every head's accuracy moves with the share of the last group.

    The other groups keep the proportions that they have in the pooled sources.
    """
    lines = {head: _ends(found, evidence) for head, evidence in heads.items()}
    group = f"group {found['n_groups'] - 1}"
    described = "; ".join(
        f"{head} goes from {percent(none.value)} without {group} to {percent(only.value)} in "
        f"{group} alone"
        for head, (none, only) in lines.items()
    )
    chart = Chart(
        f"Accuracy over the share of {group}",
        prevalence_chart(lines, places, _START, group),
        f"{described}.",
    )
    slider = Slider(chart, f"Share of {group} in the new domain", _START, lines)
    new = _NEW if any(place.is_new for place in places) else ""
    outside = any(place.name.startswith(OUTSIDE) for place in places)
    marked = f" {OUTSIDE}: {NOT_A_MIXTURE}" if outside else ""
    text = f"{describe_group(found)} {_TEXT}{new}{marked}"
    title = "If the factor becomes more or less common"
    return Section(title, (Text(text), slider, _place_table(places, group)))


def _place_table(places: Sequence[PlacedDomain], group: str) -> Table:
    """Show where the domains lie."""
    rows = tuple((place.name, str(place.share)) for place in places)
    title = "Where the domains lie; in brackets: 95 % intervals"
    return Table(title, ("domain", f"share of {group}"), rows)


def _ends(found: Document, evidence: Sequence[Evidence]) -> tuple[MeasuredShare, MeasuredShare]:
    """Return the accuracy without the last group and in it alone."""
    *others, last = (each.measured for each in evidence)
    totals = [sum(column) for column in zip(*found["shares"], strict=True)][:-1]
    weights = [total / sum(totals) for total in totals]
    pairs = list(zip(weights, others, strict=True))
    mixed = (sum(w * getattr(m, end) for w, m in pairs) for end in ("value", "low", "high"))
    return MeasuredShare(*mixed), MeasuredShare(last.value, last.low, last.high)
