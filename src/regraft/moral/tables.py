"""The moral experiment in words, tables and files: section 5.4's numbers beside ours."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from regraft.estimators.plots import plot_audit
from regraft.moral.experiment import MoralResult
from regraft.moral.process import DrawnRecords
from regraft.moral.published import ANGLES, BASIS, CLOSURE, TEXT
from regraft.moral.scenarios import TOPICS, Library
from regraft.moral.transfer import Transfer
from regraft.moral.values import PROFILES, profile_name
from regraft.premises.diagnosis_tables import markdown, write_diagnosis
from regraft.support.files import write_text
from regraft.support.pictures import write_result
from regraft.support.table import Table


def result_tables(result: MoralResult) -> list[Table]:
    """Make the paper's tables, and those of the panel held out."""
    transfer = result.transfer
    return [*paper_tables(result), transfer_table(transfer), targets_table(transfer)]


def remarks(result: MoralResult) -> list[str]:
    """Say in sentences what the tables do not show."""
    shares = result.action2_shares
    apart = max(shares.values()) - min(shares.values())
    expected = ", ".join(f"{name} {share:.3f}" for name, share in shares.items())
    angles = ", ".join(f"{angle:.1f}° at {n}" for n, angle in result.median_angles.items())
    certificates = (bounded.certificate for bounded in result.transfer.bounded.values())
    return [
        *(f"{example.scenario}: {example.text}" for example in result.examples),
        f"Expected shares of action 2: {expected}. They are {apart:.3f} apart; the paper's "
        f"predictions are {published_spread():.3f} apart.",
        f"On scenarios that no map has seen: {result.new_scenarios.sentence}",
        f"Median principal angle by records a panel: {angles}.",
        *(sentence for each in certificates for sentence in each.paragraphs()),
        *result.transfer.sentences(),
    ]


def write_moral(
    out: Path, result: MoralResult, library: Library, drawn: DrawnRecords
) -> list[Path]:
    """Write the diagnosis, the result and the records drawn into ``out``; returns the files."""
    files = write_diagnosis(out, result.diagnosis)
    tables = result_tables(result)
    draw = functools.partial(plot_audit, result.transfer.curves)
    document = result.to_dict() | {"tables": [table.to_dict() for table in tables]}
    files += write_result(out, "moral.json", document, "stress_curve.png", draw)
    head = [f"Scenarios: {result.origin}.", result.mechanism, *remarks(result)]
    words = "\n".join(f"- {sentence}" for sentence in head)
    write_text(out / "moral.md", f"# Moral questions\n\n{words}\n\n{markdown(tables)}")
    rows = tuple(
        (
            drawn.names[panel],
            profile_name(PROFILES[profile]),
            TOPICS[library.topics[scenario]],
            library.scenarios[scenario].id,
            int(y),
        )
        for panel, profile, scenario, y in zip(
            drawn.panel, drawn.profile, drawn.scenario, drawn.y, strict=True
        )
    )
    columns = "panel", "profile", "topic", "scenario", "action1"
    write_text(out / "records.csv", Table("Records", columns, rows).csv())
    return [*files, out / "moral.md", out / "records.csv"]


def paper_tables(result: MoralResult) -> list[Table]:
    """Lay out what the paper shows of its run, its numbers beside ours."""
    return [_examples(result), _closure(result), _angles(result), _text(result), _basis(result)]


def published_spread() -> float:
    """Return how far apart the mean predictions of the paper's panels are."""
    means = [float(kinds["factorized"][0]) for kinds in CLOSURE.values()]
    return max(means) - min(means)


def transfer_table(transfer: Transfer) -> Table:
    """Show the heads on the panels they know and on the one they do not."""
    columns = {
        "head": "{.name}",
        "accuracy, known panels": "{.source_accuracy:.1%}",
        transfer.target: "{.target_accuracy:.1%}",
        "risk, known": "{.source_risk:.3f}",
        "risk there": "{.target_risk:.3f}",
    }
    title = f"Without the {transfer.target} panel, new records"
    return Table.from_objects(title, columns, transfer.heads)


