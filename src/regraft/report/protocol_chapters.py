"""Chapters on the paper's experiments and on sweeps by DomainBed's protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regraft.report.elements import Chapter, Chart, Document, Section, Text
from regraft.report.sections import tables_sections
from regraft.support.charts import BETWEEN, ERM_HEAD, LAST_HEAD, ranks_chart, risks_chart
from regraft.support.looks import head_looks
from regraft.support.table import Number, Table

_MOST_POINTS = 4000  # of a chart


def reproduction_chapter(document: Document) -> Chapter:
    """Build the chapter for ``reproduction.json``."""
    cells, label = document["cells"], document["label"]
    accuracies = ", ".join(f"{100 * cell['mean']:.1f} on {name}" for name, cell in cells.items())
    average = document["average"]
    tail = "" if average is None else f", {100 * average:.1f} on average"
    spread = tuple(
        (
            name,
            *(f"{100 * end:.1f}" for end in cell["spread"]),
            ", ".join(f"{100 * accuracy:.1f}" for accuracy in cell["trials"]),
            ", ".join(map(str, sorted(set(document["rounds"][name])))),
        )
        for name, cell in cells.items()
    )
    columns = "held out", "lowest", "highest", "chosen, by trial", "rounds of the game"
    sections = [
        *tables_sections(document["tables"]),
        Section(
            "All configurations",
            (Table("Accuracy (%) over all configurations and trials", columns, spread),),
        ),
    ]
    points = list(_checkpoints(document["checkpoints"]))
    if points:
        sections.append(_risks_section(points, list(cells)))
    if document["ranks"]:
        sections.append(_ranks_section(document["ranks"]))
    seconds = ", ".join(f"{part} {spent:.1f} s" for part, spent in document["seconds"].items())
    sections.append(Section("Time", (Text(f"{seconds}."),)))
    sections.append(Section("Data", (Text(f"Fingerprint of the inputs: {document['data']}."),)))
    return Chapter(
        f"The paper's experiment on {document['benchmark']}",
        f"What does {label} reach in a domain held out, chosen by training-domain validation?",
        f"Accuracy (%): {accuracies}{tail}, from {document['runs']} runs.",
        tuple(sections),
    )


def collection_chapter(document: Document) -> Chapter:
    """Build the chapter for ``collect.json``."""
    rules = document["selections"]
    first = next(iter(rules.values()))
    averages = {name: value for name, value in first["overall"].items() if value is not None}
    if averages:
        best = max(averages, key=lambda name: float(averages[name]))
        verdict = (
            f"By {first['title']}, {best} is best with {100 * averages[best]:.1f} % on average."
        )
    else:
        verdict = f"By {first['title']}, no algorithm has all the runs that an average needs yet."
    tables = tuple(
        _selection_table(f"{dataset}, {rule['title']}", rows)
        for rule in rules.values()
        for dataset, rows in rule["datasets"].items()
    )
    remarks = [f"{document['unfinished']} of {document['runs']} runs are not finished."]
    remarks = remarks if document["unfinished"] else []
    remarks += [f"{remark}." for remark in document["uneven"]]
    return Chapter(
        "Algorithms by DomainBed's protocol",
        f"Which algorithm is best in domains held out, by DomainBed's protocol, from "
        f"{document['runs']} runs?",
        verdict,
        (
            Section(
                "Test accuracy (%) ± standard error over trials", (*tables, *map(Text, remarks))
            ),
        ),
    )


def _selection_table(title: str, rows: Document) -> Table:
    names = list(dict.fromkeys(name for row in rows.values() for name in row["cells"]))
    averages = [row["average"] for row in rows.values()]
    lines = tuple(
        (algorithm, *(_number(**row["cells"].get(name, {})) for name in names), _number(average))
        for (algorithm, row), average in zip(rows.items(), averages, strict=True)
    )
    best = max((average for average in averages if average is not None), default=None)
    marked = frozenset(i for i, a in enumerate(averages) if a is not None and a == best)
    return Table(title, ("algorithm", *names, "average"), lines, marked)


def _number(
    mean: float | None = None, error: float | None = None, trials: Sequence[Any] = (), **_: Any
) -> Number | None:
    """Return shares of one as a cell in percent; the error of a single trial is not known."""
    known = None if error is None or len(trials) == 1 else 100 * error
    return None if mean is None else Number(100 * mean, known)


def _risks_section(points: list[dict[str, Any]], names: list[str]) -> Section:
    # The first and the last head of each game stay, however many there are between.
    between = [point for point in points if point["stage"] == BETWEEN]
    ends = [point for point in points if point["stage"] != BETWEEN]
    every = max(1, -(-len(between) // _MOST_POINTS))
    chart = Chart(
        "Source and target risk of the heads on the way; dashed: equal risks",
        risks_chart([*between[::every], *ends], head_looks(names)),
        f"{len(points)} checkpoints of the game, by domain held out.",
    )
    return Section("Checkpoints", (chart,))


def _ranks_section(ranks: Mapping[str, list[tuple[int, float]]]) -> Section:
    ends = "; ".join(
        f"{name}: {min(risk for _, risk in curve):.3f} to {max(risk for _, risk in curve):.3f}"
        for name, curve in ranks.items()
    )
    spec = ranks_chart(ranks, head_looks(ranks))
    chart = Chart("Target risk over the transplant dimension", spec, f"{ends}.")
    return Section("Transplant dimension", (chart,))


def _checkpoints(by_domain: Mapping[str, list[list[float]]]) -> Iterator[dict[str, Any]]:
    """Yield the marks of the chart from lists of [share of the game, source and target risk]."""
    for domain, points in by_domain.items():
        for share, source, target in points:
            stage = ERM_HEAD if share == 0 else LAST_HEAD if share == 1 else BETWEEN
            yield {
                "domain": domain,
                "stage": stage,
                "source": round(source, 4),
                "target": round(target, 4),
            }
