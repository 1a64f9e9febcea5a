"""The chapter on the hidden factor."""

from __future__ import annotations

from collections.abc import Iterator

from regraft.core.domain_scores import PERMUTATIONS
from regraft.estimators.abduction_ends import ClassEnds, share_table
from regraft.estimators.certificate_terms import Term
from regraft.premises.verdicts import format_p_value
from regraft.report.elements import (
    Chapter,
    Chart,
    Document,
    Part,
    Picture,
    Section,
    Strip,
    Terms,
    Text,
)
from regraft.support.charts import shares_chart
from regraft.support.glossary import meaning
from regraft.support.table import percent

_READING = (
    "For each class, the rows surest to be in the last group and in the first, and which source "
    "has more of such rows. What the rows of one line share, and those of the other do not, is the "
    "factor."
)
_TIE = (
    "Groups are found class by class. Where the last group of one class looks like the first of "
    "another, the factor predicts the label, and sources with other shares disagree about how well."
)


def abduction_chapter(document: Document) -> Chapter:
    """Build the chapter for ``abduct.json``."""
    return Chapter(
        "The hidden factor",
        f"Do the sources ({len(document['domains'])}, with {document['rows']} rows) mix hidden "
        "groups of rows in different shares, and what tells the groups apart?",
        _verdict(document),
        abduction_sections(document),
    )


def abduction_sections(document: Document) -> tuple[Section, ...]:
    """Show the rows at both ends, how the factor is tied to the label, and how sure that is."""
    doubts = tuple(map(Text, document["warnings"]))
    sure = Section("How sure is that?", (*doubts, Terms("", _explain(document), shown=4)))
    if not document["ends"]:
        return (sure,)
    ends = [ClassEnds.from_dict(each) for each in document["ends"]]
    parts = tuple(part for each in ends for part in _show_class(each))
    table = share_table(document)
    shares = {
        label: {
            name: by_class[document["classes"].index(label)][-1]
            for name, by_class in zip(document["domains"], document["class_shares"], strict=True)
        }
        for label in (each.label for each in ends)
    }
    described = "; ".join(
        f"{label}: {', '.join(f'{name} {percent(share)}' for name, share in row.items())}"
        for label, row in shares.items()
    )
    tie = Text(_TIE), Chart(table.title, shares_chart(shares), f"{described}."), table
    said = document["summary"], _READING
    return (
        Section("A hidden factor: rows at both ends", (*map(Text, said), *parts)),
        Section("How it is tied to the label", tie),
        sure,
    )


def _verdict(document: Document) -> str:
    if not document["ends"]:
        return str(document["summary"])
    shares = {
        name: own[-1] for name, own in zip(document["domains"], document["shares"], strict=True)
    }
    high, low = max(shares, key=shares.__getitem__), min(shares, key=shares.__getitem__)
    return (
        f"Yes: {document['n_groups']} groups ({_chance(document)}), the last of which has "
        f"{percent(shares[high])} of the rows of {high} and {percent(shares[low])} of {low}."
    )


def _show_class(ends: ClassEnds) -> Iterator[Part]:
    for end in (ends.last, ends.first):
        title = f"class {ends.label}: {end.title}"
        pictures = tuple(
            Picture(row.picture, f"{row.describe()}, {ends.label} of {row.domain}")
            for row in end.rows
            if row.picture
        )
        lines = () if pictures else tuple(row.describe() for row in end.rows)
        yield Strip(title, pictures, lines)
    if ends.columns:
        yield ends.column_table()


def _chance(document: Document) -> str:
    return format_p_value(document["p_value"], PERMUTATIONS)


def _explain(document: Document) -> tuple[Term, ...]:
    values = {
        "p-value": _chance(document),
        "gain": f"{document['gain']:.4f} ± {document['gain_error']:.4f} nats",
        "possible gain": f"{document['possible_gain']:.4f} nats",
        "separation": f"{document['separation']:.1f}",
    }
    return tuple(Term(word, value, meaning(word)) for word, value in values.items())
