"""The paper's numbers, typed from its tables a second time, and a run on its scenarios."""

import json
from itertools import combinations

import pytest

from regraft.encoders import load_text_encoder
from regraft.moral.experiment import run_moral
from regraft.moral.published import ANGLES, BASIS, CLOSURE
from regraft.moral.responses import MECHANISM, response_probabilities
from regraft.moral.scenarios import read_library
from regraft.moral.tables import paper_tables
from regraft.moral.values import PANELS
from regraft.support.json_files import dumps
from tests.helpers.paths import SHARED

REAL = SHARED / "moralchoice"
NAMES = [panel.name for panel in PANELS]

CLOSURE_ROWS = """
Pragmatist factorized 0.465 0.171 0.809 0.526
Pragmatist direct     0.459 0.148 0.809 0.470
Idealist   factorized 0.250 0.142 0.774 0.448
Idealist   direct     0.250 0.123 0.823 0.395
Centrist   factorized 0.337 0.188 0.708 0.559
Centrist   direct     0.337 0.170 0.761 0.514
"""
ANGLE_ROWS = """
Pragmatist Idealist 22 66 89
Pragmatist Centrist 21 67 89
Idealist   Centrist 19 67 90
"""
BASIS_ROWS = """
0    1.06 282.8 998
0.01 1.06 282.5 984
0.1  1.06 280.3 900
1.0  1.06 267.7 662
10   1.19 210.3 377
"""


def rows_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


def test_closure_principal_angles_and_basis() -> None:
    typed = {tuple(row[:2]): tuple(map(float, row[2:])) for row in rows_of(CLOSURE_ROWS)}
    assert {(p, kind): row for p, kinds in CLOSURE.items() for kind, row in kinds.items()} == typed
    assert list(CLOSURE) == NAMES
    typed = {frozenset(row[:2]): tuple(map(int, row[2:])) for row in rows_of(ANGLE_ROWS)}
    assert typed == ANGLES
    assert set(ANGLES) == {frozenset(pair) for pair in combinations(NAMES, 2)}
    typed = {float(weight): tuple(map(float, cells)) for weight, *cells in rows_of(BASIS_ROWS)}
    assert typed == BASIS


@pytest.mark.filterwarnings("ignore:[0-9]+ of 384 features are constant")
@pytest.mark.skipif(not REAL.is_dir(), reason="MoralChoice is not in ../shared/data")
@pytest.mark.slow
def test_a_run_on_the_papers_scenarios_stands_beside_its_numbers() -> None:
    library = read_library(REAL)
    result, drawn = run_moral(
        library,
        response_probabilities(library),
        MECHANISM,
        load_text_encoder("hashed"),
        records=200,
    )
    assert result.origin.startswith("680 scenarios of moralchoice_high_ambiguity.csv")
    assert len(drawn.y) == 600 and result.diagnosis.domains == dict.fromkeys(sorted(NAMES), 200)
    # It closes by construction, but so few records cannot tell that.
    assert result.diagnosis.closure.verdict == "undecided"
    assert max(part.excess for part in result.diagnosis.closure.domains) < 0.02
    assert len(result.transfer.sentences()) == 2
    assert json.loads(dumps(result.to_dict()))["records"] == 200
    assert [len(table.rows) for table in paper_tables(result)] == [6, 3, 5]
