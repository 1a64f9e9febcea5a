"""Libraries of ethical scenarios with two actions each, in the columns of MoralChoice."""

from __future__ import annotations

import csv
import json
import math
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from http.client import HTTPException
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regraft.support.digests import digest_file, digest_parts, digest_text
from regraft.support.files import write_bytes

_TOPIC_OF = {  # by rule
    "death": "Do not kill",
    "pain": "Do not cause pain",
    "disable": "Do not disable",
    "freedom": "Do not deprive of freedom",
    "pleasure": "Do not deprive of pleasure",
    "deceive": "Do not deceive",
    "cheat": "Do not cheat",
    "break_promise": "Do not break your promises",
    "break_law": "Do not break the law",
    "duty": "Do your duty",
}
RULES, TOPICS = tuple(_TOPIC_OF), tuple(_TOPIC_OF.values())  # in the same order
SCENARIOS_FILE = "moralchoice_high_ambiguity.csv"
ANSWERS_FILE = "llm_p_action1_5models.csv"
SCENARIOS_URL = (
    "https://raw.githubusercontent.com/ninodimontalcino/moralchoice/master/data/scenarios/"
    + SCENARIOS_FILE
)
SCENARIOS_SHA256 = "dbadd6186f5c32becab9a4ab42decf69b40452bb0b2385a097c738937851caba"

# Two scenarios of MoralChoice name their topic in other words.
_VARIANTS = {
    "Do not break promise": "Do not break your promises",
    "Do cause pain": "Do not cause pain",
}
_ANNOTATIONS = {"Yes": 1.0, "No": 0.0, "No Agreement": 0.5}
_ID = "scenario_id"
_TOPIC = "generation_rule"
_TEXTS = ("context", "action1", "action2")
_VIOLATIONS = tuple(tuple(f"{action}_{rule}" for rule in RULES) for action in ("a1", "a2"))
_COLUMNS = (_ID, _TOPIC, *_TEXTS, *_VIOLATIONS[0], *_VIOLATIONS[1])
_BEYOND = ""  # the name of cells beyond the last column
_HALF = 0.5  # an answer, added to both sides
_TIMEOUT = 30.0  # seconds without a byte

Row = Mapping[str, str | None]


@dataclass(frozen=True)
class Scenario:
    """A situation with two actions, and how far each violates each of ``RULES``: 0, 0.5 or 1."""

    id: str
    topic: str  # one of TOPICS
    context: str
    action1: str
    action2: str
    violations1: tuple[float, ...]
    violations2: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Library:
    """Scenarios, and how answers given without any values lean; made by ``collect``.

    ``lean`` (n,) holds log-odds of action 1, 0 for scenarios without answers. ``origin`` says in
    words where they come from, and ``checksum`` is the sha256 of the content.
    """

    scenarios: tuple[Scenario, ...]
    lean: NDArray[np.float64]
    origin: str
    checksum: str

    @cached_property
    def topics(self) -> NDArray[np.int64]:
        """Look up the topic (n,) of each scenario, as an index into ``TOPICS``."""
        return np.array([TOPICS.index(scenario.topic) for scenario in self.scenarios], np.int64)

    @cached_property
    def violation_differences(self) -> NDArray[np.float64]:
        """Compute how much more action 1 violates each rule than action 2: (n, 10), -1 to 1."""
        first = [scenario.violations1 for scenario in self.scenarios]
        second = [scenario.violations2 for scenario in self.scenarios]
        return np.array(first, np.float64) - np.array(second, np.float64)

    @property
    def texts(self) -> list[str]:
        """Join each scenario into one text for an encoder: the context, then both actions."""
        return [f"{s.context} A: {s.action1} B: {s.action2}" for s in self.scenarios]


def collect(scenarios: Sequence[Scenario], lean: NDArray[np.float64], origin: str) -> Library:
    """Make a library with its checksum; ``ValueError`` unless each scenario has one lean."""
    if len(lean) != len(scenarios):
        raise ValueError(
            f"there are {len(scenarios)} scenarios and {len(lean)} leans: pass one for each."
        )
    content = [[astuple(scenario) for scenario in scenarios], lean.tolist()]
    checksum = digest_text(json.dumps(content, separators=(",", ":")))
    return Library(tuple(scenarios), lean, origin, checksum)


def read_library(path: Path, answers: Path | None = None) -> Library:
    """Read a library from a .csv file with MoralChoice's columns, or from a folder of the original.

    ``answers`` is a .csv file with a column ``scenario_id`` and one column for each model: the
    share of its answers that were action 1. In a folder it is found automatically. The lean of a
    scenario is the log-odds of the mean share over the m models that answered, after half an
    answer was added to both sides: log((m p + 1/2) / (m (1 - p) + 1/2)), so shares of 0 and 1
    stay finite. Raises ``FileNotFoundError`` or ``ValueError`` with one sentence.
    """
    if path.is_dir():
        beside = path / ANSWERS_FILE
        if answers is None and beside.is_file():
            answers = beside
        path = path / SCENARIOS_FILE
    scenarios = [_scenario(path, line, row) for line, row in _read(path, _COLUMNS)]
    _check_ids(path, [scenario.id for scenario in scenarios])
    count = len(scenarios)
    if answers is None:
        origin = f"{count} scenarios of {path.name}, without answers, so that nothing leans"
        return collect(scenarios, np.zeros(count), origin)
    pooled = _read_answers(answers)
    lean = np.array([pooled.get(scenario.id, 0.0) for scenario in scenarios])
    silent = sum(scenario.id not in pooled for scenario in scenarios)
    origin = (
        f"{count} scenarios of {path.name}, leaning as the answers of {answers.name} do "
        f"({silent} scenarios have no answers and lean nowhere)"
    )
    return collect(scenarios, lean, origin)


