"""What is known of a new domain as tables, for the commands, the card and the report."""

from __future__ import annotations

from collections.abc import Callable

from regraft.estimators.placing import Placement
from regraft.estimators.target_certificate import TargetCertificate
from regraft.support.table import Cell, Table, at_least, is_useful, percent, share


def placement_table(placement: Placement) -> Table:
    """Show the share of each group in a new domain, with its interval, beside the sources'."""
    p = placement
    columns = "group", "new domain", "at least", "at most", *p.source_shares
    own = zip(p.shares, p.lower, p.upper, strict=True)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (str(u), *map(share, (*shares, *(source[u] for source in p.source_shares.values()))))
        for u, shares in enumerate(own)
    )
    note = "At least and at most: with 95 % confidence, if the domain is a mixture of the groups."
    return Table("Shares of the groups", columns, rows, note=note)


def expect_accuracy(placement: Placement, certified: float, scope: str) -> str:
    """Say how good a model is expected to be in a placed domain, beside what is certified."""
    if not placement.is_mixture:
        return (
            "How good the model is in the new domain, nobody can tell without labels from there: "
            "expected and certified accuracies are those of mixtures."
        )
    at = "At the most likely shares" if len(placement.shares) > 1 else "By the pooled sources"
    said = f"it is certified to have {at_least(certified)} in {scope}"
    if not is_useful(certified):
        said = f"{at_least(certified)} in {scope}"
    return (
        f"{at}, the model is expected to have {percent(placement.expected_accuracy)} accuracy in "
        f"the new domain, without a label from there; {said}."
    )


def place_table(certificate: TargetCertificate, write: Callable[[str], str] = str) -> Table:
    """Show where an adapted head's domain lies; ``write`` escapes names."""
    c = certificate
    if not c.lower:
        weights = tuple((write(name), f"{weight:+.2f}") for name, weight in c.weights.items())
        note = "Weights sum to one; negative ones go beyond the sources."
        return Table("Weights of the sources' heads", ("source", "weight"), weights, note=note)
    rows = tuple(
        (name, *map(percent, (share, c.lower[name], c.upper[name])))
        for name, share in c.weights.items()
    )
    note = "At least and at most: with 95 % confidence, if the domain is a mixture of the groups."
    return Table("Shares of the groups", ("group", "share", "at least", "at most"), rows, note=note)


def adapted_table(certificate: TargetCertificate) -> Table | None:
    """Show accuracy and risk with their bounds, beside those of the model before, if measured."""
    c = certificate
    pairs = (c.labelled, c.labelled_before), (c.mixture, c.mixture_before)
    rows = [
        (
            now.name,
            f"{now.rows:,.0f}",
            *(f"{percent(e.accuracy)} (≥ {percent(e.accuracy_bound)})" for e in (now, before)),
            *(f"{e.risk:.3f} (≤ {e.risk_bound:.3f})" for e in (now, before)),
        )
        for now, before in pairs
        if now is not None and before is not None
    ]
    columns = "rows of", "effective rows", "accuracy", "before", "risk (nats)", "risk before"
    note = "In brackets: one-sided bounds, each with 95 % confidence."
    return Table("Measured", columns, tuple(rows), note=note) if rows else None
