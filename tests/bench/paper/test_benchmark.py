"""The published numbers agree with themselves."""

import hashlib
from dataclasses import replace

import pytest

from regraft.bench.datasets.colored_mnist import ENVIRONMENTS
from regraft.bench.paper.benchmark import (
    COLORED_MNIST,
    IMAGE_BENCHMARKS,
    Benchmark,
    published_rows,
)

TRAINING_DOMAIN, ORACLE, PACS, OFFICE_HOME = map(
    published_rows, ("training_domain", "oracle", "pacs", "office_home")
)


@pytest.mark.parametrize(
    "benchmark",
    [COLORED_MNIST, replace(COLORED_MNIST, published=ORACLE), *IMAGE_BENCHMARKS.values()],
    ids=lambda benchmark: benchmark.name,
)
def test_averages_are_those_of_the_cells(benchmark: Benchmark) -> None:
    for row in benchmark.published:
        assert tuple(row.cells) == benchmark.environments
        mean = sum(cell[0] for cell in row.cells.values()) / len(row.cells)
        assert row.average == pytest.approx(mean, abs=0.1)  # both are rounded to 0.1
        assert all(0 <= error < mean < 100 for mean, error in row.cells.values())
        assert row.source == ("CRO paper" if row.algorithm == "CRO" else "DomainBed")


def test_no_number_changes_unnoticed_and_rules_cover_the_same_algorithms() -> None:
    tables = repr([*TRAINING_DOMAIN, *ORACLE, *PACS, *OFFICE_HOME])
    golden = "8def5e75852a448d422b23eee2e90458e522530e75060f63d9e29d5d5c16bdce"
    assert hashlib.sha256(tables.encode()).hexdigest() == golden
    names = [row.algorithm for row in TRAINING_DOMAIN if row.source == "DomainBed"]
    assert names == [row.algorithm for row in ORACLE]
    assert len(set(names)) == 14
    assert COLORED_MNIST.published == TRAINING_DOMAIN and COLORED_MNIST.environments == ENVIRONMENTS
    for benchmark in IMAGE_BENCHMARKS.values():
        names = [row.algorithm for row in benchmark.published]
        assert names == [row.algorithm for row in TRAINING_DOMAIN]
