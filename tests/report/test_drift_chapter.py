"""The chapter on a stream: what it says, and that long streams do not make it long."""

import json
from typing import Any

from regraft.estimators.drift import DriftBatch, DriftSummary, ThinnedBatches
from regraft.report.drift_chapter import drift_chapter
from regraft.report.elements import Chart, Text
from regraft.support.table import Table


def _document(n: int, n_groups: int = 2, alarms: tuple[str, ...] = ()) -> dict[str, Any]:
    summary, thinned, raised = DriftSummary(), ThinnedBatches(400), []
    for number in range(1, n + 1):
        shares = tuple([1 / n_groups] * n_groups)
        low, high = (tuple(share + by for share in shares) for by in (-0.1, 0.1))
        first = 1000 * number - 999
        batch = DriftBatch(number, first, 1000, shares, low, high, 0.4, 0.75, 0.01, alarms)
        summary = summary.add(batch)
        thinned.add(batch)
        raised += [batch.to_dict()] * (bool(alarms) and number <= 200)
    document = {
        "summary": summary.to_dict(),
        "sentence": summary.sentence(),
        "batch": 1000,
        "level": 0.001,
        "certified_accuracy": 0.7,
        "batches": [batch.to_dict() for batch in thinned.batches()],
        "alarms": raised,
    }
    read: dict[str, Any] = json.loads(json.dumps(document))
    return read


def test_a_long_stream_does_not_make_a_long_page() -> None:
    chapter = drift_chapter(_document(10_000, alarms=("closure", "accuracy")))
    shares, accuracy, alarms = chapter.sections
    charts = [part for each in (shares, accuracy) for part in each.parts if isinstance(part, Chart)]
    assert len(charts) == 2
    assert max(len(json.dumps(chart.spec)) for chart in charts) < 150_000
    (table,) = (part for part in alarms.parts if isinstance(part, Table))
    assert len(table.rows) == 200 and table.title == "The first 200 of 10,000"
    assert chapter.verdict.startswith("10,000 of 10,000 batches raised an alarm")
    assert {point["series"] for point in charts[0].spec["data"]["values"]} == {"group 0", "group 1"}


def test_one_group_has_no_shares_and_no_alarm_has_no_table() -> None:
    shares, _, alarms = drift_chapter(_document(3, n_groups=1)).sections
    (said,) = shares.parts
    assert isinstance(said, Text) and "no shares to follow" in said.text
    assert not any(isinstance(part, Table) for part in alarms.parts)
