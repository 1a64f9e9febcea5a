"""The published numbers agree with themselves."""

from __future__ import annotations

import pytest

from regraft.bench.colored_mnist import ENVIRONMENTS
from regraft.bench.published import ORACLE, TRAINING_DOMAIN, Published


@pytest.mark.parametrize(
    "row", [*TRAINING_DOMAIN, *ORACLE], ids=lambda row: f"{row.algorithm} {row.average}"
)
def test_averages_are_those_of_the_cells(row: Published) -> None:
    assert tuple(row.cells) == ENVIRONMENTS
    mean = sum(cell[0] for cell in row.cells.values()) / 3
    assert row.average == pytest.approx(mean, abs=0.1)  # both are rounded to 0.1
    assert all(0 <= error < mean < 100 for mean, error in row.cells.values())


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