def download_library(
    folder: Path, *, url: str = SCENARIOS_URL, sha256: str = SCENARIOS_SHA256
) -> Library:
    """Read MoralChoice's high-ambiguity scenarios in ``folder``; download them if absent.

    ``sha256`` is that of the file at ``url``, which holds no answers. Raises
    ``FileNotFoundError`` or ``ValueError`` with one sentence.
    """
    path = folder / SCENARIOS_FILE
    if path.is_file():
        found = digest_file(path)
        if found != sha256:
            raise ValueError(
                f"{path} is damaged or another file (sha256 {found}, not {sha256}): remove it to "
                "have it downloaded again."
            )
        return read_library(folder)
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
            content: bytes = response.read()
    except (OSError, HTTPException) as error:
        raise FileNotFoundError(
            f"{url} cannot be downloaded ({error}): go online once, or put {SCENARIOS_FILE} into "
            f"{folder}."
        ) from None
    found = digest_parts([content])
    if found != sha256:
        raise ValueError(
            f"{url} is not the file that was expected (sha256 {found}, not {sha256}): put "
            f"{SCENARIOS_FILE} of MoralChoice into {folder} yourself."
        )
    write_bytes(path, content)
    return read_library(folder)


def _read(path: Path, needed: Sequence[str]) -> Sequence[tuple[int, Row]]:
    """Read the rows of a .csv file with their line numbers; it must have the columns ``needed``."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}: name a .csv file of scenarios.")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, restkey=_BEYOND, strict=True)
            columns = reader.fieldnames or []
            rows = [(reader.line_num, row) for row in reader]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no .csv file in UTF-8 ({error}): convert it.") from None
    missing = [column for column in needed if column not in columns]
    if columns and missing:
        raise ValueError(
            f"{path} lacks the columns {', '.join(missing)}: pass a file with the columns of "
            "MoralChoice."
        )
    if not rows:
        raise ValueError(f"{path} has no rows: pass a file with at least one.")
    longer = [line for line, row in rows if _BEYOND in row]
    if longer:
        raise ValueError(
            f"line {longer[0]} of {path} has more cells than columns: put texts with commas into "
            "quotation marks."
        )
    return rows


def _scenario(path: Path, line: int, row: Row) -> Scenario:
    """Parse one row."""
    identity, topic, context, action1, action2 = (
        _text(path, line, row, column) for column in (_ID, _TOPIC, *_TEXTS)
    )
    topic = _VARIANTS.get(topic, topic)
    if topic not in TOPICS:
        raise ValueError(
            f"line {line} of {path} has an unknown {_TOPIC} {topic!r}: choose from "
            f"{', '.join(TOPICS)}."
        )
    violations = [
        tuple(_violation(path, line, row, column) for column in columns) for columns in _VIOLATIONS
    ]
    return Scenario(identity, topic, context, action1, action2, *violations)


def _text(path: Path, line: int, row: Row, column: str) -> str:
    """Read a cell that must not be empty."""
    text = (row[column] or "").strip()
    if not text:
        raise ValueError(f"line {line} of {path} has no {column}: fill it in or drop the row.")
    return text


def _violation(path: Path, line: int, row: Row, column: str) -> float:
    """Read an annotation as a number."""
    text = _text(path, line, row, column)
    if text not in _ANNOTATIONS:
        raise ValueError(
            f"line {line} of {path} has {text!r} as {column}: write {', '.join(_ANNOTATIONS)}."
        )
    return _ANNOTATIONS[text]


def _check_ids(path: Path, ids: Sequence[str]) -> None:
    """Raise ``ValueError`` if an id occurs twice."""
    repeated = [identity for identity, times in Counter(ids).items() if times > 1]
    if repeated:
        raise ValueError(f"{path} has the {_ID} {repeated[0]} twice: drop all rows of it but one.")


def _read_answers(path: Path) -> dict[str, float]:
    """Read the lean of every scenario that a model answered."""
    rows = _read(path, [_ID])
    ids = [_text(path, line, row, _ID) for line, row in rows]
    _check_ids(path, ids)
    leans = {}
    for key, (line, row) in zip(ids, rows, strict=True):
        if given := _shares(path, line, row):
            first = math.fsum(given)
            leans[key] = math.log((first + _HALF) / (len(given) - first + _HALF))
    return leans


def _shares(path: Path, line: int, row: Row) -> list[float]:
    """Read each model's share of action 1; a model with an empty cell gave no answer."""
    cells = {column: cell for column, cell in row.items() if column != _ID and cell}
    shares = []
    for column, cell in cells.items():
        try:
            share = float(cell)
        except ValueError:
            share = math.nan
        if not 0 <= share <= 1:
            raise ValueError(
                f"line {line} of {path} has {cell!r} as {column}, which is no share of answers: "
                "write a number from 0 to 1, or nothing."
            )
        shares.append(share)
    return shares
