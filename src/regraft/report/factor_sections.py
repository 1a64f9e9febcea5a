"""The hidden factor in pictures: its two ends, its tie to the label, and heads in each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from regraft.core.domain_scores import PERMUTATIONS
from regraft.core.evidence import Evidence
from regraft.estimators.abduction_ends import ClassEnds, End, share_table
from regraft.estimators.certificate_terms import Term
from regraft.premises.verdicts import format_p_value
from regraft.report.elements import (
    Chart,
    Document,
    Part,
    Picture,
    Section,
    Strip,
    StripColumns,
    Terms,
    Text,
)
from regraft.support.factor_charts import slope_chart
from regraft.support.glossary import meaning
from regraft.support.measured import MeasuredShare, around
from regraft.support.measured_charts import accuracy_chart
from regraft.support.table import Table, percent

_CLEAR = 0.5  # of a correlation; below it, the ends of two classes have nothing in common
_FEW_CLASSES = 2  # whose columns are shown at once
_MOST_LINES = 4  # of text at each end
_ENDS = "end A", "end B"
_READING = (
    "The rows that are surest to be at either end. What the rows of one end share, and those of "
    "the other do not, is the factor: nobody named it, look for yourself."
)
_STEEP = (
    "A line for each source: the steeper it is, the better the factor predicts the label there. In "
    "a domain whose line is less steep, or runs the other way, a head that leans on the factor "
    "fails."
)
_APART = (
    "A mark for each source: the more its marks differ from class to class, the better the factor "
    "predicts the label there. In a domain where they differ less, or in another way, a head that "
    "leans on the factor fails."
)
_FLAT = (
    "Groups are found class by class, and the groups of one class have little in common with those "
    "of another. Marks at different heights are sources with different shares."
)


def is_aligned(found: Document) -> bool:
    """Return whether the two ends are the same thing in every class."""
    return bool(min(abs(each) for each in found["alignment"]) >= _CLEAR)


def describe_group(found: Document) -> str:
    """Say what the last group is, in terms of the ends that are shown."""
    last = f"Group {found['n_groups'] - 1}"
    if not is_aligned(found):
        return f"{last} is the first line of pictures or rows of each class."
    ends: dict[str, list[str]] = {end: [] for end in _ENDS}
    for label, sign in zip(found["classes"], found["alignment"], strict=True):
        ends[_ENDS[sign < 0]].append(label)
    said = [
        f"{end} of {_classes(labels, len(found['classes']))}"
        for end, labels in ends.items()
        if labels
    ]
    return f"{last} is {' and '.join(said)}."


def ends_section(found: Document) -> Section:
    """Show the rows at both ends, by end where the classes agree about them, else by class."""
    ends = [ClassEnds.from_dict(each) for each in found["ends"]]
    strips: Part
    if is_aligned(found):
        signs = dict(zip(found["classes"], found["alignment"], strict=True))
        columns: dict[str, tuple[Strip, ...]] = {}
        for side, name in enumerate(_ENDS):
            chosen = ((e, e.last if (signs[e.label] < 0) == bool(side) else e.first) for e in ends)
            strips_of = (_strip(f"class {each.label}", end) for each, end in chosen)
            columns[f"{name[0].upper()}{name[1:]}"] = tuple(strips_of)
        strips = StripColumns(columns)
    else:
        strips = StripColumns(
            {
                f"Class {each.label}": tuple(
                    _strip(f"group {u}", end)
                    for u, end in ((found["n_groups"] - 1, each.last), (0, each.first))
                )
                for each in ends
            }
        )
    tables = column_tables(found) if len(ends) <= _FEW_CLASSES else ()
    return Section("The hidden factor", (Text(_READING), strips, *tables))


def column_tables(found: Document) -> tuple[Table, ...]:
    """Show for each class in which columns its groups differ most, where rows have columns."""
    ends = map(ClassEnds.from_dict, found["ends"])
    return tuple(each.column_table(found["n_groups"]) for each in ends if each.columns)


def tie_section(found: Document) -> Section:
    """Show how the factor is tied to the label in each source."""
    aligned = is_aligned(found)
    shares = _end_shares(found, aligned)
    what = _ENDS[0] if aligned else f"group {found['n_groups'] - 1}"
    described = "; ".join(
        f"{source}: {', '.join(f'{percent(m.value)} of class {label}' for label, m in row.items())}"
        for source, row in shares.items()
    )
    has_lines = len(found["ends"]) == 2
    chart = Chart(
        f"Share of {what} in each class, a {'line' if has_lines else 'mark'} for each source; "
        "bars: 95 % intervals",
        slope_chart(shares, f"share of {what} (%)"),
        f"Share of {what}. {described}.",
    )
    text = (_STEEP if has_lines else _APART) if aligned else _FLAT
    return Section("How it is tied to the label", (Text(text), chart))


def group_section(heads: Mapping[str, Sequence[Evidence]], found: Document) -> Section:
    """Show the accuracy of each head in each group."""
    measured = {
        head: {each.name: without_bound(each) for each in evidence}
        for head, evidence in heads.items()
    }
    described = "; ".join(
        f"{head}: {', '.join(f'{m.value:.1%} in {name}' for name, m in row.items())}"
        for head, row in measured.items()
    )
    chart = Chart(
        "Accuracy in each group on held-out rows; bars: 95 % intervals",
        accuracy_chart(measured),
        f"{described}.",
    )
    return Section("Each head in each group", (Text(describe_group(found)), chart))


def sureness_section(found: Document) -> Section:
    """Show the shares in numbers, and how sure it is that there is a factor."""
    values = {
        "p-value": format_p_value(found["p_value"], PERMUTATIONS),
        "gain": f"{found['gain']:.4f} ± {found['gain_error']:.4f} nats",
        "possible gain": f"{found['possible_gain']:.4f} nats",
        "separation": f"{found['separation']:.1f}",
    }
    terms = tuple(Term(word, value, meaning(word)) for word, value in values.items())
    table = [share_table(found)] if found["ends"] else []
    table += column_tables(found) if len(found["ends"]) > _FEW_CLASSES else ()
    parts: tuple[Part, ...] = Text(found["summary"]), *table, Terms("", terms, len(terms))
    return Section("How sure is the factor?", parts, folded=True)


def source_shares(found: Document) -> dict[str, MeasuredShare]:
    """Return the share of the last group in each source, with its interval."""
    return {
        name: around(own[-1], errors[-1])
        for name, own, errors in zip(
            found["domains"], found["shares"], found["share_errors"], strict=True
        )
    }


def without_bound(each: Evidence) -> MeasuredShare:
    """Return a measured accuracy with its interval, without the bound below it."""
    return MeasuredShare(each.measured.value, each.measured.low, each.measured.high)


def _end_shares(found: Document, aligned: bool) -> dict[str, dict[str, MeasuredShare]]:
    """Return the share of end A (or of the last group) by source and shown class."""
    places = [found["classes"].index(each["label"]) for each in found["ends"]]
    by_source = zip(
        found["domains"], found["class_shares"], found["class_share_errors"], strict=True
    )
    return {
        source: {
            found["classes"][c]: around(shares[c][u], errors[c][u])
            for c in places
            for u in (0 if aligned and found["alignment"][c] < 0 else -1,)
        }
        for source, shares, errors in by_source
    }


def _strip(name: str, end: End) -> Strip:
    pictures = tuple(
        Picture(row.picture, f"{row.describe()}, {row.domain}") for row in end.rows if row.picture
    )
    lines = () if pictures else tuple(row.describe() for row in end.rows[:_MOST_LINES])
    return Strip(f"{name}: {end.title}", pictures, lines)


def _classes(labels: Sequence[str], count: int) -> str:
    if len(labels) == count:
        return "every class"
    return f"class{'es' if len(labels) > 1 else ''} {', '.join(labels)}"
