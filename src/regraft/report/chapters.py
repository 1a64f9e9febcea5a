"""What the heads' results have to say: a chapter from the document of each command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regraft.auditing import AuditCurve, Frontier
from regraft.certificate import Certificate
from regraft.report.certificates import certificate_section, game_section
from regraft.report.charts import radius_chart
from regraft.report.elements import Chapter, Chart, Section, Table, Text
from regraft.report.stressing import accuracies_section, frontier_section, stress_section
from regraft.screen import percent

Document = Mapping[str, Any]
_MOST_CLASSES = 12  # with a column each


def demo_chapter(document: Document) -> Chapter:
    """Of ``demo.json``."""
    certificate = Certificate.from_dict(document["certificate"])
    curves = {name: AuditCurve.from_dict(curve) for name, curve in document["curves"].items()}
    rows, target = [*document["rows"], document["ceiling"]], document["target"]
    unseen = f"{target} (unseen)"
    accuracies = {row["name"]: {**row["by_source"], unseen: row["target_accuracy"]} for row in rows}
    erm, cro = document["rows"][0], document["rows"][-1]
    sections = [accuracies_section(accuracies, "rows that no head was fitted on")]
    sections.append(stress_section(curves, "the rows fitted on"))
    if document["frontier"] is not None:
        sections.append(frontier_section(Frontier.from_dict(document["frontier"])))
    return Chapter(
        f"Colored MNIST: which head, trained on {' and '.join(document['sources'])}, holds in "
        f"{target}, where colour goes with the other label and which no head has seen?",
        f"In the unseen domain ERM falls from {percent(erm['source_accuracy'])} to "
        f"{percent(erm['target_accuracy'])}; CRO, which refuses to lean on what the sources "
        f"disagree about, has {percent(cro['target_accuracy'])} after "
        f"{percent(cro['source_accuracy'])} on the sources.",
        (*sections, game_section(certificate), certificate_section(certificate)),
    )


def fit_chapter(document: Document) -> Chapter:
    """Of ``fit.json``."""
    certificate = Certificate.from_dict(document["certificate"])
    rows = document["rows"]
    n = sum(sum(counts.values()) for counts in rows.values())
    radius = certificate.radius
    asked = (
        f"From {n} rows of {document['n_features']} features in {len(rows)} source domains, fit "
        f"the head with the smallest worst {certificate.objective} over every plausible unseen "
        f"domain within {radius:g} nats of them."
    )
    sections = [_rows_section(document)]
    stress = document["stress"]
    if stress is None:
        accuracies = {"CRO": document["source_accuracy"]}
        sections += [accuracies_section(accuracies, "the rows fitted on"), _no_stress()]
        verdict = certificate.summary()[0]
    else:
        heads = {head["name"]: head for head in stress["heads"]}
        curves = {name: AuditCurve.from_dict(head["curve"]) for name, head in heads.items()}
        measured = f"{stress['measured']} rows held out from the {stress['fitted']} fitted on"
        verdict = _verdict(curves, radius or 0.0, certificate.share)
        sections += [
            stress_section(curves, measured),
            frontier_section(Frontier.from_dict(stress["frontier"])),
            accuracies_section({k: head["accuracy"] for k, head in heads.items()}, measured),
        ]
    sections += [game_section(certificate), certificate_section(certificate)]
    return Chapter(asked, verdict, tuple(sections))


def audit_chapter(document: Document) -> Chapter:
    """Of ``audit.json``."""
    curve = AuditCurve.from_dict({k: document[k] for k in ("points", "source_accuracy")})
    worst = curve.points[-1]
    return Chapter(
        "How bad can a fixed predictor get in a plausible unseen domain?",
        f"It has {percent(curve.source_accuracy)} on the sources and {percent(worst.accuracy)} in "
        f"the worst plausible domain within {worst.radius:g} nats.",
        (stress_section({"predictor": curve}, "the rows audited"), _targets_section(curve)),
    )


def frontier_chapter(document: Document) -> Chapter:
    """Of ``frontier.json``."""
    frontier = Frontier.from_dict(dict(document))
    first, last = frontier.points[0], frontier.points[-1]
    cost = 100 * (first.source_accuracy - last.source_accuracy)
    gain = 100 * (last.worst_case_accuracy - first.worst_case_accuracy)
    return Chapter(
        "What does robustness cost on the sources, and what does it buy in the worst case?",
        f"From training radius {first.radius:g} to {last.radius:g} it costs {cost:.1f} points of "
        f"accuracy on the sources and buys {gain:.1f} in the worst case within "
        f"{frontier.audit_radius:g} nats.",
        (frontier_section(frontier),),
    )


def comparison_chapter(document: Document) -> Chapter:
    """Of ``comparison.json``."""
    rows, targets = document["rows"], document["targets"]
    fixed = [row for row in rows if row["radius"] is None]
    swept = [row for row in rows if row["radius"] is not None]
    erm, cro = fixed[0], fixed[-1]
    lines = {"CRO over the radius": {row["radius"]: row["average"] for row in swept}}
    levels = {row["head"]: row["average"] for row in fixed}
    ends = ", ".join(f"{name} {percent(level)}" for name, level in levels.items())
    best = max(range(len(rows)), key=lambda i: float(rows[i]["average"]))
    cells = tuple(
        (row["head"], *map(percent, (*row["accuracy"].values(), row["average"], row["worst"])))
        for row in rows
    )
    table = Table(
        "Accuracy in the domain left out",
        ("head", *targets, "average", "worst"),
        cells,
        frozenset({best}),
        note="The marked row has the best average over unseen domains.",
    )
    title = "average accuracy, unseen domains (%)"
    parts: tuple[Chart | Table, ...] = (table,)
    if swept:
        chart = Chart("Over the radius", radius_chart(lines, levels, title), f"{ends}.")
        parts = (chart, table)
    accuracies = {row["head"]: row["accuracy"] for row in fixed}
    return Chapter(
        f"Which head holds where none has been? Each of {len(targets)} domains was left out in "
        "turn.",
        f"{cro['head']} has {percent(cro['average'])} on average over the unseen domains and "
        f"{percent(cro['worst'])} in the worst ({cro['worst_target']}), {erm['head']} "
        f"{percent(erm['average'])} and {percent(erm['worst'])}.",
        (
            Section("All heads, each domain left out", parts),
            accuracies_section(accuracies, "the domain left out", cro["head"]),
        ),
    )


def _verdict(curves: Mapping[str, AuditCurve], radius: float, share: float) -> str:
    """CRO against ERM in the worst case within the radius, and what it gives up."""
    erm, cro = curves["ERM"], curves["CRO"]
    at = {
        name: next(p for p in curve.points if p.radius == radius).accuracy
        for name, curve in (("ERM", erm), ("CRO", cro))
    }
    if share == 0:
        return (
            "The sources do not disagree beyond noise about anything that matters, so the head is "
            f"ERM's: {percent(cro.source_accuracy)} on the sources and {percent(at['CRO'])} in the "
            f"worst plausible domain within {radius:g} nats."
        )
    cost = 100 * (erm.source_accuracy - cro.source_accuracy)
    price = f"gives up {cost:.1f} points on the sources" if cost > 0 else "costs nothing there"
    return (
        f"In the worst plausible domain within {radius:g} nats this head keeps "
        f"{percent(at['CRO'])} accuracy where ERM's falls to {percent(at['ERM'])}; with "
        f"{percent(cro.source_accuracy)} it {price}."
    )


def _rows_section(document: Document) -> Section:
    rows, classes = document["rows"], document["classes"]
    shown = classes if len(classes) <= _MOST_CLASSES else []
    counts = tuple(
        (name, *(str(row.get(label, 0)) for label in shown), str(sum(row.values())), str(len(row)))
        for name, row in rows.items()
    )
    columns = ("source", *shown, "all rows", "classes")
    return Section("The data", (Table("Rows by source", columns, counts),))


def _no_stress() -> Section:
    return Section(
        "Under stress: the worst plausible domain",
        (
            Text(
                "Not measured in this run: fit with --html, or run regraft audit and regraft "
                "frontier with the same --out, and write the report again."
            ),
        ),
    )


def _targets_section(curve: AuditCurve) -> Section:
    names = list(curve.points[0].accuracy_target)
    rows = tuple(
        (f"{p.radius:g}", *(f"{p.accuracy_target[name]:+.2f}" for name in names))
        for p in curve.points
    )
    table = Table("Weights of the source heads there", ("radius", *names), rows)
    text = Text(
        "A plausible domain weighs the heads of the sources; weights sum to one, and negative "
        "ones go beyond the sources, away from the one they stand under."
    )
    return Section("Which domain is the worst?", (text, table))