def targets_table(transfer: Transfer) -> Table:
    """Show where unseen panels lie, and CRO's true risks there beside the bounds."""
    columns = {
        "panel": "{.panel}",
        "among heads": "{.placement.distance:.2f}",
        "misfit": "{.placement.misfit:.3f}",
        "among abductions": "{.abduction.along:.2f}",
        "off their hull": "{.abduction.off:.2f}",
        **{f"risk of {name}": f"{{.risks[{name}].risk:.3f}}" for name in transfer.bounded},
    }
    title = f"Unseen panels, in nats; hulls within {transfer.radius:.3g} nats"
    table = Table.from_objects(title, columns, transfer.targets)
    bounds = [head.bounds() for head in transfer.bounded.values()]
    below = tuple(
        (f"bound: {name}", "", "", "", "", *(f"{each[name]:.3f}" for each in bounds))
        for name in bounds[0]
    )
    return replace(table, rows=table.rows + below)


def _examples(result: MoralResult) -> Table:
    columns = {"panel": "{.panel}", "values": "{.profile}", "scenario": "{.scenario}"}
    answers = {"P(B)": "{.action2_probability:.2f}", "choice (paper)": "{.published}"}
    return Table.from_objects("One record of each panel", columns | answers, result.examples)


def _text(result: MoralResult) -> Table:
    """Show what the paper says in its text, by panel."""
    diagnosis = result.diagnosis
    ranks = diagnosis.angles.stable_ranks
    cosines = {
        panel: [c.cosine_alone for c in diagnosis.invariance.cells if c.domain == panel]
        for panel in ranks
    }
    parts = {part.domain: part for part in diagnosis.closure.domains}
    rows = {
        "correlation": ("correlation with direct regression", "{:.2f}"),
        "agreement": ("same class as direct regression", "{:.0%}"),
        "stable_rank": ("stable rank of A", "{:.0f}"),
        "cosine": ("median cosine of D's columns, fitted to the panel alone", "{:.2f}"),
    }
    ours = {
        "correlation": [parts[panel].correlation for panel in ranks],
        "agreement": [parts[panel].agreement for panel in ranks],
        "stable_rank": list(ranks.values()),
        "cosine": [median(cosines[panel] or [float("nan")]) for panel in ranks],
    }
    cells = tuple(
        (name, *map(form.format, ours[key]), "–".join(map(form.format, TEXT[key])))
        for key, (name, form) in rows.items()
    )
    return Table("Numbers of the text", ("number", *ranks, "paper"), cells)


def _closure(result: MoralResult) -> Table:
    rows = []
    for part in result.diagnosis.closure.domains:
        for name, ours in (("factorized", part.factorized), ("direct", part.direct)):
            # The paper's y_1 is to act, which is action 2 and the class 0 here.
            numbers = ours.mean[0], ours.brier, ours.accuracy, ours.log_loss
            cells = _beside("{:.3f} ({:.3f})", numbers, CLOSURE[part.domain][name])
            rows.append((part.domain, name, f"{part.frequencies[0]:.3f}", *cells))
    means = "observed P(B)", "mean P(B)"
    columns = "panel", "prediction", *means, "Brier", "accuracy", "log-loss"
    return Table("Factorization closure: held-out rows (paper)", columns, tuple(rows))


def _angles(result: MoralResult) -> Table:
    rows = []
    for pair in result.diagnosis.angles.pairs:
        numbers, paper = (pair.smallest, pair.median, pair.largest), {pair.first, pair.second}
        cells = _beside("{:.0f} ({})", numbers, ANGLES[frozenset(paper)])
        rows.append((f"{pair.first} vs. {pair.second}", *cells))
    columns = "pair", "min", "median", "max"
    return Table("Principal angles in degrees: ours (paper)", columns, tuple(rows))


def _basis(result: MoralResult) -> Table:
    rows = []
    for point in result.diagnosis.basis.points:
        numbers = point.residual_identity, point.basis_norm, point.hausdorff
        cells = _beside("{:.3g} ({:g})", numbers, BASIS[point.weight])
        own = f"{point.weight:g}", f"{point.residual:.2g}", f"{point.deduction_norm:.0e}"
        rows.append((*own, *cells))
    first = "lambda_H", "residual to P / A", "norm of D^T L"
    columns = *first, "residual to I / A", "norm of L", "Hausdorff"
    return Table("Transplant basis: ours (paper)", columns, tuple(rows))


def _beside(cell: str, ours: Sequence[float], paper: Sequence[float]) -> list[str]:
    return [cell.format(a, b) for a, b in zip(ours, paper, strict=True)]
