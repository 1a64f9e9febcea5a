"""The rows at both ends of a hidden factor, by which a person recognizes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regraft.estimators.abduction import Abduction
from regraft.estimators.column_kinds import EQUALS, IS_MISSING
from regraft.support.plain_data import PlainData
from regraft.support.table import Table, percent, whole_percent

MOST_CLASSES = 12  # that are shown
_MOST_COLUMNS, _NAMED = 5, 3  # in a table, and in a line
_LINE = 160  # characters
_SAME = 0.005  # shares that are written alike
_FEWEST_KNOWN = 0.01  # share of a group in which a column is known, to be compared
_LARGEST_GAP = 99.0  # standard deviations
_ROUNDING = 1e-9  # of a mean


@dataclass(frozen=True)
class ShownRow:
    """A row to show, and what it was made from if that is known."""

    number: int  # from 1
    domain: str
    name: str = ""  # of the file that it was made from
    text: str = ""
    picture: str = ""  # a PNG in base64

    def describe(self) -> str:
        """Return the text, else the name, else the number."""
        return self.text or self.name or f"row {self.number}"


@dataclass(frozen=True)
class EndRow(ShownRow):
    """A row that is surely in one of the groups."""

    posterior: float = field(kw_only=True)  # of its group


@dataclass(frozen=True)
class End:
    """The surest rows of the first or of the last group, in one class."""

    title: str  # which sources have more of it
    rows: tuple[EndRow, ...]


@dataclass(frozen=True)
class ColumnDifference:
    """The means of a column in the last and in the first group of a class."""

    name: str
    last: float
    first: float
    difference: float  # of these, in standard deviations within the groups


@dataclass(frozen=True)
class ClassEnds(PlainData):
    """Both ends of one class."""

    label: str
    last: End
    first: End
    columns: tuple[ColumnDifference, ...] = ()  # that differ most, the most different first

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ClassEnds:
        """Read what ``to_dict`` returns."""
        last, first = (
            End(end["title"], tuple(EndRow(**row) for row in end["rows"]))
            for end in (document["last"], document["first"])
        )
        columns = tuple(ColumnDifference(**each) for each in document["columns"])
        return cls(document["label"], last, first, columns)

    @property
    def rows(self) -> tuple[EndRow, ...]:
        """The rows of both ends."""
        return *self.last.rows, *self.first.rows

    def column_table(self, n_groups: int) -> Table:
        """Show the means of the columns that differ most, of texts and gaps as shares."""
        title = f"class {self.label}: columns in which the groups differ most"
        names = "column", f"mean, group {n_groups - 1}", "mean, group 0"
        rows = tuple(
            (
                *(each.name, *(_tell_mean(each.name, mean) for mean in (each.last, each.first))),
                _tell_gap(each.difference),
            )
            for each in self.columns
        )
        return Table(title, (*names, "difference (standard deviations)"), rows)

    def describe_columns(self) -> str:
        """Name the columns that differ most, and by how many standard deviations."""
        shown = (f"{each.name} ({_tell_gap(each.difference)})" for each in self.columns[:_NAMED])
        return ", ".join(shown)

    def change_rows(self, change: Callable[[EndRow], EndRow]) -> ClassEnds:
        """Return the same with every row as ``change`` returns it."""
        last, first = (
            replace(end, rows=tuple(map(change, end.rows))) for end in (self.last, self.first)
        )
        return replace(self, last=last, first=first)


def find_ends(
    abduction: Abduction,
    y: NDArray[Any],
    domain: NDArray[Any],
    n: int,
    among: NDArray[np.bool_] | None = None,
) -> tuple[ClassEnds, ...]:
    """Find the ``n`` rows surest to be in the last group of each class, and in the first.

    ``among`` (n,) tells which rows may be shown. If there are many classes, those are shown in
    which the sources differ most. There are no ends without a hidden factor.
    """
    if abduction.n_groups == 1:
        return ()
    last = abduction.class_shares[:, :, -1]
    spread = last.max(axis=0) - last.min(axis=0)
    shown = np.sort(np.argsort(-spread, kind="stable")[:MOST_CLASSES])
    allowed = np.ones(len(y), bool) if among is None else among
    group = abduction.groups.argmax(axis=1)

    def end(c: int, u: int) -> End:
        rows = np.flatnonzero((y == abduction.classes[c]) & (group == u) & allowed)
        belief = abduction.groups[rows, u]
        surest = rows[np.argsort(-belief, kind="stable")[:n]]
        found = tuple(
            EndRow(int(i) + 1, str(domain[i]), posterior=float(abduction.groups[i, u]))
            for i in surest
        )
        return End(_compare_sources(abduction, c, u), found)

    final = abduction.n_groups - 1
    return tuple(ClassEnds(str(abduction.classes[c]), end(c, final), end(c, 0)) for c in shown)


def compare_columns(
    abduction: Abduction,
    X: NDArray[Any],
    y: NDArray[Any],
    ends: Sequence[ClassEnds],
    names: Sequence[str] = (),
) -> tuple[ClassEnds, ...]:
    """Add to each class the columns of ``X`` (n, d) in which its last and first group differ most.

    Rows tell their values in these columns. Means are weighted by the posterior. Columns without
    ``names`` (d,) are numbered from 1.
    """
    labels = y.astype(str)
    all_names = names or [f"column {j + 1}" for j in range(X.shape[1])]
    places = {name: j for j, name in enumerate(all_names)}

    def describe(each: ClassEnds) -> ClassEnds:
        mask = labels == each.label
        columns = _differences(X[mask], abduction.groups[mask], all_names, places)
        shown = [(column.name, places[column.name]) for column in columns]

        def tell(row: EndRow) -> EndRow:
            cells = X[row.number - 1]
            # A text or a gap has several columns, and is told once.
            values = dict.fromkeys(
                _find_gap(name, cells, places)
                or _find_text(name, cells, places)
                or _tell(name, float(cells[j]))
                for name, j in shown
            )
            name = row.name or f"row {row.number}"
            return replace(row, text=shorten(f"{name}: {', '.join(values)}"))

        return replace(each, columns=columns).change_rows(tell)

    return tuple(map(describe, ends))


def abduction_document(abduction: Abduction, ends: Sequence[ClassEnds]) -> dict[str, Any]:
    """Return what was found, in words too, and the rows at both ends, in JSON's types."""
    shown = [each.to_dict() for each in ends]
    return abduction.to_dict() | {"summary": abduction.summary(), "ends": shown}


