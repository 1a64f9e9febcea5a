"""The parts of a report: plain data, which ``render`` turns into a page."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regraft.estimators.certificate_terms import Term
from regraft.report.provenance import Provenance
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


Part = Text | Table | Chart | Terms | Strip


@dataclass(frozen=True)
class Section:
    """Parts under a heading."""

    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Chapter:
    """The question that one result answers, the answer, and the evidence."""

    title: str
    asked: str  # one sentence
    verdict: str  # one sentence
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class Report:
    """A whole page."""

    chapters: tuple[Chapter, ...]  # one at least
    provenance: Mapping[str, Provenance]  # by command
