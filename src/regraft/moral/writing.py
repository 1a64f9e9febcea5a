"""The moral experiment in words, tables and files."""

from __future__ import annotations

import functools
from pathlib import Path

from regraft.estimators.plots import plot_audit
from regraft.moral.experiment import MoralResult
from regraft.moral.process import DrawnRecords
from regraft.moral.scenarios import TOPICS, Library
from regraft.moral.tables import paper_tables, published_spread, targets_table, transfer_table
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
        *(sentence for each in certificates for sentence in each.summary()),
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