def share_table(document: Mapping[str, Any]) -> Table:
    """Show how strongly the factor is tied to the label in each source, of a document."""
    labels = [each["label"] for each in document["ends"]]
    places = [document["classes"].index(label) for label in labels]
    rows = tuple(
        (name, percent(own[-1]), *(percent(by_class[c][-1]) for c in places))
        for name, own, by_class in zip(
            document["domains"], document["shares"], document["class_shares"], strict=True
        )
    )
    title = f"Share of group {document['n_groups'] - 1}, in each source and class"
    return Table(title, ("source", "all rows", *labels), rows)


def shorten(text: str) -> str:
    """Return a text as one printable line of limited length."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _LINE else f"{line[: _LINE - 1]}…"


def _find_gap(name: str, cells: NDArray[Any], places: Mapping[str, int]) -> str | None:
    """Say that a column is missing in a row, whose cells (d,) hold what was put in its place."""
    for column in (name, name.partition(EQUALS)[0]):
        place = places.get(f"{column}{IS_MISSING}")
        if place is not None and _is_one(cells[place]):
            return f"{column}{IS_MISSING}"
    return None


def _find_text(name: str, cells: NDArray[Any], places: Mapping[str, int]) -> str | None:
    """Return the column that stands for the text of a row, if ``name`` stands for another one."""
    column, equals, _ = name.partition(EQUALS)
    others = (each for each in places if each.startswith(f"{column}{EQUALS}"))
    return next((each for each in others if _is_one(cells[places[each]])), None) if equals else None


def _is_one(value: Any) -> bool:
    return round(float(value), 9) == 1


def _tell(name: str, value: float) -> str:
    """Write a value of a column; what is 0 or 1 for a text or a gap is written in words.

    Numbers that were scaled and scaled back are rounded, so that zero is zero again.
    """
    value = round(value, 9)
    if name.endswith(IS_MISSING) and value in (0, 1):
        return name if value else f"{name.removesuffix(IS_MISSING)} is known"
    if EQUALS in name and value in (0, 1):
        return name if value else f"not {name}"
    return f"{name} {value:.4g}"


def _tell_gap(difference: float) -> str:
    """Write a difference in standard deviations, of which there may be no end."""
    return "complete" if abs(difference) >= _LARGEST_GAP else f"{difference:+.2f}"


def _tell_mean(name: str, mean: float) -> str:
    """Write the mean of a column; of what is 0 or 1 for a text or a gap, it is a share."""
    is_share = (EQUALS in name or name.endswith(IS_MISSING)) and 0 <= mean <= 1
    return percent(mean) if is_share else f"{mean:.4g}"


def _compare_sources(abduction: Abduction, c: int, u: int) -> str:
    """Say which sources have more of group ``u`` of class ``c``, and which less."""
    last, own = abduction.class_shares[:, c, -1], abduction.class_shares[:, c, u]
    high, low = int(last.argmax()), int(last.argmin())
    if abs(own[high] - own[low]) < _SAME:  # of several groups, another may differ there
        high, low = int(own.argmax()), int(own.argmin())
    word = "more" if own[high] > own[low] else "less"
    names = abduction.domains
    more, less = (f"{names[k]} ({whole_percent(own[k])})" for k in (high, low))
    return f"{word} in {more} than in {less}"


def _differences(
    X: NDArray[Any],
    groups: NDArray[np.float64],
    names: Sequence[str],
    places: Mapping[str, int],
) -> tuple[ColumnDifference, ...]:
    """Compare the last and the first group; what was put into gaps has no part in the means."""
    values = np.asarray(X, np.float64)
    weights = groups[:, [-1, 0]]
    means, scale = _measure(values, weights)
    unknown = set[int]()
    for j, name in enumerate(names):
        if (place := places.get(f"{name}{IS_MISSING}")) is None:
            continue
        known = weights * (1 - values[:, [place]].round(9))
        if (known.sum(axis=0) < _FEWEST_KNOWN * weights.sum(axis=0)).any():
            unknown.add(j)
            continue
        means[:, [j]], scale[[j]] = _measure(values[:, [j]], known)
    apart = means[0] - means[1]
    # A column that tells the groups apart by itself varies in neither, and has no end.
    is_apart = abs(apart) > _ROUNDING * abs(means).max(axis=0)
    whole = np.where(is_apart, np.copysign(_LARGEST_GAP, apart), 0.0)
    gap = np.divide(apart, scale, out=whole, where=scale > 0)
    gap = gap.clip(-_LARGEST_GAP, _LARGEST_GAP)
    most = [j for j in np.argsort(-abs(gap), kind="stable").tolist() if j not in unknown]
    return tuple(
        ColumnDifference(
            names[j],
            round(float(means[0][j]), 9),
            round(float(means[1][j]), 9),
            float(gap[j]),
        )
        for j in most[:_MOST_COLUMNS]
    )


def _measure(
    values: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the means (2, d) of values (n, d) by weights (n, 2), and the deviation (d,) within."""
    means = np.stack([weight @ values / weight.sum() for weight in weights.T])
    parts = zip(weights.T, means, strict=True)
    total = sum(weight @ np.square(values - mean) for weight, mean in parts)
    return means, np.sqrt(total / weights.sum())
