"""The parts of a report: plain data, which ``render`` turns into a page."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

from regraft.estimators.certificate_terms import Term
from regraft.report.provenance import Provenance
from regraft.support.measured import MeasuredShare
from regraft.support.table import Table

Document = Mapping[str, Any]  # a result, as its command wrote it to a JSON file


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite specification under a title, and what it shows for those who cannot see it."""

    title: str
    spec: Mapping[str, Any]
    description: str


@dataclass(frozen=True)
class Terms:
    """Numbers with their names, each explained; those after the first ``shown`` unfold."""

    title: str  # of what unfolds
    terms: tuple[Term, ...]
    shown: int


@dataclass(frozen=True)
class Picture:
    """A small picture, and what it shows for those who cannot see it."""

    png: str  # in base64
    description: str

    def __post_init__(self) -> None:
        base64.b64decode(self.png, validate=True)  # it stands in an address on the page


@dataclass(frozen=True)
class Strip:
    """Pictures beside each other, or lines of text, under a title."""

    title: str
    pictures: tuple[Picture, ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class StripColumns:
    """Strips beside each other, under a heading each; on a narrow screen below each other."""

    strips: Mapping[str, tuple[Strip, ...]]


@dataclass(frozen=True)
class Slider:
    """A chart with a rule that a reader moves, and what every line has there."""

    chart: Chart
    label: str  # what the slider sets, in percent
    start: int
    lines: Mapping[str, tuple[MeasuredShare, MeasuredShare]]  # by head, at both ends

    def at_start(self) -> tuple[tuple[str, str], ...]:
        """Return what each line has where the slider begins, in words."""
        share = self.start / 100
        return tuple((name, str(_between(*ends, share))) for name, ends in self.lines.items())

    def document(self) -> list[dict[str, Any]]:
        """Return the lines as plain data for the page's script."""
        return [
            {"name": name, "ends": [[m.value, m.low, m.high] for m in ends]}
            for name, ends in self.lines.items()
        ]


def _between(start: MeasuredShare, end: MeasuredShare, share: float) -> MeasuredShare:
    """Return what lies on an even way from ``start`` to ``end``, at a ``share`` of it."""
    pairs = zip(astuple(start)[:3], astuple(end)[:3], strict=True)
    return MeasuredShare(*((1 - share) * first + share * last for first, last in pairs))


Part = Text | Table | Chart | Terms | Strip | StripColumns | Slider


@dataclass(frozen=True)
class Section:
    """Parts under a heading; folded ones open when one asks for them."""

    title: str
    parts: tuple[Part, ...]
    folded: bool = False


def fold(sections: Iterable[Section]) -> tuple[Section, ...]:
    """Return the same sections, folded."""
    return tuple(replace(section, folded=True) for section in sections)


@dataclass(frozen=True)
class Figure:
    """The one number of an answer, and a sentence that says of what it is, with its interval."""

    number: str
    meaning: str


@dataclass(frozen=True)
class Chapter:
    """The question that one result answers, the answer, and the evidence."""

    title: str
    asked: str  # one sentence
    verdict: str  # one sentence
    sections: tuple[Section, ...]
    figure: Figure | None = None
    doubts: tuple[str, ...] = ()  # that change the answer


@dataclass(frozen=True)
class Report:
    """A whole page."""

    chapters: tuple[Chapter, ...]  # one at least
    provenance: Mapping[str, Provenance]  # by command
