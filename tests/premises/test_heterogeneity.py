"""Do the sources disagree about the label of like inputs?"""

import numpy as np
import pytest
import torch

from regraft.premises.factorization import group_rows
from regraft.premises.heterogeneity import check_heterogeneity
from regraft.support.json_files import dumps
from tests.helpers.factorized_domains import draw_domains


@pytest.mark.parametrize("classes", [2, 3])
def test_sources_of_opposite_labels_disagree(classes: int) -> None:
    truth = draw_domains(0, n=300, classes=classes, reversed_last=True)
    found = check_heterogeneity(truth.rows(), draws=199)
    assert found.verdict == "consistent" and found.p_value == 1 / 200
    assert found.sentence == "The sources disagree about the label of like inputs (p ≤ 0.005)."
    assert found.views.keys() == {"means by group", "slopes by group"}
    assert max(found.views.values()) > 5
    assert 150 < found.effective_rows <= 600 / 2


def test_abductions_that_differ_make_sources_disagree() -> None:
    """The deduction is the same: what differs is who the rows may come from."""
    truth = draw_domains(1, n=3000, shift="full")
    assert check_heterogeneity(truth.rows(), draws=199).verdict == "consistent"


def test_like_or_separated_sources_are_not_said_to_disagree() -> None:
    found = check_heterogeneity(draw_domains(0, shift="none").rows(), draws=199)
    assert found.verdict == "undecided" and found.p_value > 0.01
    assert f"(p = {found.p_value:.2g})" in found.sentence
    assert found.sentence.startswith("No disagreement of the sources")
    domains = draw_domains(0, n=200, reversed_last=True).separated().domains
    found = check_heterogeneity(group_rows(domains, torch.zeros_like(domains.y), 1), draws=99)
    assert found.verdict == "undecided" and found.effective_rows < 30
    assert "share too few inputs" in found.sentence
    assert dumps(found.to_dict())


def test_p_values_of_like_sources_are_spread() -> None:
    found = [
        check_heterogeneity(draw_domains(s, n=100, shift="none").rows(), draws=99).p_value
        for s in range(40)
    ]
    assert 0.3 < np.mean(found) < 0.7
    assert sum(p <= 0.1 for p in found) <= 10
