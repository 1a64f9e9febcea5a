"""The chapter on the hidden factor."""

from __future__ import annotations

from dataclasses import replace

from regraft.core.domain_scores import PERMUTATIONS
from regraft.premises.verdicts import format_p_value
from regraft.report.elements import Chapter, Document, Figure, Section, Text
from regraft.report.factor_sections import (
    describe_group,
    ends_section,
    source_shares,
    sureness_section,
    tie_section,
)


def abduction_chapter(document: Document) -> Chapter:
    """Build the chapter for ``abduct.json``."""
    verdict, figure = _answer(document)
    return Chapter(
        "The hidden factor",
        f"Do the sources ({len(document['domains'])}, with {document['rows']} rows) mix hidden "
        "groups of rows in different shares, and what tells the groups apart?",
        verdict,
        abduction_sections(document),
        figure,
        tuple(document["warnings"]),
    )


def abduction_sections(document: Document) -> tuple[Section, ...]:
    """Show the rows at both ends, how the factor is tied to the label, and how sure that is."""
    sure = sureness_section(document)
    if not document["ends"]:
        return (sure,)
    ends = ends_section(document)
    named = replace(ends, parts=(*ends.parts, Text(describe_group(document))))
    return named, tie_section(document), sure


def _answer(document: Document) -> tuple[str, Figure]:
    chance = format_p_value(document["p_value"], PERMUTATIONS)
    if document["n_groups"] == 1:
        meaning = "chance that sources without a hidden factor look as different as these."
        return str(document["summary"]), Figure(chance, f"p-value: {meaning}")
    shares = source_shares(document)
    high = max(shares, key=lambda name: shares[name].value)
    low = min(shares, key=lambda name: shares[name].value)
    group = f"group {document['n_groups'] - 1}"
    return (
        f"{'Perhaps' if document['warnings'] else 'Yes'}: {document['n_groups']} groups "
        f"({chance}); {high} has most of {group}, and {low} least.",
        Figure(
            f"{100 * shares[high].value:.1f}%",
            f"of the rows of {high} are in {group} (95 % interval {shares[high].interval}), and "
            f"{shares[low]} of {low}.",
        ),
    )
