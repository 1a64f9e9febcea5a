"""The paper's numbers stay as they were checked, and a run on its scenarios."""

import json
from itertools import combinations

import pytest

from regraft.encoders import load_text_encoder
from regraft.moral.experiment import run_moral
from regraft.moral.published import ANGLES, BASIS, CLOSURE, EXAMPLES, TEXT
from regraft.moral.responses import (
    PAPER_PERMISSIVENESS,
    describe_mechanism,
    response_probabilities,
)
from regraft.moral.scenarios import read_library
from regraft.moral.tables import paper_tables
from regraft.moral.transfer import LATENT
from regraft.moral.values import PANELS
from regraft.support.digests import digest_text
from regraft.support.json_files import dumps
from tests.helpers.paths import SHARED

REAL = SHARED / "moralchoice"
NAMES = [panel.name for panel in PANELS]


def test_no_number_changes_unnoticed() -> None:
    angles = sorted((sorted(pair), row) for pair, row in ANGLES.items())
    golden = "5b38b2da5210d96e29fbc2d0535428c5f9f2db4dfbe53fd8f733dd9959024169"
    assert digest_text(repr([CLOSURE, angles, BASIS, TEXT, EXAMPLES])) == golden
    assert list(CLOSURE) == list(EXAMPLES) == NAMES
    assert set(ANGLES) == {frozenset(pair) for pair in combinations(NAMES, 2)}


@pytest.mark.filterwarnings("ignore:[0-9]+ of 384 features are constant")
@pytest.mark.skipif(not REAL.is_dir(), reason="MoralChoice is not in ../shared/data")
@pytest.mark.slow
def test_a_run_on_the_papers_scenarios_stands_beside_its_numbers() -> None:
    library = read_library(REAL)
    result, drawn = run_moral(
        library,
        response_probabilities(library, permissiveness=PAPER_PERMISSIVENESS),
        describe_mechanism(PAPER_PERMISSIVENESS),
        load_text_encoder("hashed"),
        records=100,
    )
    assert result.origin.startswith("680 scenarios of moralchoice_high_ambiguity.csv")
    assert len(drawn.y) == 300 and result.diagnosis.domains == dict.fromkeys(sorted(NAMES), 100)
    # It closes by construction, but so few records cannot tell that.
    assert result.diagnosis.closure.verdict == "undecided"
    assert max(part.excess for part in result.diagnosis.closure.domains) < 0.02
    assert len(result.transfer.sentences()) >= 7
    # The panel held out keeps what the certificate over groups says.
    unseen = result.transfer.targets[0]
    assert unseen.panel == "Centrist" and unseen.risks[LATENT].error < 0.05
    assert unseen.risks[LATENT].risk <= result.transfer.bounded[LATENT].certificate.risk_bound
    assert json.loads(dumps(result.to_dict()))["records"] == 100
    assert [len(table.rows) for table in paper_tables(result)] == [3, 6, 3, 4, 5]
