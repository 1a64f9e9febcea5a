"""The evidence of a certificate as tables for the card and the report."""

from __future__ import annotations

from collections.abc import Callable

from regraft.core.certificate import Certificate
from regraft.core.group_certificate import GroupCertificate
from regraft.core.head_certificate import HeadCertificate
from regraft.support.data_files import read_toml
from regraft.support.table import Cell, Table, percent

_TOGETHER = (
    "which hold together for the mixtures. The certificate is the worst of the mixtures' bounds; "
    "a source that is no such mixture may lie below it."
)
_EACH = (
    "The certificate is the worst of the bounds of the first two and of the sources. With the "
    "sources' inputs, labels are those that the domain's head expects."
)


def track_record(certificate: Certificate) -> str:
    """Say how often certificates of this family held where the truth is known; may be empty."""
    records: dict[str, str] = read_toml("regraft.estimators", "card.toml")["track_record"]
    return records.get(certificate.family, "")


def name_domains(certificate: Certificate) -> str:
    """Name the domains that a certificate covers."""
    if isinstance(certificate, GroupCertificate):
        if certificate.n_groups == 1:
            return "the pooled sources"
        allowed = "" if certificate.prior_shift is None else " within the prior shift"
        return f"every mixture of the groups{allowed}"
    assert isinstance(certificate, HeadCertificate)
    if certificate.radius is None:
        return "the worst domain found and each source"
    return f"every plausible domain within {certificate.radius:.3g} nats and each source"


def evidence_table(certificate: Certificate, write: Callable[[str], str] = str) -> Table:
    """Show accuracy and risk with their bounds in the domains that decide, beside ERM's.

    ``write`` escapes names.
    """
    c = certificate
    pairs = list(c.pair_evidence())
    rows = [
        (
            write(name),
            f"{ours.rows:,.0f}",
            *(f"{percent(e.accuracy)} (≥ {percent(e.accuracy_bound)})" for e in (ours, theirs)),
            *(f"{e.risk:.3f} (≤ {e.risk_bound:.3f})" for e in (ours, theirs)),
        )
        for name, ours, theirs in pairs
    ]
    columns = "rows of", "effective rows", "accuracy", "ERM's", "risk (nats)", "ERM's risk"
    n_sources = len(c.sources)
    marked = next(
        i
        for i, (_, ours, _) in enumerate(pairs)
        if ours.accuracy_bound == c.accuracy_bound
        and (ours in c.targets or i >= len(pairs) - n_sources)
    )
    note = _TOGETHER if isinstance(c, GroupCertificate) else _EACH
    comma = ", " if isinstance(c, GroupCertificate) else ". "
    return Table.from_sections(
        "Measured on held-out rows",
        columns,
        rows[:-n_sources],
        rows[-n_sources:],
        marked=frozenset({marked}),
        note=f"In brackets: one-sided bounds with {c.confidence:.0%} confidence{comma}{note}",
    )


def shares_table(certificate: GroupCertificate, write: Callable[[str], str] = str) -> Table:
    """Show the rows of every source and the shares of the groups in it; ``write`` escapes names."""
    found = certificate.abduction
    columns = "source", "rows", *(f"group {u}" for u in range(certificate.n_groups))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (write(each.name), f"{n:,}", *map(percent, shares))
        for each, n, shares in zip(
            certificate.sources, certificate.source_rows, found["shares"], strict=True
        )
    )
    return Table("Shares of the groups by source", columns, rows)
