"""What cards and reports say about past certificates is what was measured."""

import re
from pathlib import Path

import pytest

from regraft.estimators.cro import CROClassifier
from regraft.estimators.evidence_tables import track_record
from tests.helpers.problems import Problem

RESULTS = Path(__file__).parents[2] / "benchmarks" / "RESULTS.md"


@pytest.mark.parametrize("family", ["latent", "hull"])
def test_the_track_record_is_that_of_the_results(problem: Problem, family: str) -> None:
    said = track_record(CROClassifier(family).fit(*problem.data).certificate_)  # type: ignore[arg-type]
    pattern = rf"\| {family}, \w+: bounds \| (\d+) \| ([\d.]+) .*?\| ([\d.]+) "
    rows = [tuple(map(float, row)) for row in re.findall(pattern, RESULTS.read_text())]
    assert len(rows) == 4
    every = round(sum(n for n, _, _ in rows))
    risks = round(sum(n * risk / 100 for n, risk, _ in rows))
    accuracies = round(sum(n * accuracy / 100 for n, _, accuracy in rows))
    assert f"On {every} real domains" in said
    assert f"bound {risks} times and the accuracy {accuracies} times" in said
