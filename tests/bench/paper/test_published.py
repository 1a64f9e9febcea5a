"""The published numbers agree with themselves."""

from __future__ import annotations

import hashlib

import pytest

from regraft.bench.datasets.colored_mnist import ENVIRONMENTS
from regraft.bench.paper.benchmark import IMAGE_BENCHMARKS, Benchmark
from regraft.bench.paper.published import OFFICE_HOME, ORACLE, PACS, TRAINING_DOMAIN, Published


@pytest.mark.parametrize(
    "row", [*TRAINING_DOMAIN, *ORACLE], ids=lambda row: f"{row.algorithm} {row.average}"
)
def test_averages_are_those_of_the_cells(row: Published) -> None:
    assert tuple(row.cells) == ENVIRONMENTS
    mean = sum(cell[0] for cell in row.cells.values()) / 3
    assert row.average == pytest.approx(mean, abs=0.1)  # both are rounded to 0.1
    assert all(0 <= error < mean < 100 for mean, error in row.cells.values())


def test_no_number_changes_unnoticed() -> None:
    tables = repr([*TRAINING_DOMAIN, *ORACLE, *PACS, *OFFICE_HOME])
    golden = "8def5e75852a448d422b23eee2e90458e522530e75060f63d9e29d5d5c16bdce"
    assert hashlib.sha256(tables.encode()).hexdigest() == golden


def test_both_rules_cover_the_same_algorithms() -> None:
    names = [row.algorithm for row in TRAINING_DOMAIN if row.source == "DomainBed"]
    assert names == [row.algorithm for row in ORACLE]
    assert len(set(names)) == 14
    assert all(row.source == "DomainBed" for row in ORACLE)


def test_rows_that_the_story_rests_on() -> None:
    by_name = {row.algorithm: row for row in TRAINING_DOMAIN}
    assert by_name["ERM"].cells == {"+90%": (71.7, 0.1), "+80%": (72.9, 0.2), "-90%": (10.0, 0.1)}
    assert by_name["ARM"].cells["+90%"] == (82.0, 0.5)
    assert by_name["CRO"] == Published(
        "CRO", "CRO paper", {"+90%": (72.1, 0.7), "+80%": (72.4, 0.3), "-90%": (76.0, 0.7)}, 73.5
    )
    assert {row.algorithm: row.cells["-90%"] for row in ORACLE}["IRM"] == (58.5, 3.3)


@pytest.mark.parametrize("benchmark", IMAGE_BENCHMARKS.values(), ids=lambda b: b.name)
def test_averages_on_images_are_those_of_the_cells(benchmark: Benchmark) -> None:
    names = [row.algorithm for row in benchmark.published]
    assert names == [row.algorithm for row in TRAINING_DOMAIN]
    for row in benchmark.published:
        assert tuple(row.cells) == benchmark.environments
        mean = sum(cell[0] for cell in row.cells.values()) / 4
        assert row.average == pytest.approx(mean, abs=0.1)
        assert row.source == ("CRO paper" if row.algorithm == "CRO" else "DomainBed")


def test_rows_on_images_that_matter() -> None:
    pacs = {row.algorithm: row for row in PACS}
    assert pacs["ERM"].average == 85.5 and pacs["ERM"].cells["S"] == (79.3, 1.0)
    assert pacs["CRO"].average == 84.6 and pacs["CRO"].cells["S"] == (77.0, 4.2)
    office = {row.algorithm: row for row in OFFICE_HOME}
    assert office["ERM"].cells == {
        "A": (61.3, 0.7),
        "C": (52.4, 0.3),
        "P": (75.8, 0.1),
        "R": (76.6, 0.3),
    }
    assert office["CRO"].average == 69.3
    assert max(OFFICE_HOME, key=lambda row: row.average).algorithm == "CRO"
