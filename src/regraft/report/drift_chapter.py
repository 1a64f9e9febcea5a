"""The chapter on a stream of batches."""

from __future__ import annotations

from regraft.estimators.drift import DriftBatch, batch_table
from regraft.report.elements import Chapter, Chart, Document, Figure, Part, Section, Text
from regraft.support.band_chart import band_chart
from regraft.support.measured import around
from regraft.support.table import percent

_ERRORS = 1.645  # a band of 90 %, at whose upper end the alarm is raised


def drift_chapter(document: Document) -> Chapter:
    """Build the chapter for ``drift.json``."""
    summary, certified = document["summary"], document["certified_accuracy"]
    batches = [DriftBatch.from_dict(each) for each in document["batches"]]
    raised = [DriftBatch.from_dict(each) for each in document["alarms"]]
    said = {batch.number: ", ".join(batch.alarms) for batch in raised}
    groups = range(len(batches[0].shares))
    shares = {
        f"group {u}": [(b.number, b.shares[u], b.lower[u], b.upper[u]) for b in batches]
        for u in groups
    }
    accuracy = {
        "expected accuracy": [
            (b.number, b.accuracy, b.accuracy - _ERRORS * b.accuracy_error,
             b.accuracy + _ERRORS * b.accuracy_error)
            for b in batches
        ]
    }  # fmt: skip
    shown = (
        f"{len(batches):,} of {summary['batches']:,} batches, evenly spaced; a rule marks an alarm"
    )
    moved = Text("No hidden factor was found in the sources, so there are no shares to follow.")
    parts: tuple[Part, ...] = (moved,)
    if len(shares) > 1:
        title = f"Estimated shares with 95 % intervals: {shown}"
        chart = band_chart(shares, "share of the rows (%)", said)
        parts = (Chart(title, chart, document["sentence"]),)
    least = summary["least_accuracy"]
    worst = min((*batches, *raised), key=lambda batch: batch.accuracy)
    band = around(worst.accuracy, worst.accuracy_error, _ERRORS)
    described = f"Lowest expected accuracy: {percent(least)}; certified: {percent(certified)}."
    kept = f"The first {len(raised)} of {summary['alarms']:,}" if raised else "None was raised."
    return Chapter(
        "A stream of rows, batch by batch",
        f"Do batches of {document['batch']:,} rows stay mixtures of what the sources have, and "
        "does the head keep what its certificate states?",
        document["sentence"],
        (
            Section("Shares of the groups over time", parts),
            Section(
                "Expected accuracy against the certificate",
                (
                    Text(
                        "What the head is expected to have without any label of these rows, if "
                        "they are a mixture of the groups. The dashed line is the certificate."
                    ),
                    Chart(
                        f"Expected accuracy with 90 % bands: {shown}",
                        band_chart(accuracy, "accuracy (%)", said, certified),
                        described,
                    ),
                ),
            ),
            Section(
                "Alarms",
                (
                    Text(
                        f"An alarm of closure: its p-value is below {document['level']:g}, so that "
                        "no certificate speaks of the batch. Batches are "
                        f"tested one by one: of 1,000 mixtures, about {1000 * document['level']:g} "
                        "raise a false alarm. An alarm of accuracy: the whole band lies below the "
                        "certificate."
                    ),
                    batch_table(kept, raised) if raised else Text(kept),
                ),
            ),
        ),
        Figure(
            percent(worst.accuracy),
            f"lowest expected accuracy, in batch {worst.number:,} (90 % band {band.interval}); the "
            f"certificate states {percent(certified)} or more.",
        ),
    )
