"""The published numbers agree with themselves."""

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


def test_no_number_changes_unnoticed_and_rules_cover_the_same_algorithms() -> None:
    tables = repr([*TRAINING_DOMAIN, *ORACLE, *PACS, *OFFICE_HOME])
    golden = "8def5e75852a448d422b23eee2e90458e522530e75060f63d9e29d5d5c16bdce"
    assert hashlib.sha256(tables.encode()).hexdigest() == golden
    names = [row.algorithm for row in TRAINING_DOMAIN if row.source == "DomainBed"]
    assert names == [row.algorithm for row in ORACLE]
    assert len(set(names)) == 14
    assert all(row.source == "DomainBed" for row in ORACLE)


@pytest.mark.parametrize("benchmark", IMAGE_BENCHMARKS.values(), ids=lambda b: b.name)
def test_averages_on_images_are_those_of_the_cells(benchmark: Benchmark) -> None:
    names = [row.algorithm for row in benchmark.published]
    assert names == [row.algorithm for row in TRAINING_DOMAIN]
    for row in benchmark.published:
        assert tuple(row.cells) == benchmark.environments
        mean = sum(cell[0] for cell in row.cells.values()) / 4
        assert row.average == pytest.approx(mean, abs=0.1)
        assert row.source == ("CRO paper" if row.algorithm == "CRO" else "DomainBed")
