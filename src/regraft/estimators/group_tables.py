"""The evidence of a certificate over hidden groups, as tables for the card and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from regraft.core.group_certificate import Evidence, GroupCertificate
from regraft.support.table import Cell, Table, percent


def name_mixtures(certificate: GroupCertificate) -> str:
    """Name the domains that a certificate covers."""
    if certificate.n_groups == 1:
        return "the pooled sources"
    allowed = "" if certificate.prior_shift is None else " within the prior shift"
    return f"every mixture of the groups{allowed}"


def pair_evidence(certificate: GroupCertificate) -> Iterator[tuple[str, Evidence, Evidence]]:
    """Yield a name with the evidence of the head and of ERM's: mixtures first, then sources."""
    c = certificate
    mixtures = {each.name for each in c.targets}
    for ours, theirs in zip(c.targets, c.pooled_targets, strict=True):
        yield ours.name, ours, theirs
    for ours, theirs in zip(c.sources, c.pooled_sources, strict=True):
        yield f"{ours.name} (source)" if ours.name in mixtures else ours.name, ours, theirs


def evidence_table(certificate: GroupCertificate, write: Callable[[str], str] = str) -> Table:
    """Show accuracy and risk with their bounds in every mixture and source, beside ERM's.

    ``write`` escapes names.
    """
    c = certificate
    rows = [
        (
            write(name),
            f"{ours.rows:,.0f}",
            *(f"{percent(e.accuracy)} (≥ {percent(e.accuracy_bound)})" for e in (ours, theirs)),
            *(f"{e.risk:.3f} (≤ {e.risk_bound:.3f})" for e in (ours, theirs)),
        )
        for name, ours, theirs in pair_evidence(c)
    ]
    columns = "rows of", "effective rows", "accuracy", "ERM's", "risk (nats)", "ERM's risk"
    deciding = [*(e.accuracy_bound for e in c.targets), *(e.accuracy for e in c.sources)]
    return Table.from_sections(
        "Rows held out",
        columns,
        rows[: len(c.targets)],
        rows[len(c.targets) :],
        marked=frozenset({deciding.index(c.accuracy)}),
        note=f"In brackets: one-sided bounds with {c.confidence:.0%} confidence, which hold "
        "together for the mixtures. The certificate is the worst of the mixtures' bounds, or what "
        "was measured in a source if that is worse.",
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
