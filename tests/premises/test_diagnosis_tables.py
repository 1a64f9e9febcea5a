"""Numbers of a diagnosis as text, by hand."""

from dataclasses import replace
from functools import cache

import pytest

from regraft.estimators.diagnosing import diagnose
from regraft.premises.abduction_angles import AnglePair
from regraft.premises.deduction_invariance import DeductionCell, DeductionInvariance
from regraft.premises.diagnose import Diagnosis
from regraft.premises.diagnosis_tables import (
    angles_table,
    answers,
    basis_table,
    cells_table,
    closure_table,
    details,
    markdown,
    shifts_table,
    verdicts,
)
from regraft.premises.factorization_closure import FactorizationClosure, Prediction
from regraft.premises.shifts import PairShift, Shifts
from regraft.premises.transplant_basis import BasisPoint, TransplantBasis
from regraft.premises.verdicts import format_p_value
from regraft.support.table import Table
from tests.helpers.factorized_domains import draw_domains

DATA = draw_domains(1, n=100, d=5)


@cache
def known() -> Diagnosis:
    return diagnose(DATA.X, DATA.y, DATA.domain, DATA.group)


def closure(means: tuple[float, ...], frequencies: tuple[float, ...]) -> FactorizationClosure:
    factorized = Prediction(means, 0.12345, 0.87654, 0.4567)
    direct = Prediction(frequencies, 0.2, 0.8, 0.5)
    numbers = {"frequencies": frequencies, "correlation": 0.987, "agreement": 0.934}
    found = known().closure
    part = replace(found.domains[0], domain="Bern", factorized=factorized, direct=direct, **numbers)
    return replace(found, domains=(part,))


def test_closure_shows_the_second_of_two_classes_and_all_of_three() -> None:
    table = closure_table(closure((0.3, 0.7), (0.25, 0.75)))
    assert table.columns == (
        "domain", "prediction", "mean", "observed", "Brier", "accuracy", "log-loss", "correlation",
        "agreement",
    )  # fmt: skip
    assert table.rows == (
        ("Bern", "factorized", "0.700", "0.750", "0.123", "0.877", "0.457", "0.99", "93%"),
        ("Bern", "direct", "0.750", "0.750", "0.200", "0.800", "0.500", "", ""),
    )
    table = closure_table(closure((0.3, 0.5, 0.2), (0.25, 0.5, 0.25)))
    assert table.rows[0][2:4] == ("0.30 0.50 0.20", "0.25 0.50 0.25")


def test_angles_bases_and_shifts_in_rows() -> None:
    pairs = (AnglePair("a", "b", 1.2, 44.6, 89.9), AnglePair("a", "c", 0, 0, 0))
    angles = replace(known().angles, pairs=pairs)
    assert angles_table(angles).rows == (("a vs. b", "1", "45", "90"), ("a vs. c", "0", "0", "0"))
    points = (
        BasisPoint(0.0, 1.23e-16, 1.0, 12.345, 3.4e-16, 20.457),
        BasisPoint(10.0, 0.998, 1.41281, 0.01, 0.0, 3.97),
    )
    table = basis_table(TransplantBasis("consistent", "", 4, 4, 0.0, points))
    assert table.columns[0] == "lambda_H"
    assert table.rows == (
        ("0", "1.2e-16", "1.00", "12.3", "3e-16", "20.5"),
        ("10", "1", "1.41", "0.01", "0e+00", "3.97"),
    )
    table = shifts_table(Shifts(0.1, 0.2, (PairShift("a", "b", 0.104, 0.206),)))
    assert table.rows == (("a vs. b", "0.10", "0.21"),)
    table = cells_table(invariance(800, 500, 499))
    assert table.rows == (
        ("a", "0", "800", "0.9877", "0.500", "0.012"),
        ("a", "1", "500", "0.9877", "0.500", "0.012"),
    )
    assert [row[2] for row in cells_table(invariance(499, 20)).rows] == ["499", "20"]
    assert len(cells_table(invariance(*[50] * 40)).rows) == 30
    tables = [Table("One", ("a", "b"), (("x|y", "1"),)), Table("Two", ("c",), ())]
    assert markdown(tables) == (
        "## One\n\n| a | b |\n|---|---:|\n| x\\|y | 1 |\n\n## Two\n\n| c |\n|---|\n"
    )


def invariance(*records: int) -> DeductionInvariance:
    cells = tuple(
        DeductionCell("a", str(u), n, 0.98769, 0.5, 0.0123) for u, n in enumerate(records)
    )
    return DeductionInvariance("consistent", "", 0.5, {}, 100.0, cells, len(records), 10.0)


def test_a_diagnosis_has_a_row_for_each_premise_and_its_tables() -> None:
    table = verdicts(known())
    assert table.rows == tuple((name, check.verdict) for name, check in known().checks.items())
    assert len(table.rows) == 5
    assert answers(known()).rows == tuple(
        (each.question, each.answer, each.number) for each in known().answers
    )
    titles = [part.title.split(",")[0] for part in details(known())]
    assert titles == [
        "Rows",
        "Factorization closure",
        "Principal angles between col(A_s)",
        "Deduction columns",
        "Transplant basis",
        "Shifts",
    ]
    for part in details(known()):
        assert all(len(row) == len(part.columns) for row in part.rows)
    unknown = diagnose(DATA.X, DATA.y, DATA.domain)
    assert "Deduction columns" not in [part.title for part in details(unknown)]


@pytest.mark.parametrize(
    ("p_value", "draws", "text"),
    [(0.001, 999, "p ≤ 0.001"), (0.002, 999, "p = 0.002"), (0.01, 99, "p ≤ 0.01"), (1, 9, "p = 1")],
)
def test_p_values_in_words(p_value: float, draws: int, text: str) -> None:
    assert format_p_value(p_value, draws) == text
