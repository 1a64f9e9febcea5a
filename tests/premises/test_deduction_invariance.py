"""Given input and group, do labels depend on the domain?"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from regraft.premises.deduction_invariance import DeductionInvariance, check_invariance
from regraft.premises.factorization import Penalties, fit_factorization
from regraft.support.json_files import dumps
from tests.helpers.factorized_domains import FactorizedDomains, draw_domains


def check(truth: FactorizedDomains, draws: int = 199) -> DeductionInvariance:
    rows = truth.rows()
    deduction = fit_factorization(rows, Penalties(1.0, 1.0)).deduction
    return check_invariance(
        rows, deduction, penalty=1.0, names=truth.names, groups=truth.groups, draws=draws
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_an_invariant_deduction_is_consistent(classes: int) -> None:
    found = check(draw_domains(0, n=2000, classes=classes, shift="full"))
    assert found.verdict == "consistent" and found.p_value > 0.01
    assert found.sentence.startswith("Labels do not visibly depend on the domain")
    assert min(cell.cosine for cell in found.cells) > 0.99
    assert min(cell.cosine_alone for cell in found.cells) > 0.9
    assert all(view < 4 for view in found.views.values())


@pytest.mark.parametrize("classes", [2, 3])
def test_a_reversed_deduction_is_violated_and_its_cosines_fall(classes: int) -> None:
    truth = draw_domains(0, n=1500, classes=classes, sources=3, reversed_last=True)
    found = check(truth)
    assert found.verdict == "violated" and found.p_value == 1 / 200
    start = "Labels depend on the domain, given input and group (p ≤ 0.005"
    assert found.sentence.startswith(start)
    for cell in found.cells:
        if cell.domain == "2":
            assert cell.cosine < 0 and cell.cosine_alone < 0 and cell.p_value == 1 / 200
        else:
            assert cell.cosine > 0.8
    smallest = min(cell.cosine for cell in found.cells if cell.records >= 500)
    assert f"have cosines of at least {smallest:.3f} with" in found.sentence


def test_a_violation_lowers_the_pull_to_the_pooled_deduction() -> None:
    without, violated = (check(draw_domains(0, n=800, reversed_last=v)).pull for v in (False, True))
    assert violated < without


def test_cells_are_counted_and_sorted_and_those_of_few_records_have_no_map() -> None:
    truth = draw_domains(3, n=400, groups=3, sources=3)
    found = check(truth, draws=99)
    counts = Counter(zip(map(str, truth.domain), map(str, truth.group), strict=True))
    assert {(cell.domain, cell.group): cell.records for cell in found.cells} == counts
    sizes = [cell.records for cell in found.cells]
    assert sizes == sorted(sizes, reverse=True) and found.n_cells == 9
    truth = draw_domains(3, n=400, groups=3, sources=2)
    first = np.flatnonzero((truth.domain == 0) & (truth.group == 0))[9:]
    second = np.flatnonzero((truth.domain == 1) & (truth.group == 2))
    kept = np.setdiff1d(np.arange(800), [*first, *second])
    found = check(truth.take(kept), draws=99)
    assert found.n_cells == 5
    assert {cell.domain + cell.group for cell in found.cells} == {"01", "02", "10", "11"}


def test_separated_domains_and_groups_of_one_domain_each_stay_undecided() -> None:
    truth = draw_domains(0, n=200, reversed_last=True)
    found = check(truth.separated())
    assert found.verdict == "undecided" and found.effective_rows < 30
    assert found.sentence.startswith("Domains share too few inputs and groups")
    assert dumps(found.to_dict())
    found = check(replace(truth, group=truth.domain))
    assert found.verdict == "undecided" and found.n_cells == 2
