"""The maps behind factorized targets: from rows that they have not seen, and what is doubted."""

import warnings
from functools import cache

import numpy as np
import pytest
import torch

from regraft.core.domains import check_domains
from regraft.core.heads import SourceHeads, fit_source_heads
from regraft.premises.factorized_targets import (
    FactorizedTargets,
    check_n_groups,
    fit_factorized_targets,
)
from tests.helpers.factorized_domains import draw_disagreeing_groups
from tests.helpers.problems import Problem, make_problem


def fit(problem: Problem, n_groups: int = 2) -> tuple[SourceHeads, FactorizedTargets]:
    sources = problem.sources
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sources, fit_factorized_targets(sources, n_groups)


@cache
def disagreeing() -> tuple[SourceHeads, FactorizedTargets]:
    return fit(draw_disagreeing_groups(0, (0.9, 0.6)))


def test_groups_that_read_different_features_are_found() -> None:
    """The abductions differ by the sources' log-odds, and each deduction reads one feature."""
    sources, found = disagreeing()
    features = sources.whitening.to_features
    odds = torch.diff(features(found.abductions), dim=1)[:, 0]  # (K, d + 1)
    labels = torch.diff(features(found.deduction), dim=1)[:, 0]  # (G, d + 1)
    read = labels[:, :-1].abs().argmax(dim=1)
    assert sorted(read.tolist()) == [0, 1]
    first = -1 if read[0] == 0 else 1  # sign under which the first group's log-odds rise
    assert found.shift == "prior"
    assert float(first * (odds[0, -1] - odds[1, -1])) == pytest.approx(1.8, abs=0.6)
    assert len(found.hull.directions) == 1
    assert found.log_likelihood > sources.regularization.log_likelihood


def test_rows_are_judged_by_maps_that_have_not_seen_them() -> None:
    problem = draw_disagreeing_groups(1, (0.9, 0.6), n=150, d=12)
    sources, found = fit(problem)
    seen = found.prepare(sources.Z, sources.y, sources.weight, sources.domain)
    assert float(sources.weight @ seen.source_losses()) < -found.log_likelihood
    assert float(sources.weight @ found.rows.source_losses()) == pytest.approx(
        -found.log_likelihood
    )


def test_it_is_the_same_for_every_order() -> None:
    problem = draw_disagreeing_groups(2, (0.9, 0.6), n=100, d=3)
    _, first = fit(problem)
    order = torch.randperm(len(problem.y), generator=torch.Generator().manual_seed(0)).numpy()
    _, second = fit(problem.take(order))
    assert torch.allclose(first.hull.sources.abs(), second.hull.sources.abs(), atol=1e-3)


def test_doubts_come_in_one_warning_that_names_what_can_be_done() -> None:
    with pytest.warns(UserWarning, match=r'^the factorized maps are in doubt \(.*family="hull"\.$'):
        fit_factorized_targets(make_problem(n=60, d=3).sources, 3)


def test_a_tiny_source_and_a_single_one() -> None:
    problem = draw_disagreeing_groups(3, (0.8, 0.6, 0.7), n=30, d=3)
    last = [int(np.flatnonzero((problem.domain == "2") & (problem.y == c))[0]) for c in (0, 1)]
    _, found = fit(problem.take([*range(60), *last]))
    assert torch.isfinite(found.rows.own).all()
    alone = fit_source_heads(check_domains(problem.X, problem.y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(fit_factorized_targets(alone, 2).hull.directions) == 0


@pytest.mark.parametrize("n_groups", [1, 0, 33])
def test_impossible_numbers_of_groups(n_groups: int) -> None:
    with pytest.raises(ValueError, match="pass a number from 2 to 32"):
        check_n_groups(n_groups)
